/* UTF-8: every sequence of up to three bytes and the telling ones of four, at a page that may not be read. What must hold is
 * said by Unicode's table 3-7, spelled out here as ranges; encoded surrogates are one U+FFFD as in Java. */
#define _GNU_SOURCE
#include "check.h"
#include "format/jhash.h"
#include "format/utf8.h"

static area memory;

typedef struct row {
    uint8_t first_low, first_high, second_low, second_high;
    size_t size;
} row;

static const row table[] = {
    {0x00, 0x7F, 0, 0, 1},       {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
    {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
    {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
};

/* Size of the well-formed sequence at p, 0 when there is none. */
static size_t well_formed(const uint8_t *p, size_t left) {
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const row r = table[i];
        if (p[0] < r.first_low || p[0] > r.first_high) continue;
        if (r.size == 1) return 1;
        if (left < r.size || p[1] < r.second_low || p[1] > r.second_high) return 0;
        for (size_t k = 2; k < r.size; k++) {
            if (p[k] < 0x80 || p[k] > 0xBF) return 0;
        }
        return r.size;
    }
    return 0;
}

static uint32_t code_point(const uint8_t *p, size_t size) {
    static const uint8_t mask[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t value = p[0] & mask[size];
    for (size_t i = 1; i < size; i++) value = value << 6 | (p[i] & 0x3FU);
    return value;
}

static uint32_t hash_of_units(const uint8_t *p, size_t len) {
    uint32_t h = 0;
    for (size_t i = 0; i < len;) {
        const size_t size = well_formed(p + i, len - i);
        if (size == 0) abort();
        uint32_t cp = code_point(p + i, size);
        if (cp >= 0x10000) {
            h = h * 31 + 0xD800U + ((cp - 0x10000) >> 10);
            cp = 0xDC00U + ((cp - 0x10000) & 0x3FF);
        }
        h = h * 31 + cp;
        i += size;
    }
    return h;
}

static void one(const uint8_t *bytes, size_t len) {
    const uint8_t *p = at_end(memory, bytes, len);
    int valid = 1, ascii = 1;
    for (size_t i = 0; i < len;) {
        const size_t size = well_formed(p + i, len - i);
        uint32_t cp;
        const size_t used = rmq_utf8_next(p + i, len - i, &cp);
        EXPECT(used >= 1 && used <= len - i, "%02x: used %zu", p[i], used);
        if (size) {
            EXPECT(used == size && cp == code_point(p + i, size), "%02x: code point %x", p[i], cp);
        } else {
            valid = 0;
            EXPECT(cp == 0xFFFD && used <= 3, "%02x: malformed", p[i]);
        }
        if (p[i] >= 0x80) ascii = 0;
        i += used;
    }
    EXPECT(rmq_is_ascii(p, len) == ascii, "ascii");
    EXPECT(rmq_utf8_valid(p, len) == valid, "valid");
    uint8_t clean[3 * 64];
    const size_t n = rmq_utf8_sanitize(p, len, clean);
    EXPECT(n <= 3 * len && rmq_utf8_valid(clean, n), "sanitized");
    EXPECT(!valid || (n == len && memcmp(clean, p, n) == 0), "valid text stays as it is");
    EXPECT(rmq_jhash(0, p, len) == hash_of_units(clean, n), "hash");
    EXPECT(rmq_jhash(12345, p, len) == rmq_jhash(12345, clean, n), "hash continued from a seed");
}

int main(void) {
    static const uint8_t telling[] = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF,
                                      0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF};
    enum { TELLING = sizeof telling };
    memory = guarded(64);
    uint8_t s[40];
    one(s, 0);
    for (int a = 0; a < 256; a++) {
        s[0] = (uint8_t)a;
        one(s, 1);
        for (int b = 0; b < 256; b++) {
            s[1] = (uint8_t)b;
            one(s, 2);
            for (int c = 0; c < TELLING; c++) {
                s[2] = telling[c];
                one(s, 3);
            }
        }
    }
    for (int k = 0; k < TELLING * TELLING * TELLING * TELLING; k++) {
        for (int i = 0, rest = k; i < 4; i++, rest /= TELLING) s[i] = telling[rest % TELLING];
        one(s, 4);
    }
    /* Eight bytes at a time: one odd byte at every place of a longer text. */
    for (size_t len = 1; len <= 40; len++) {
        for (size_t at = 0; at < len; at++) {
            memset(s, 'q', sizeof s);
            s[at] = 0xC3;
            if (at + 1 < len) s[at + 1] = 0xA9;
            one(s, len);
        }
    }
    /* 2^31 is not representable as its own abs. */
    EXPECT(rmq_index_key_hash(0x80000000U) == 0 && rmq_index_key_hash(0xFFFFFFFFU) == 1, "index key hash");
    EXPECT(rmq_index_key_hash(0x7FFFFFFFU) == INT32_MAX, "index key hash");
    EXPECT((int32_t)rmq_jhash(0, (const uint8_t *)"TagA", 4) == 2598919, "hash of TagA");
    return finish("utf8");
}
