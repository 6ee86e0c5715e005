#include "format/utf8.h"

size_t rmq_utf8_next(const uint8_t *p, size_t left, uint32_t *cp) {
    uint8_t lead = p[0];
    if (lead < 0x80) {
        *cp = lead;
        return 1;
    }
    *cp = 0xFFFD;
    /* Unicode table 3-7: the second byte's range depends on the lead, the others are 80..BF. */
    size_t more;
    uint8_t low = 0x80, high = 0xBF;
    uint32_t value;
    if (lead >= 0xC2 && lead <= 0xDF) {
        more = 1;
        value = lead & 0x1FU;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
        more = 2;
        value = lead & 0x0FU;
        if (lead == 0xE0) low = 0xA0;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
        more = 3;
        value = lead & 0x07U;
        if (lead == 0xF0) low = 0x90;
        if (lead == 0xF4) high = 0x8F;
    } else {
        return 1;
    }
    for (size_t i = 1; i <= more; i++) {
        if (i >= left || p[i] < low || p[i] > high) return i;
        value = value << 6 | (p[i] & 0x3FU);
        low = 0x80;
        high = 0xBF;
    }
    if (value >= 0xD800 && value <= 0xDFFF) return more + 1; /* an encoded surrogate: one U+FFFD for its 3 bytes */
    *cp = value;
    return more + 1;
}

int rmq_utf8_valid(const uint8_t *p, size_t len) {
    if (rmq_is_ascii(p, len)) return 1;
    while (len) {
        uint32_t cp;
        size_t used = rmq_utf8_next(p, len, &cp);
        if (cp == 0xFFFD && !(used == 3 && p[0] == 0xEF && p[1] == 0xBF && p[2] == 0xBD)) return 0;
        p += used;
        len -= used;
    }
    return 1;
}

size_t rmq_utf8_sanitize(const uint8_t *p, size_t len, uint8_t *out) {
    const uint8_t *begin = out;
    while (len) {
        uint32_t cp;
        size_t used = rmq_utf8_next(p, len, &cp);
        if (cp == 0xFFFD) {
            *out++ = 0xEF;
            *out++ = 0xBF;
            *out++ = 0xBD;
        } else {
            memcpy(out, p, used);
            out += used;
        }
        p += used;
        len -= used;
    }
    return (size_t)(out - begin);
}
