/* The yardstick of the native benches: a plain sum of bytes, which the compiler turns into the machine's widest loads. */
#ifndef BENCH_PLAIN_SUM_H
#define BENCH_PLAIN_SUM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#define BENCH_WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define BENCH_WIDEST
#endif

/* Adds the bytes up 8 at a time, in blocks of 256; bytes behind the last whole block are left out. */
BENCH_WIDEST static uint64_t plain_sum(const uint8_t *data, size_t len) {
    uint64_t sum[32] = {0};
    for (size_t i = 0; i + 256 <= len; i += 256) {
        uint64_t v[32];
        memcpy(v, data + i, sizeof v);
        for (int k = 0; k < 32; k++) sum[k] += v[k];
    }
    uint64_t all = 0;
    for (int k = 0; k < 32; k++) all += sum[k];
    return all;
}

#endif
