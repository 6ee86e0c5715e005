/* Java's String.hashCode over text held as UTF-8.
 *
 * The hash runs over UTF-16 code units with 32-bit wrap: h = 31 * h + unit. Malformed UTF-8 counts as U+FFFD where
 * rmq_utf8_sanitize (utf8.h) would put one, so the hash is that of the text Java would have decoded.
 */
#ifndef RMQ_JHASH_H
#define RMQ_JHASH_H

#include <stddef.h>
#include <stdint.h>

/* Continues `seed` (0 for a whole string) over len bytes of UTF-8. Reads only [utf8, utf8 + len). */
uint32_t rmq_jhash(uint32_t seed, const uint8_t *utf8, size_t len);

/* The hash of an index key: abs, with INT32_MIN -> 0 (IndexFile#indexKeyHashMethod). */
static inline int32_t rmq_index_key_hash(uint32_t jhash) {
    int32_t h = (int32_t)jhash;
    if (h == INT32_MIN) return 0;
    return h < 0 ? -h : h;
}

#endif
