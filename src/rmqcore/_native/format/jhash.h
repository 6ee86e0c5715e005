/* Java's String.hashCode over text held as UTF-8.
 *
 * The hash runs over UTF-16 code units with 32-bit wrap: h = 31 * h + unit. Malformed UTF-8 counts as U+FFFD where
 * rmq_utf8_sanitize (utf8.h) would put one, so the hash is that of the text Java would have decoded.
 */
#ifndef RMQ_JHASH_H
#define RMQ_JHASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Continues `seed` (0 for a whole string) over len bytes of UTF-8. Reads only [utf8, utf8 + len). */
uint32_t rmq_jhash_any(uint32_t seed, const uint8_t *utf8, size_t len);

/* The same; ASCII of four to seven characters, as most tags are, without a call. */
static inline uint32_t rmq_jhash(uint32_t seed, const uint8_t *utf8, size_t len) {
    if (len >= 4 && len < 8) {
        uint32_t first, last; /* may overlap */
        memcpy(&first, utf8, sizeof first);
        memcpy(&last, utf8 + len - sizeof last, sizeof last);
        if (((first | last) & UINT32_C(0x80808080)) == 0) {
            /* 31^4, 31^3, 31^2: four steps of Horner's rule at once. */
            uint32_t h = seed * UINT32_C(923521) + utf8[0] * UINT32_C(29791) + utf8[1] * UINT32_C(961) +
                         utf8[2] * UINT32_C(31) + utf8[3];
            for (size_t i = 4; i < len; i++) h = h * UINT32_C(31) + utf8[i];
            return h;
        }
    }
    return rmq_jhash_any(seed, utf8, len);
}

/* The hash of an index key: abs, with INT32_MIN -> 0 (IndexFile#indexKeyHashMethod). */
static inline int32_t rmq_index_key_hash(uint32_t jhash) {
    int32_t h = (int32_t)jhash;
    if (h == INT32_MIN) return 0;
    return h < 0 ? -h : h;
}

#endif
