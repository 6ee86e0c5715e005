/* UTF-8 checks. Malformed input becomes what Java's decoder makes of it: each maximal subpart of an ill-formed sequence
 * is one U+FFFD (3 bytes), and so are the 2 or 3 bytes of an encoded surrogate, for which Python's errors="replace" has one
 * U+FFFD per byte. */
#ifndef RMQ_UTF8_H
#define RMQ_UTF8_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* 1 when all bytes are ASCII. */
static inline int rmq_is_ascii(const uint8_t *p, size_t len) {
    const uint64_t high = UINT64_C(0x8080808080808080);
    uint64_t seen = 0, word;
    if (len < 8) {
        for (size_t i = 0; i < len; i++) seen |= p[i];
        return (seen & 0x80) == 0;
    }
    for (size_t i = 0; i + 8 < len; i += 8) {
        memcpy(&word, p + i, 8);
        seen |= word;
    }
    /* The last 8 bytes, some of them for the second time: no loop over a remainder of changing length. */
    memcpy(&word, p + len - 8, 8);
    return ((seen | word) & high) == 0;
}

/* 1 when well-formed UTF-8 (no surrogates, no overlong forms, nothing above U+10FFFF). */
int rmq_utf8_valid(const uint8_t *p, size_t len);

/* Decodes one code point at p[0..left), left > 0. Returns the bytes used (>= 1) and sets *cp, U+FFFD when malformed. */
size_t rmq_utf8_next(const uint8_t *p, size_t left, uint32_t *cp);

/* Writes the well-formed version of len bytes to out (room: 3 * len), returns the bytes written. */
size_t rmq_utf8_sanitize(const uint8_t *p, size_t len, uint8_t *out);

#endif
