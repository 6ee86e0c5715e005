#include "text/text_out.h"
#include "format/be.h"
#include "format/utf8.h"
#include <stdlib.h>
#include <string.h>

void rmq_out_end(rmq_out *out) { free(out->own); }

int rmq_out_grow(rmq_out *out, size_t more) {
    if (more > SIZE_MAX / 4 || out->len > SIZE_MAX / 4) {
        out->failed = 1;
        return 0;
    }
    const size_t room = 2 * (out->len + more);
    uint8_t *at = realloc(out->own, room);
    if (at == NULL) {
        out->failed = 1;
        return 0;
    }
    if (out->own == NULL && out->len) memcpy(at, out->at, out->len);
    out->at = out->own = at;
    out->room = room;
    return 1;
}

/* ---- eight bytes at a time; the first in memory is the lowest, whatever the host -------------------------------- */

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

static inline uint64_t load8(const uint8_t *p) { return __builtin_bswap64((uint64_t)rmq_load_i64(p)); }
static inline void store8(uint8_t *p, uint64_t word) { rmq_store_i64(p, (int64_t)__builtin_bswap64(word)); }

/* The top bit of each byte that is `byte`; a bit above that byte may be set too, so that only the lowest is reliable. */
static inline uint64_t is_byte(uint64_t word, uint8_t byte) {
    const uint64_t x = word ^ EACH(byte);
    return (x - EACH(1)) & ~x & EACH(0x80);
}

/* Likewise, of each byte that JSON escapes, or that is not ASCII. */
static inline uint64_t odd_in_json(uint64_t word) {
    const uint64_t control = (word - EACH(0x20)) & ~word;
    return ((control | word) & EACH(0x80)) | is_byte(word, '"') | is_byte(word, '\\');
}

static inline uint64_t odd_in_csv(uint64_t word) {
    return is_byte(word, ',') | is_byte(word, '"') | is_byte(word, '\n') | is_byte(word, '\r');
}

static inline size_t lowest(uint64_t bits) { return (size_t)__builtin_ctzll(bits) >> 3; }

/* ---- one character -------------------------------------------------------------------------------------------------- */

enum how { AS_IT_IS, JSON, JSON_IN_CSV };
enum { MOST_A_BYTE = 6, PIECE = 1024 };

static inline uint8_t *put_code_point(uint8_t *to, uint32_t cp) {
    if (cp < 0x800) {
        *to++ = (uint8_t)(0xC0 | cp >> 6);
    } else {
        if (cp < 0x10000) {
            *to++ = (uint8_t)(0xE0 | cp >> 12);
        } else {
            *to++ = (uint8_t)(0xF0 | cp >> 18);
            *to++ = (uint8_t)(0x80 | (cp >> 12 & 0x3F));
        }
        *to++ = (uint8_t)(0x80 | (cp >> 6 & 0x3F));
    }
    *to++ = (uint8_t)(0x80 | (cp & 0x3F));
    return to;
}

static uint8_t *put_escape(uint8_t *to, uint8_t c, enum how how) {
    static const char letters[0x20] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    static const char digits[] = "0123456789abcdef";
    *to++ = '\\';
    if (c >= 0x20) {
        *to++ = c;
        if (c == '"' && how == JSON_IN_CSV) *to++ = '"';
    } else if (letters[c]) {
        *to++ = (uint8_t)letters[c];
    } else {
        memcpy(to, "u00", 3);
        to[3] = (uint8_t)digits[c >> 4];
        to[4] = (uint8_t)digits[c & 0xF];
        to += 5;
    }
    return to;
}

/* Writes the character at *p, where [*p, end) is readable, and moves *p behind it. */
static inline uint8_t *put_character(uint8_t *to, const uint8_t **p, const uint8_t *end, enum how how) {
    uint32_t cp = **p;
    *p += cp < 0x80 ? 1 : rmq_utf8_next(*p, (size_t)(end - *p), &cp);
    if (cp >= 0x80) return put_code_point(to, cp);
    if (how != AS_IT_IS && (cp < 0x20 || cp == '"' || cp == '\\')) return put_escape(to, (uint8_t)cp, how);
    *to++ = (uint8_t)cp;
    return to;
}

