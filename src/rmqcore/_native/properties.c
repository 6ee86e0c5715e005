#include "properties.h"
#include "be.h"

#if defined(__SSE2__)
#include <emmintrin.h>

/* Four 16-byte compares instead of a byte loop: 70 bytes of properties take 2 loads of masks. */
rmq_props_masks rmq_props_masks64(const uint8_t *p) {
    const __m128i one = _mm_set1_epi8(RMQ_NAME_VALUE_SEPARATOR), two = _mm_set1_epi8(RMQ_PROPERTY_SEPARATOR);
    rmq_props_masks m = {0, 0, 0};
    for (int i = 0; i < 4; i++) {
        const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(p + 16 * i));
        m.ones |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(v, one)) << (16 * i);
        m.twos |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(v, two)) << (16 * i);
        m.high |= (uint64_t)(uint32_t)_mm_movemask_epi8(v) << (16 * i);
    }
    return m;
}

#else

/* Bit i: byte i of the word (first in memory = bit 0) has its top bit set. */
static uint64_t top_bits(uint64_t word) {
    return ((word & UINT64_C(0x8080808080808080)) >> 7) * UINT64_C(0x0102040810204080) >> 56;
}

static uint64_t equal_bits(uint64_t word, uint64_t pattern) {
    const uint64_t low = UINT64_C(0x7F7F7F7F7F7F7F7F);
    const uint64_t x = word ^ pattern;
    return top_bits(~(((x & low) + low) | x | low));
}

rmq_props_masks rmq_props_masks64(const uint8_t *p) {
    rmq_props_masks m = {0, 0, 0};
    for (int i = 0; i < 8; i++) {
        /* A big-endian load turned round: byte 0 in memory is the lowest, whatever the host. */
        const uint64_t word = __builtin_bswap64((uint64_t)rmq_load_i64(p + 8 * i));
        m.ones |= equal_bits(word, UINT64_C(0x0101010101010101)) << (8 * i);
        m.twos |= equal_bits(word, UINT64_C(0x0202020202020202)) << (8 * i);
        m.high |= top_bits(word) << (8 * i);
    }
    return m;
}
#endif

/* Loads the masks of the up to 64 bytes at it->block without reading outside [before, end). */
static void load_block(rmq_props_iter *it) {
    const size_t left = (size_t)(it->end - it->block);
    rmq_props_masks m;
    if (left >= 64) {
        m = rmq_props_masks64(it->block);
    } else if ((size_t)(it->block - it->before) >= 64 - left) {
        /* The last bytes through a load that ends at `end`; the shift drops what lies in front. */
        m = rmq_props_masks64(it->end - 64);
        m.ones >>= 64 - left;
        m.twos >>= 64 - left;
        m.high >>= 64 - left;
    } else {
        uint8_t copy[64] = {0};
        memcpy(copy, it->block, left);
        m = rmq_props_masks64(copy);
    }
    it->ones = m.ones;
    it->twos = m.twos;
    it->high |= m.high;
}

void rmq_props_begin(rmq_props_iter *it, const uint8_t *props, size_t len, size_t before) {
    it->begin = it->block = it->name = props;
    it->end = props + len;
    it->before = props - before;
    it->split = NULL;
    it->ones = it->twos = it->high = 0;
    if (len) load_block(it);
}

static int close_pair(rmq_props_iter *it, const uint8_t *end, rmq_prop *out) {
    const uint8_t *name = it->name, *split = it->split;
    it->name = end < it->end ? end + 1 : end;
    it->split = NULL;
    if (split == NULL || split == name || split + 1 >= end) return 0;
    out->name.p = name;
    out->name.len = (uint32_t)(split - name);
    out->value.p = split + 1;
    out->value.len = (uint32_t)(end - split - 1);
    return 1;
}

int rmq_props_next(rmq_props_iter *it, rmq_prop *out) {
    for (;;) {
        uint64_t both;
        while ((both = it->ones | it->twos) != 0) {
            const uint64_t bit = both & (0 - both);
            const uint8_t *at = it->block + __builtin_ctzll(both);
            if (it->ones & bit) {
                it->ones ^= bit;
                if (it->split == NULL) it->split = at;
            } else {
                it->twos ^= bit;
                if (close_pair(it, at, out)) return 1;
            }
        }
        if ((size_t)(it->end - it->block) > 64) {
            it->block += 64;
            load_block(it);
            continue;
        }
        if (it->name >= it->end) return 0;
        if (close_pair(it, it->end, out)) return 1;
    }
}

static int named(const rmq_prop *prop, const char *name, uint32_t len) {
    return prop->name.len == len && memcmp(prop->name.p, name, len) == 0;
}

void rmq_props_note(rmq_known_props *known, const rmq_prop *prop) {
    switch (prop->name.len) {
        case 4:
            if (named(prop, "TAGS", 4)) known->tags = prop->value;
            else if (named(prop, "KEYS", 4)) known->keys = prop->value;
            break;
        case 5:
            if (named(prop, "DELAY", 5)) known->delay = prop->value;
            break;
        case 8:
            if (named(prop, "UNIQ_KEY", 8)) known->uniq_key = prop->value;
            break;
        case 20:
            if (named(prop, "INNER_MULTI_DISPATCH", 20)) known->inner_multi_dispatch = prop->value;
            break;
        case 24:
            if (named(prop, "INNER_MULTI_QUEUE_OFFSET", 24)) known->inner_multi_queue_offset = prop->value;
            break;
        default:
            break;
    }
}

void rmq_props_known(const uint8_t *props, size_t len, size_t before, rmq_known_props *out) {
    memset(out, 0, sizeof *out);
    rmq_props_iter it;
    rmq_prop prop;
    rmq_props_begin(&it, props, len, before);
    while (rmq_props_next(&it, &prop)) rmq_props_note(out, &prop);
}

int rmq_keys_next(rmq_slice keys, size_t *pos, rmq_slice *token) {
    while (*pos < keys.len) {
        const uint8_t *begin = keys.p + *pos;
        size_t left = keys.len - *pos;
        const uint8_t *end = memchr(begin, ' ', left);
        if (end == NULL) end = begin + left;
        *pos += (size_t)(end - begin) + 1;
        if (end == begin) continue;
        token->p = begin;
        token->len = (uint32_t)(end - begin);
        return 1;
    }
    return 0;
}
