#include "broker/request.h"
#include "format/utf8.h"

/* code, language, version, opaque, flag; then the remark's length. */
enum { OPAQUE_POS = 5, FLAG_POS = 9, REMARK_POS = 13, LEAST = REMARK_POS + 4 + 4 };

/* Reads a text behind its length, a field of `width` bytes. Moves *at behind the text. */
static inline int read_text(const uint8_t **at, const uint8_t *end, int width, rmq_slice *out) {
    if (end - *at < width) return 0;
    const int32_t len = width == 2 ? rmq_load_i16(*at) : rmq_load_i32(*at);
    *at += width;
    if (len < 0 || len > end - *at) return 0;
    out->p = *at;
    out->len = (uint32_t)len;
    *at += len;
    return rmq_utf8_valid(out->p, out->len);
}

int rmq_request_read_binary(const uint8_t *bytes, size_t n, const rmq_request_kind *kind, rmq_request_header *out) {
    const uint8_t *p = bytes + REMARK_POS, *end = bytes + n;
    rmq_slice remark, name, value;
    const int letters = kind->letters, field_count = kind->field_count;
    if (n < LEAST) return 0;
    out->code = rmq_load_i16(bytes);
    if (out->code != kind->codes[0] && out->code != kind->codes[1]) return 0;
    out->opaque = rmq_load_i32(bytes + OPAQUE_POS);
    out->flag = rmq_load_i32(bytes + FLAG_POS);
    out->present = 0;
    out->escaped = 0;
    if (!read_text(&p, end, 4, &remark) || end - p < 4) return 0;
    const int32_t size = rmq_load_i32(p);
    p += 4;
    if (size != end - p) return 0;
    while (p < end) {
        if (!read_text(&p, end, 2, &name) || !read_text(&p, end, 4, &value)) return 0;
        const int letter = name.len == 1 ? name.p[0] - 'a' : field_count;
        const int field = letters ? letter : kind->field_of(name);
        if (value.len == 0 || field < 0 || field >= field_count) continue; /* no bytes: Java's null */
        if (rmq_request_has(out, field)) return 0;
        out->present |= 1U << field;
        out->fields[field] = value;
    }
    return 1;
}
