/* Text output: a buffer that grows, and texts in the syntax of JSON and CSV.
 *
 * The input is any bytes. Malformed UTF-8 becomes what Java's decoder makes of it (utf8.h), and each character is read once,
 * when it is written: so the output is well-formed, also if the input changes during the call.
 */
#ifndef RMQ_TEXT_OUT_H
#define RMQ_TEXT_OUT_H

#include <stddef.h>
#include <stdint.h>

typedef struct rmq_out {
    uint8_t *at; /* the bytes written */
    size_t len, room;
    uint8_t *own; /* to be freed; NULL while `at` is the caller's */
    int failed;   /* out of memory: the output is incomplete */
} rmq_out;

/* Begins in `few`, which the caller keeps until rmq_out_end; allocates memory of its own if these bytes do not suffice. */
static inline void rmq_out_begin(rmq_out *out, uint8_t *few, size_t room) {
    out->at = few;
    out->len = 0;
    out->room = room;
    out->own = NULL;
    out->failed = 0;
}
void rmq_out_end(rmq_out *out);

/* Makes room for `more` bytes behind those written; 0 without memory. */
int rmq_out_grow(rmq_out *out, size_t more);
static inline int rmq_out_room(rmq_out *out, size_t more) {
    return out->room - out->len >= more || rmq_out_grow(out, more);
}

/* The text unchanged. */
void rmq_out_text(rmq_out *out, const uint8_t *text, size_t len);

/* A JSON string, quotes included: as Python's json writes it with ensure_ascii=False. */
void rmq_out_json(rmq_out *out, const uint8_t *text, size_t len);

/* The same inside a quoted CSV field, where each quote is doubled. */
void rmq_out_json_in_csv(rmq_out *out, const uint8_t *text, size_t len);

/* Makes a CSV field of the bytes written from `begin` on: quoted if it has a comma, a quote or an end of line, as Python's
 * csv does (a lone CR is quoted since Python 3.13, and every reader accepts that). With `safe` an apostrophe precedes a text
 * that begins like a spreadsheet formula: with = + - @, the wide forms of these, a tab or an end of line. */
void rmq_out_csv_field(rmq_out *out, size_t begin, int safe);

#endif
