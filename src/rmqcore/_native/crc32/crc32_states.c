#include "crc32/crc32_states.h"

/* Polynomials over GF(2) modulo the CRC's, the bits reflected: the highest bit is x^0. */
enum { POLYNOMIAL_BITS = 32 };
#define POLYNOMIAL UINT32_C(0xEDB88320)
#define X0 UINT32_C(0x80000000)
#define X8 UINT32_C(0x00800000)

static uint32_t product(uint32_t a, uint32_t b) {
    uint32_t sum = 0;
    for (int i = 0; i < POLYNOMIAL_BITS; i++) {
        sum ^= b & (UINT32_C(0) - (a >> 31));
        a <<= 1;
        b = (b >> 1) ^ (POLYNOMIAL & (UINT32_C(0) - (b & 1)));
    }
    return sum;
}

void rmq_crc32_powers_init(rmq_crc32_powers *powers) {
    uint32_t step = X8;
    for (int k = 0; k < 8; k++) {
        powers->power[k][0] = X0;
        for (int d = 1; d < 256; d++) powers->power[k][d] = product(powers->power[k][d - 1], step);
        step = product(powers->power[k][255], step);
    }
}

uint32_t rmq_crc32_zeros(const rmq_crc32_powers *powers, uint32_t state, uint64_t len) {
    for (int k = 0; len; k++, len >>= 8) {
        if (len & 0xFF) state = product(powers->power[k][len & 0xFF], state);
    }
    return state;
}

/* A CRC-32 is the complement of the state that began with all bits set. */
uint32_t rmq_crc32_more(const rmq_crc32_powers *powers, uint32_t state, const uint8_t *buf, size_t len) {
    return rmq_crc32_zeros(powers, ~state, len) ^ ~rmq_crc32(buf, len);
}

uint32_t rmq_crc32_between(const rmq_crc32_powers *powers, uint32_t before, uint32_t after, uint64_t len) {
    return ~(rmq_crc32_zeros(powers, ~before, len) ^ after);
}

void rmq_crc32_begin_extent(rmq_crc32_states *states, int64_t start) {
    uint32_t state = 0;
    if (states->extent_count) {
        const rmq_crc32_extent *before = &states->extents[states->extent_count - 1];
        state = rmq_crc32_zeros(&states->powers, before->last, (uint64_t)(start - before->end));
    }
    states->extents[states->extent_count++] = (rmq_crc32_extent){start, start, states->state_count, state};
}

void rmq_crc32_add(rmq_crc32_states *states, const uint8_t *buf, size_t len) {
    rmq_crc32_extent *extent = &states->extents[states->extent_count - 1];
    extent->end += (int64_t)len;
    while (len) {
        const size_t part = len < states->block ? len : states->block;
        states->states[states->state_count++] = extent->last;
        extent->last = rmq_crc32_more(&states->powers, extent->last, buf, part);
        buf += part;
        len -= part;
    }
}

uint32_t rmq_crc32_state(const rmq_crc32_states *states, int64_t pos, int64_t *known) {
    size_t low = 0,
           high = states->extent_count; /* extents[0, low) begin at pos or before, extents[high, ...) behind it */
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (states->extents[middle].start <= pos) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *known = pos;
    if (low == 0) return 0;
    const rmq_crc32_extent *extent = &states->extents[low - 1];
    if (pos >= extent->end) return rmq_crc32_zeros(&states->powers, extent->last, (uint64_t)(pos - extent->end));
    const size_t number = (size_t)(pos - extent->start) / states->block;
    *known = extent->start + (int64_t)(number * states->block);
    return states->states[extent->first + number];
}
