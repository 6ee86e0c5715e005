/* The properties string: name 0x01 value 0x02, repeated. Corners as in MessageDecoder#string2messageProperties: a pair
 * without 0x01, with an empty name or an empty value is skipped, a value may hold 0x01, the last 0x02 may be missing,
 * the last duplicate wins. Working on bytes is the same as on UTF-16 units: 0x01 and 0x02 are never part of a longer
 * sequence.
 */
#ifndef RMQ_PROPERTIES_H
#define RMQ_PROPERTIES_H

#include "be.h"
#include "layout.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

typedef struct rmq_slice {
    const uint8_t *p; /* NULL: absent */
    uint32_t len;
} rmq_slice;

typedef struct rmq_prop {
    rmq_slice name, value;
} rmq_prop;

/* 64 bytes at a time: one bit a byte for 0x01 and for 0x02. */
typedef struct rmq_props_masks {
    uint64_t ones, twos;
} rmq_props_masks;

/* Steps through the pairs in stored order, duplicates included. */
typedef struct rmq_props_iter {
    const uint8_t *begin, *end; /* the string */
    const uint8_t *before;      /* first byte known to be readable, <= begin */
    const uint8_t *block;       /* the bytes of the masks */
    const uint8_t *name;        /* start of the open pair */
    const uint8_t *split;       /* its first 0x01, or NULL */
    uint64_t ones, twos;        /* separators of the block not yet visited */
} rmq_props_iter;

/* The steps are inline, by force: a record has two to eight pairs of a few bytes, calls cost as much as the work, and a
 * single remaining call keeps the whole iterator in memory. */
#define RMQ_PROPS_INLINE static inline __attribute__((always_inline))

#if defined(__SSE2__)

/* p must be readable for 64 bytes; the first 32 are looked at only if `whole`, else their bits are 0. Most strings are that
 * short, and 32 bytes take half the instructions. */
RMQ_PROPS_INLINE rmq_props_masks rmq_props_masks64(const uint8_t *p, int whole) {
    const __m128i one = _mm_set1_epi8(RMQ_NAME_VALUE_SEPARATOR), two = _mm_set1_epi8(RMQ_PROPERTY_SEPARATOR);
    rmq_props_masks m = {0, 0};
    for (int i = whole ? 0 : 2; i < 4; i++) {
        const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(p + 16 * i));
        m.ones |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(v, one)) << (16 * i);
        m.twos |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(v, two)) << (16 * i);
    }
    return m;
}

#else

/* Bit i: byte i of the word (first in memory = bit 0) has its top bit set. */
static inline uint64_t rmq_top_bits(uint64_t word) {
    return ((word & UINT64_C(0x8080808080808080)) >> 7) * UINT64_C(0x0102040810204080) >> 56;
}

static inline uint64_t rmq_equal_bits(uint64_t word, uint64_t pattern) {
    const uint64_t low = UINT64_C(0x7F7F7F7F7F7F7F7F);
    const uint64_t x = word ^ pattern;
    return rmq_top_bits(~(((x & low) + low) | x | low));
}

RMQ_PROPS_INLINE rmq_props_masks rmq_props_masks64(const uint8_t *p, int whole) {
    rmq_props_masks m = {0, 0};
    for (int i = whole ? 0 : 4; i < 8; i++) {
        /* A big-endian load, reversed: byte 0 in memory is the lowest, on any host. */
        const uint64_t word = __builtin_bswap64((uint64_t)rmq_load_i64(p + 8 * i));
        m.ones |= rmq_equal_bits(word, UINT64_C(0x0101010101010101)) << (8 * i);
        m.twos |= rmq_equal_bits(word, UINT64_C(0x0202020202020202)) << (8 * i);
    }
    return m;
}
#endif

/* Loads the masks of the up to 64 bytes at it->block without reading outside [before, end). */
RMQ_PROPS_INLINE void rmq_props_load(rmq_props_iter *it) {
    const size_t left = (size_t)(it->end - it->block);
    rmq_props_masks m;
    if (left >= 64) {
        m = rmq_props_masks64(it->block, 1);
    } else if ((size_t)(it->block - it->before) >= 64 - left) {
        /* The last bytes through a load that ends at `end`; the shift drops what lies in front. */
        m = left > 32 ? rmq_props_masks64(it->end - 64, 1) : rmq_props_masks64(it->end - 64, 0);
        m.ones >>= 64 - left;
        m.twos >>= 64 - left;
    } else {
        uint8_t copy[64] = {0};
        memcpy(copy, it->block, left);
        m = rmq_props_masks64(copy, 1);
    }
    it->ones = m.ones;
    it->twos = m.twos;
}

