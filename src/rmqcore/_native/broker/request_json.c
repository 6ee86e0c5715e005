#include "broker/request.h"
#include "format/utf8.h"
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* Members of a header, a bit each. */
enum { CODE = 1, OPAQUE = 2, FLAG = 4, EXT_FIELDS = 8, LANGUAGE = 16, VERSION = 32, REMARK = 64, SERIALIZE_TYPE = 128 };

static const uint64_t EACH = UINT64_C(0x0101010101010101);
static const uint64_t TOP = UINT64_C(0x8080808080808080);

typedef struct reader {
    const uint8_t *p, *end;
} reader;

/* The first byte in memory is the lowest, on any host. */
static inline uint64_t load_word(const uint8_t *p) { return __builtin_bswap64((uint64_t)rmq_load_i64(p)); }

/* The lowest top bit set in the result is that of the first byte equal to this one. (Higher bits may be wrong.) */
static inline uint64_t where(uint64_t word, uint8_t byte) {
    const uint64_t x = word ^ (EACH * byte);
    return (x - EACH) & ~x & TOP;
}

/* Returns the first quote, backslash or control character; `end` if the text has none. */
static inline const uint8_t *plain_end(const uint8_t *p, const uint8_t *end) {
#if defined(__SSE2__)
    const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\'), control = _mm_set1_epi8(0x1F);
    while (end - p >= 16) {
        const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
        const __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(v, control), v);
        const __m128i marks = _mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, backslash));
        const int found = _mm_movemask_epi8(_mm_or_si128(low, marks));
        if (found) return p + __builtin_ctz((unsigned)found);
        p += 16;
    }
#endif
    while (end - p >= 8) {
        const uint64_t word = load_word(p);
        const uint64_t found = where(word, '"') | where(word, '\\') | ((word - EACH * 0x20) & ~word & TOP);
        if (found) return p + (__builtin_ctzll(found) >> 3);
        p += 8;
    }
    while (p < end && *p != '"' && *p != '\\' && *p >= 0x20) p++;
    return p;
}

static inline void skip_blanks(reader *r) {
    while (r->p < r->end && *r->p <= ' ' && (*r->p == ' ' || *r->p == '\n' || *r->p == '\t' || *r->p == '\r')) r->p++;
}

static inline int skip_mark(reader *r, uint8_t mark) {
    skip_blanks(r);
    if (r->p == r->end || *r->p != mark) return 0;
    r->p++;
    return 1;
}

/* Reads a text; the slice lies between its quotes. 0 also for a text with a backslash, unless `escaped` is given. */
static inline int read_text(reader *r, rmq_slice *out, int *escaped) {
    if (!skip_mark(r, '"')) return 0;
    const uint8_t *begin = r->p, *p = begin;
    for (;;) {
        p = plain_end(p, r->end);
        if (p == r->end || *p < 0x20) return 0;
        if (*p == '"') break;
        if (escaped == NULL || r->end - p < 2) return 0;
        *escaped = 1;
        p += 2; /* the escape is checked when the text is decoded */
    }
    out->p = begin;
    out->len = (uint32_t)(p - begin);
    r->p = p + 1;
    return 1;
}

static int read_number(reader *r, int32_t *out) {
    skip_blanks(r);
    const uint8_t *begin = r->p, *p = begin;
    if (p < r->end && *p == '-') p++;
    const uint8_t *digits = p;
    while (p < r->end && *p >= '0' && *p <= '9') p++;
    if (p - digits > 1 && *digits == '0') return 0; /* not JSON */
    r->p = p;
    return rmq_request_int32((rmq_slice){begin, (uint32_t)(p - begin)}, out);
}

/* Skips an unused text, or a null. */
static int skip_text_or_null(reader *r) {
    rmq_slice text;
    skip_blanks(r);
    if (r->end - r->p >= 4 && memcmp(r->p, "null", 4) == 0) {
        r->p += 4;
        return 1;
    }
    return read_text(r, &text, NULL);
}

