/* Measures the nanoseconds a call of each CRC-32 kernel and of zlib, for bodies that lie as in a CommitLog (91 bytes of other
 * fields between them) in 256 KiB. The contenders take turns in every round. Prints "KERNEL LENGTH NANOSECONDS". */
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "crc32/crc32.h"
#include "timing.h"

enum { ROUNDS = 31, SPAN = 256 << 10, LONGEST = 1 << 20, BETWEEN = 91 };

static uint32_t zlib_crc32(const uint8_t *buf, size_t len) { return (uint32_t)crc32(0, buf, (uInt)len); }

typedef struct contender {
    const char *name;
    rmq_crc32_fn fn;
    double ns[ROUNDS];
} contender;

static volatile uint32_t sink;

static double ns_a_call(rmq_crc32_fn fn, const uint8_t *data, size_t len) {
    const size_t stride = len + BETWEEN, bodies = stride <= SPAN ? SPAN / stride : 1;
    const size_t repeats = 1 + 2000000 / (bodies * (len + 200)); /* about 2 MB of work a measurement */
    uint32_t all = 0;
    const double start = cpu_seconds();
    for (size_t r = 0; r < repeats; r++) {
        for (size_t i = 0; i < bodies; i++) all ^= fn(data + i * stride, len);
    }
    sink = all;
    return (cpu_seconds() - start) * 1e9 / (double)(repeats * bodies);
}

int main(void) {
    static const char *const names[] = {"zlib", "vpclmul", "pclmul", "armv8", "slicing"};
    static const size_t lengths[] = {16, 64, 100, 128, 256, 300, 1024, 4096, LONGEST};
    static contender contenders[sizeof names / sizeof names[0]];
    int count = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        rmq_crc32_fn fn = strcmp(names[i], "zlib") == 0 ? zlib_crc32 : rmq_crc32_kernel(names[i]);
        if (fn != NULL) contenders[count++] = (contender){.name = names[i], .fn = fn};
    }
    uint8_t *data = malloc(LONGEST + SPAN);
    if (data == NULL) return 1;
    uint32_t x = 1;
    for (size_t i = 0; i < LONGEST + SPAN; i++) data[i] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24);
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
        for (int round = 0; round < ROUNDS; round++) {
            for (int i = 0; i < count; i++) contenders[i].ns[round] = ns_a_call(contenders[i].fn, data, lengths[l]);
        }
        for (int i = 0; i < count; i++) {
            printf("%s %zu %.2f\n", contenders[i].name, lengths[l], median(contenders[i].ns, ROUNDS));
        }
    }
    rmq_crc32_select(NULL);
    printf("chosen %s\n", rmq_crc32_name());
    free(data);
    return 0;
}
