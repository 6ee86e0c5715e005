/* Java's String.hashCode: eight ASCII bytes per step, anything else one code point at a time. */
#include "format/jhash.h"

#include <string.h>

#include "format/utf8.h"

/* 31^0 .. 31^8 mod 2^32: eight steps of Horner's rule at once break its chain of multiplications. */
enum { POW1 = 31, POW2 = 961, POW3 = 29791, POW4 = 923521, POW5 = 28629151, POW6 = 887503681, POW7 = 1742810335 };
static const uint32_t POW8 = 2487512833U;

static inline int eight_are_ascii(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return (v & UINT64_C(0x8080808080808080)) == 0;
}

uint32_t rmq_jhash_any(uint32_t seed, const uint8_t *utf8, size_t len) {
    uint32_t h = seed;
    while (len > 0) {
        if (len >= 8 && eight_are_ascii(utf8)) {
            const uint8_t *p = utf8;
            h = h * POW8 + p[0] * (uint32_t)POW7 + p[1] * (uint32_t)POW6 + p[2] * (uint32_t)POW5 +
                p[3] * (uint32_t)POW4 + p[4] * (uint32_t)POW3 + p[5] * (uint32_t)POW2 + p[6] * (uint32_t)POW1 + p[7];
            utf8 += 8;
            len -= 8;
        } else if (*utf8 < 0x80) {
            h = h * POW1 + *utf8++;
            len--;
        } else {
            uint32_t cp;
            size_t used = rmq_utf8_next(utf8, len, &cp);
            if (cp >= 0x10000) { /* a surrogate pair: two UTF-16 units */
                h = h * POW1 + (0xD800U + ((cp - 0x10000) >> 10));
                cp = 0xDC00U + (cp & 0x3FF);
            }
            h = h * POW1 + cp;
            utf8 += used;
            len -= used;
        }
    }
    return h;
}
