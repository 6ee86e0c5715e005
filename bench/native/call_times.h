/* What calls took: counted in buckets, so that ten million of them need no memory that grows. */
#ifndef BENCH_CALL_TIMES_H
#define BENCH_CALL_TIMES_H

#include <stdint.h>
#include <time.h>

enum {
    CALL_BITS = 10, /* a bucket is at most 1/1024 of its value wide */
    CALL_BUCKETS = (64 - CALL_BITS) << CALL_BITS,
    CALL_STALL_NS = 1000000,
};

typedef struct call_times {
    uint32_t counts[CALL_BUCKETS];
    uint64_t calls, worst, stalls, stalled_ns; /* a stall is a call of more than CALL_STALL_NS */
} call_times;

static inline uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static inline uint64_t call_bucket(uint64_t ns) {
    if (ns < (UINT64_C(1) << CALL_BITS)) return ns;
    const int shift = 63 - __builtin_clzll(ns) - CALL_BITS;
    return ((uint64_t)(shift + 1) << CALL_BITS) + (ns >> shift) - (UINT64_C(1) << CALL_BITS);
}

static inline void note_call(call_times *times, uint64_t ns) {
    times->counts[call_bucket(ns)]++;
    times->calls++;
    if (ns > times->worst) times->worst = ns;
    if (ns > CALL_STALL_NS) {
        times->stalls++;
        times->stalled_ns += ns;
    }
}

/* The least value of the bucket in which the call at this share of all of them lies. */
static inline uint64_t call_percentile(const call_times *times, double share) {
    const uint64_t rank = (uint64_t)(share * (double)times->calls);
    uint64_t below = 0, bucket = 0;
    while (bucket + 1 < CALL_BUCKETS && (below += times->counts[bucket]) <= rank) bucket++;
    if (bucket < (UINT64_C(1) << CALL_BITS)) return bucket;
    const uint64_t shift = (bucket >> CALL_BITS) - 1;
    return ((bucket & ((UINT64_C(1) << CALL_BITS) - 1)) + (UINT64_C(1) << CALL_BITS)) << shift;
}

#endif