/* Reads only [props - before, props + len): a record has at least 88 bytes in front of its properties, which lets the last
 * block be loaded whole; a bare string passes before = 0. */
RMQ_PROPS_INLINE void rmq_props_begin(rmq_props_iter *it, const uint8_t *props, size_t len, size_t before) {
    it->begin = it->block = it->name = props;
    it->end = props + len;
    it->before = props - before;
    it->split = NULL;
    it->ones = it->twos = 0;
    if (len) rmq_props_load(it);
}

/* Fills *out from name 0x01 value; split is the first 0x01 or NULL. */
RMQ_PROPS_INLINE int rmq_props_pair(const uint8_t *name, const uint8_t *split, const uint8_t *end, rmq_prop *out) {
    if (split == NULL || split == name || split + 1 >= end) return 0;
    out->name.p = name;
    out->name.len = (uint32_t)(split - name);
    out->value.p = split + 1;
    out->value.len = (uint32_t)(end - split - 1);
    return 1;
}

/* 1 and the next pair, or 0 at the end. */
RMQ_PROPS_INLINE int rmq_props_next(rmq_props_iter *it, rmq_prop *out) {
    for (;;) {
        /* By pairs, not by separators: the processor cannot predict whether the next one is a 0x01 or a 0x02. */
        while (it->twos) {
            const uint8_t *end = it->block + __builtin_ctzll(it->twos), *name = it->name, *split = it->split;
            const uint64_t below = it->twos ^ (it->twos - 1), ones = it->ones & below;
            if (split == NULL && ones) split = it->block + __builtin_ctzll(ones);
            it->ones &= ~below;
            it->twos &= it->twos - 1;
            it->name = end + 1;
            it->split = NULL;
            if (rmq_props_pair(name, split, end, out)) return 1;
        }
        if (it->split == NULL && it->ones) it->split = it->block + __builtin_ctzll(it->ones);
        it->ones = 0;
        if ((size_t)(it->end - it->block) > 64) {
            it->block += 64;
            rmq_props_load(it);
            continue;
        }
        /* A last pair without its 0x02. */
        const uint8_t *name = it->name, *split = it->split;
        it->name = it->end;
        it->split = NULL;
        return name < it->end && rmq_props_pair(name, split, it->end, out);
    }
}

/* The properties that the engine itself uses, of duplicates the last. */
typedef struct rmq_known_props {
    rmq_slice tags, keys, uniq_key, delay, inner_multi_dispatch, inner_multi_queue_offset;
} rmq_known_props;

/* Field by field: gcc makes a `rep stos` of a memset or an initialiser, which costs as much as parsing two pairs. */
static inline void rmq_props_none(rmq_known_props *known) {
    static const rmq_slice none = {NULL, 0};
    known->tags = none;
    known->keys = none;
    known->uniq_key = none;
    known->delay = none;
    known->inner_multi_dispatch = none;
    known->inner_multi_queue_offset = none;
}

static inline int rmq_prop_is(const rmq_prop *prop, const char *name, uint32_t len) {
    return prop->name.len == len && memcmp(prop->name.p, name, len) == 0;
}

/* Notes one pair; a later pair of the same name replaces it. */
static inline void rmq_props_note(rmq_known_props *known, const rmq_prop *prop) {
    if (prop->name.len == 4) {
        if (rmq_prop_is(prop, "TAGS", 4)) known->tags = prop->value;
        else if (rmq_prop_is(prop, "KEYS", 4)) known->keys = prop->value;
    } else if (rmq_prop_is(prop, "UNIQ_KEY", 8)) {
        known->uniq_key = prop->value;
    } else if (rmq_prop_is(prop, "DELAY", 5)) {
        known->delay = prop->value;
    } else if (rmq_prop_is(prop, "INNER_MULTI_DISPATCH", 20)) {
        known->inner_multi_dispatch = prop->value;
    } else if (rmq_prop_is(prop, "INNER_MULTI_QUEUE_OFFSET", 24)) {
        known->inner_multi_queue_offset = prop->value;
    }
}

RMQ_PROPS_INLINE void rmq_props_known(const uint8_t *props, size_t len, size_t before, rmq_known_props *out) {
    rmq_props_none(out);
    rmq_props_iter it;
    rmq_prop prop;
    rmq_props_begin(&it, props, len, before);
    while (rmq_props_next(&it, &prop)) rmq_props_note(out, &prop);
}

/* Steps through the words of a KEYS value (split on single spaces, empty ones skipped); start with pos = 0. */
int rmq_keys_next(rmq_slice keys, size_t *pos, rmq_slice *word);

#endif