/* After a member: 1 if another one follows, 0 if the object ends here, else -1. */
static inline int goes_on(reader *r) {
    skip_blanks(r);
    if (r->p == r->end) return -1;
    const uint8_t mark = *r->p++;
    return mark == ',' ? 1 : mark == '}' ? 0 : -1;
}

/* Reads a one-letter name up to its value's quote, as every client writes it. Returns the letter, else -1. */
static inline int read_letter(reader *r) {
    static const uint8_t mask[8] = {0xFF, 0, 0xFF, 0xFF, 0xFF}, shape[8] = {'"', 0, '"', ':', '"'};
    if (r->end - r->p < 8 || ((rmq_load_i64(r->p) ^ rmq_load_i64(shape)) & rmq_load_i64(mask)) != 0) return -1;
    const int letter = r->p[1];
    if (letter < 'a' || letter > 'z') return -1; /* a backslash, for example */
    r->p += 4;
    return letter;
}

/* `letters`, as in the kind, is a constant for the compiler: a test at each field of a send took 3 % of the whole. */
static inline __attribute__((always_inline)) int read_field_name(reader *r, const rmq_request_kind *kind, int letters) {
    rmq_slice name;
    int letter = letters ? read_letter(r) : -1;
    if (letter < 0) {
        if (!read_text(r, &name, NULL) || !skip_mark(r, ':')) return -1;
        if (!letters) return kind->field_of(name);
        if (name.len != 1) return kind->field_count;
        letter = name.p[0];
    }
    return letter >= 'a' && letter < 'a' + kind->field_count ? letter - 'a' : kind->field_count;
}

static inline __attribute__((always_inline)) int read_fields(reader *r, const rmq_request_kind *kind, int letters,
                                                             rmq_request_header *out) {
    const int field_count = kind->field_count, text_field = kind->text_field;
    int more = 1;
    if (!skip_mark(r, '{')) return 0;
    while (more > 0) {
        rmq_slice value;
        int escaped = 0;
        const int field = read_field_name(r, kind, letters);
        if (field < 0 || !read_text(r, &value, &escaped)) return 0;
        if (escaped) {
            if (field != text_field) return 0;
            out->escaped = 1;
        }
        if (field < field_count) {
            if (rmq_request_has(out, field)) return 0;
            out->present |= 1U << field;
            out->fields[field] = value;
        }
        more = goes_on(r);
    }
    return more == 0;
}

static unsigned member_of(rmq_slice name) {
    switch (name.len) {
        case 4:
            return rmq_slice_is(name, "code", 4) ? CODE : rmq_slice_is(name, "flag", 4) ? FLAG : 0;
        case 6:
            return rmq_slice_is(name, "opaque", 6) ? OPAQUE : rmq_slice_is(name, "remark", 6) ? REMARK : 0;
        case 7:
            return rmq_slice_is(name, "version", 7) ? VERSION : 0;
        case 8:
            return rmq_slice_is(name, "language", 8) ? LANGUAGE : 0;
        case 9:
            return rmq_slice_is(name, "extFields", 9) ? EXT_FIELDS : 0;
        case 23:
            return rmq_slice_is(name, "serializeTypeCurrentRPC", 23) ? SERIALIZE_TYPE : 0;
        default:
            return 0;
    }
}

static int read_member(reader *r, unsigned member, const rmq_request_kind *kind, rmq_request_header *out) {
    int32_t ignored;
    switch (member) {
        case CODE:
            /* First in the header of a Java client: nearly all other requests end here. */
            if (!read_number(r, &out->code)) return 0;
            return out->code == kind->codes[0] || out->code == kind->codes[1];
        case FLAG:
            return read_number(r, &out->flag);
        case OPAQUE:
            return read_number(r, &out->opaque);
        case VERSION:
            return read_number(r, &ignored);
        case EXT_FIELDS:
            return kind->letters ? read_fields(r, kind, 1, out) : read_fields(r, kind, 0, out);
        case REMARK:
        case LANGUAGE:
        case SERIALIZE_TYPE:
            return skip_text_or_null(r);
        default:
            return 0;
    }
}

