/* Text that is written: a buffer that grows, and texts as JSON and CSV spell them.
 *
 * What goes in are any bytes. Malformed UTF-8 becomes what Java's decoder makes of it (utf8.h), and each character is looked at
 * once, where it is written: what comes out is well-formed, also of bytes that change meanwhile.
 */
#ifndef RMQ_TEXT_OUT_H
#define RMQ_TEXT_OUT_H

#include <stddef.h>
#include <stdint.h>

typedef struct rmq_out {
    uint8_t *at; /* what was written */
    size_t len, room;
    uint8_t *own; /* to be freed; NULL while `at` is the caller's */
    int failed;   /* there was no memory: what was written is not whole */
} rmq_out;

/* Begins in `few`, which the caller keeps until rmq_out_end; memory of its own is taken where these bytes do not do. */
static inline void rmq_out_begin(rmq_out *out, uint8_t *few, size_t room) {
    out->at = few;
    out->len = 0;
    out->room = room;
    out->own = NULL;
    out->failed = 0;
}
void rmq_out_end(rmq_out *out);

/* Makes room for `more` bytes behind those that are written; 0 where there is no memory. */
int rmq_out_grow(rmq_out *out, size_t more);
static inline int rmq_out_room(rmq_out *out, size_t more) {
    return out->room - out->len >= more || rmq_out_grow(out, more);
}

/* The text as it is. */
void rmq_out_text(rmq_out *out, const uint8_t *text, size_t len);

/* A JSON string, quotes included: as Python's json writes it with ensure_ascii=False. */
void rmq_out_json(rmq_out *out, const uint8_t *text, size_t len);

/* The same inside of a quoted CSV field, where each quote stands twice. */
void rmq_out_json_in_csv(rmq_out *out, const uint8_t *text, size_t len);

/* Makes a CSV field of what was written from `begin` on: quoted where it holds a comma, a quote or an end of line, as Python's csv
 * does (a lone CR is quoted since Python 3.13, and by every reader understood so). With `safe` an apostrophe comes before a text
 * that begins as a formula of a spreadsheet does: with = + - @, the wide forms of these, a tab or an end of line. */
void rmq_out_csv_field(rmq_out *out, size_t begin, int safe);

#endif