/* ---- a text ----------------------------------------------------------------------------------------------------------- */

static inline __attribute__((always_inline)) void put(rmq_out *out, const uint8_t *p, size_t len, enum how how) {
    const uint8_t *end = p + len;
    while (p < end) {
        /* Room for the worst case of a piece only: a body of many MB must not need six times its size. */
        const uint8_t *stop = (size_t)(end - p) > PIECE ? p + PIECE : end;
        if (!rmq_out_room(out, MOST_A_BYTE * (PIECE < len ? PIECE : len) + 8)) return;
        uint8_t *to = out->at + out->len;
        while (p < stop) { /* a character of several bytes may end behind it */
            if (stop - p >= 8) {
                const uint64_t word = load8(p);
                const uint64_t odd = how == AS_IT_IS ? word & EACH(0x80) : odd_in_json(word);
                const size_t plain = odd ? lowest(odd) : 8;
                store8(to, word);
                p += plain;
                to += plain;
                if (plain == 8) continue;
            }
            to = put_character(to, &p, end, how);
        }
        out->len = (size_t)(to - out->at);
    }
}

static void put_quote(rmq_out *out, enum how how) {
    if (!rmq_out_room(out, 2)) return;
    out->at[out->len++] = '"';
    if (how == JSON_IN_CSV) out->at[out->len++] = '"';
}

void rmq_out_text(rmq_out *out, const uint8_t *text, size_t len) { put(out, text, len, AS_IT_IS); }

void rmq_out_json(rmq_out *out, const uint8_t *text, size_t len) {
    put_quote(out, JSON);
    put(out, text, len, JSON);
    put_quote(out, JSON);
}

void rmq_out_json_in_csv(rmq_out *out, const uint8_t *text, size_t len) {
    put_quote(out, JSON_IN_CSV);
    put(out, text, len, JSON_IN_CSV);
    put_quote(out, JSON_IN_CSV);
}

/* ---- a CSV field ------------------------------------------------------------------------------------------------------ */

static int begins_as_formula(const uint8_t *p, size_t len) {
    if (len == 0) return 0;
    switch (p[0]) {
        case '=':
        case '+':
        case '-':
        case '@':
        case '\t':
        case '\r':
        case '\n':
            return 1;
        case 0xEF: /* U+FF1D, U+FF0B, U+FF0D, U+FF20 */
            return len >= 3 && p[1] == 0xBC && (p[2] == 0x9D || p[2] == 0x8B || p[2] == 0x8D || p[2] == 0xA0);
        default:
            return 0;
    }
}

/* Position of the first byte that requires quotes around the field; len if no byte does. */
static size_t first_odd(const uint8_t *p, size_t len) {
    size_t at = 0;
    for (; len - at >= 8; at += 8) {
        const uint64_t odd = odd_in_csv(load8(p + at));
        if (odd) return at + lowest(odd);
    }
    while (at < len && p[at] != ',' && p[at] != '"' && p[at] != '\n' && p[at] != '\r') at++;
    return at;
}

void rmq_out_csv_field(rmq_out *out, size_t begin, int safe) {
    const size_t len = out->len - begin, odd = first_odd(out->at + begin, len);
    const size_t apostrophe = safe && begins_as_formula(out->at + begin, len);
    const size_t quoted = odd < len;
    if (!quoted && !apostrophe) return;
    size_t quotes = 0;
    for (size_t i = odd; i < len; i++) quotes += out->at[begin + i] == '"';
    if (!rmq_out_room(out, apostrophe + 2 * quoted + quotes)) return;
    uint8_t *field = out->at + begin, *from = field + len, *to = from + apostrophe + quoted + quotes;
    if (quoted) *to = '"';
    out->len = (size_t)(to - out->at) + quoted;
    for (; quotes; quotes--) { /* from the end: bytes are moved before they are overwritten */
        const uint8_t *end = from;
        while (*--from != '"') continue;
        to -= end - from;
        memmove(to, from, (size_t)(end - from));
        *--to = '"';
    }
    memmove(field + quoted + apostrophe, field, (size_t)(from - field));
    if (quoted) *field++ = '"';
    if (apostrophe) *field = '\'';
}
