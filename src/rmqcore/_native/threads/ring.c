/* syscall */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "threads/ring.h"

#include <time.h>

#if defined(__linux__)
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

void rmq_ring_ring(rmq_ring *ring) {
    __atomic_store_n(&ring->rung, 1, __ATOMIC_SEQ_CST);
#if defined(__linux__) && defined(SYS_futex)
    syscall(SYS_futex, &ring->rung, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
#endif
}

void rmq_ring_nap(const rmq_ring *ring, int64_t microseconds) {
    const struct timespec length = {0, (long)microseconds * 1000};
    if (rmq_ring_rung(ring)) return;
#if defined(__linux__) && defined(SYS_futex)
    syscall(SYS_futex, &ring->rung, FUTEX_WAIT_PRIVATE, 0, &length, NULL, 0);
#else
    nanosleep(&length, NULL);
#endif
}

int64_t rmq_now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}
