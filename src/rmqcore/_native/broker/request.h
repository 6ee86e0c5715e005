/* Frames of requests and their headers, read where they lie.
 *
 * Unusual requests are left to Python, which also reports what is wrong with them: so a reader here never refuses a request.
 * Python reads every request that is accepted here in the same way.
 */
#ifndef RMQ_REQUEST_H
#define RMQ_REQUEST_H

#include "format/properties.h"

enum {
    RMQ_FLAG_ONEWAY = 2,
    RMQ_REQUEST_MOST_FIELDS = 14,
    RMQ_REQUEST_MAX_FRAME_SIZE = 16 << 20, /* as rmqcore.remoting.frame */
    RMQ_REQUEST_MAX_HEADER_SIZE = 64 << 10,
};

/* The next bytes of a connection. */
enum {
    RMQ_FRAME_MORE = 0, /* the frame is incomplete */
    RMQ_FRAME_WHOLE = 1,
    RMQ_FRAME_BROKEN = 2, /* not a frame */
};

/* The requests that a reader accepts: two codes with the same fields. */
typedef struct rmq_request_kind {
    int32_t codes[2];
    int field_count;
    int text_field; /* the field whose text may have JSON escapes; -1: no field */
    int letters; /* names are the letters from a on, in the order of the fields */
    int (*field_of)(rmq_slice name); /* else: the field with this name; field_count if unknown */
} rmq_request_kind;

typedef struct rmq_request_header {
    int32_t code, opaque, flag;
    uint32_t present; /* a bit for each field that is present */
    rmq_slice fields[RMQ_REQUEST_MOST_FIELDS]; /* the value in the header */
    int escaped; /* the text field, as a text of JSON */
} rmq_request_header;

/* A whole frame. */
typedef struct rmq_request_frame {
    const uint8_t *header, *body;
    size_t header_len, body_len, end; /* `end` from the start of the bytes */
    int is_binary;
} rmq_request_frame;

static inline int rmq_request_has(const rmq_request_header *header, int field) { return header->present >> field & 1; }

static inline int rmq_slice_is(rmq_slice text, const char *expected, size_t len) {
    return text.len == len && memcmp(text.p, expected, len) == 0;
}

/* Measure the frame at `at`; `out` is set if the frame is complete. */
int rmq_request_measure(const uint8_t *bytes, size_t at, size_t n, rmq_request_frame *out);

/* Read the header of a frame. 1: the request is of this kind, and plain. 0: the request is left to Python. */
int rmq_request_read(const rmq_request_frame *frame, const rmq_request_kind *kind, rmq_request_header *out);
int rmq_request_read_json(const uint8_t *bytes, size_t n, const rmq_request_kind *kind, rmq_request_header *out);
int rmq_request_read_binary(const uint8_t *bytes, size_t n, const rmq_request_kind *kind, rmq_request_header *out);

/* Decodes a JSON text; out has room for text.len bytes. Returns the number of bytes, -1 for an escape that is
 * invalid, or that is half of a surrogate pair. */
int64_t rmq_request_unescape(rmq_slice text, uint8_t *out);

/* Reads a number in decimal digits; 0 if the text is not a number, or out of range. */
int rmq_request_int32(rmq_slice text, int32_t *out);
int rmq_request_int64(rmq_slice text, int64_t *out);

#endif
