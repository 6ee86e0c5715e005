/* The CRC-32 of any part of a file in constant time, from the states that one pass over the file has noted.
 *
 * A state is the remainder of all bytes before a position, begun with 0. It is linear, so the state of a part follows from
 * the states at its two ends, and zeros (holes) only multiply it by a power of x.
 */
#ifndef RMQ_CRC32_STATES_H
#define RMQ_CRC32_STATES_H

#include "crc32/crc32.h"

/* power[k][d] = x^(8 * d * 256^k) modulo the polynomial: the remainder advances by any 64-bit number of bytes in at most
 * eight products, and by fewer than 256 bytes in one. */
typedef struct rmq_crc32_powers {
    uint32_t power[8][256];
} rmq_crc32_powers;

void rmq_crc32_powers_init(rmq_crc32_powers *powers);

/* The state behind len more zeros, behind the len bytes of buf; and the CRC-32 of the len bytes between two states. */
uint32_t rmq_crc32_zeros(const rmq_crc32_powers *powers, uint32_t state, uint64_t len);
uint32_t rmq_crc32_more(const rmq_crc32_powers *powers, uint32_t state, const uint8_t *buf, size_t len);
uint32_t rmq_crc32_between(const rmq_crc32_powers *powers, uint32_t before, uint32_t after, uint64_t len);

/* Present bytes [start, end); the bytes between two extents, and behind the last, are zeros. */
typedef struct rmq_crc32_extent {
    int64_t start, end;
    size_t first;  /* states[first + i] is the state at start + i * block */
    uint32_t last; /* the state at end */
} rmq_crc32_extent;

/* The arrays belong to the caller, which makes room before each call: an extent for rmq_crc32_begin_extent, and a state for
 * each begun block for rmq_crc32_add. */
typedef struct rmq_crc32_states {
    rmq_crc32_powers powers;
    uint32_t *states;
    rmq_crc32_extent *extents;
    size_t state_count, extent_count;
    size_t block; /* bytes from state to state */
} rmq_crc32_states;

/* Extents are begun in order, and do not overlap. */
void rmq_crc32_begin_extent(rmq_crc32_states *states, int64_t start);

/* The next bytes of the extent that was begun last: whole blocks, except in its last call. */
void rmq_crc32_add(rmq_crc32_states *states, const uint8_t *buf, size_t len);

/* The state at *known, the last position up to pos whose state is noted or follows from one. The caller adds the bytes
 * [*known, pos), less than a block (rmq_crc32_more). */
uint32_t rmq_crc32_state(const rmq_crc32_states *states, int64_t pos, int64_t *known);

#endif
