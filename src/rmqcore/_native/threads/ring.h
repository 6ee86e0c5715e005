/* A ring: a number that one thread sets and another reads while it works or sleeps without Python. */
#ifndef RMQ_RING_H
#define RMQ_RING_H

#include <stdint.h>

typedef struct rmq_ring {
    uint32_t rung; /* atomic */
} rmq_ring;

/* Rings, and ends a sleep. It never waits, so a forked child may call it, whatever its parent's threads were doing. */
void rmq_ring_ring(rmq_ring *ring);
static inline void rmq_ring_clear(rmq_ring *ring) { __atomic_store_n(&ring->rung, 0, __ATOMIC_SEQ_CST); }
static inline int rmq_ring_rung(const rmq_ring *ring) { return __atomic_load_n(&ring->rung, __ATOMIC_SEQ_CST) != 0; }

/* Sleeps about this long, below one second, or until the ring; perhaps shorter. On systems where a sleep cannot be
 * ended it takes the full time. */
void rmq_ring_nap(const rmq_ring *ring, int64_t microseconds);

/* Of a clock that cannot be set. */
int64_t rmq_now_us(void);

#endif
