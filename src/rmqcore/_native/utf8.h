/* UTF-8 checks. Malformed input becomes what Java's decoder makes of it: each maximal subpart of an ill-formed sequence
 * is one U+FFFD (3 bytes), and so are the 2 or 3 bytes of an encoded surrogate, where Python's errors="replace" gives one
 * U+FFFD a byte. */
#ifndef RMQ_UTF8_H
#define RMQ_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* 1 when all bytes are ASCII. */
int rmq_is_ascii(const uint8_t *p, size_t len);

/* 1 when well-formed UTF-8 (no surrogates, no overlong forms, nothing above U+10FFFF). */
int rmq_utf8_valid(const uint8_t *p, size_t len);

/* Decodes one code point at p[0..left), left > 0. Answers the bytes used (>= 1) and sets *cp, U+FFFD when malformed. */
size_t rmq_utf8_next(const uint8_t *p, size_t left, uint32_t *cp);

/* Writes the well-formed version of len bytes to out (room: 3 * len), answers the bytes written. */
size_t rmq_utf8_sanitize(const uint8_t *p, size_t len, uint8_t *out);

#endif