int rmq_request_read_json(const uint8_t *bytes, size_t n, const rmq_request_kind *kind, rmq_request_header *out) {
    reader r = {bytes, bytes + n};
    unsigned seen = 0;
    int more = 1;
    out->flag = 0;
    out->present = 0;
    out->escaped = 0;
    if (!skip_mark(&r, '{')) return 0;
    while (more > 0) {
        rmq_slice name;
        if (!read_text(&r, &name, NULL) || !skip_mark(&r, ':')) return 0;
        const unsigned member = member_of(name);
        if (seen & member || !read_member(&r, member, kind, out)) return 0;
        seen |= member;
        more = goes_on(&r);
    }
    skip_blanks(&r);
    const unsigned needed = CODE | OPAQUE | EXT_FIELDS;
    return more == 0 && r.p == r.end && (seen & needed) == needed && rmq_utf8_valid(bytes, n);
}

static int hex_value(uint8_t c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Returns the unit of \uXXXX, whose backslash is at p; -1 if the escape is invalid. */
static int32_t unit_at(const uint8_t *p, const uint8_t *end) {
    int32_t unit = 0;
    if (end - p < 6 || p[0] != '\\' || p[1] != 'u') return -1;
    for (int i = 2; i < 6; i++) {
        const int digit = hex_value(p[i]);
        if (digit < 0) return -1;
        unit = unit << 4 | digit;
    }
    return unit;
}

static uint8_t *put_utf8(uint8_t *out, uint32_t cp) {
    if (cp < 0x80) {
        *out++ = (uint8_t)cp;
        return out;
    }
    if (cp < 0x800) {
        *out++ = (uint8_t)(0xC0 | cp >> 6);
    } else {
        if (cp < 0x10000) {
            *out++ = (uint8_t)(0xE0 | cp >> 12);
        } else {
            *out++ = (uint8_t)(0xF0 | cp >> 18);
            *out++ = (uint8_t)(0x80 | (cp >> 12 & 0x3F));
        }
        *out++ = (uint8_t)(0x80 | (cp >> 6 & 0x3F));
    }
    *out++ = (uint8_t)(0x80 | (cp & 0x3F));
    return out;
}

/* Reads one escape at *at and moves behind it; NULL if the escape is invalid. */
static uint8_t *put_escape(const uint8_t **at, const uint8_t *end, uint8_t *out) {
    const uint8_t *p = *at;
    static const char letters[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
    if (end - p < 2) return NULL;
    if (p[1] != 'u') {
        const char *letter = memchr(letters, p[1], sizeof letters - 1);
        if (letter == NULL) return NULL;
        *at = p + 2;
        *out = (uint8_t)bytes[letter - letters];
        return out + 1;
    }
    int32_t unit = unit_at(p, end);
    if (unit < 0) return NULL;
    *at = p + 6;
    if (unit >= 0xD800 && unit < 0xE000) {
        const int32_t low = unit_at(p + 6, end);
        if (unit >= 0xDC00 || low < 0xDC00 || low >= 0xE000) return NULL;
        unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
        *at = p + 12;
    }
    return put_utf8(out, (uint32_t)unit);
}

int64_t rmq_request_unescape(rmq_slice text, uint8_t *out) {
    const uint8_t *p = text.p, *end = p + text.len;
    const uint8_t *begin = out;
    while (p < end) {
        if (*p == '\\') {
            out = put_escape(&p, end, out);
            if (out == NULL) return -1;
        } else if (end - p >= 8) {
            /* Bytes copied behind a backslash are overwritten later; out has room: 8 bytes of the text are left. */
            const uint64_t word = load_word(p), found = where(word, '\\');
            const int plain = found ? __builtin_ctzll(found) >> 3 : 8;
            memcpy(out, p, 8);
            out += plain;
            p += plain;
        } else {
            *out++ = *p++;
        }
    }
    return out - begin;
}
