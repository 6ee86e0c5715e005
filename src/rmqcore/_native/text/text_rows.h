/* A message as a line of text: a JSON object or a CSV row with all its values, under the names and in the order of a
 * MessageView. */
#ifndef RMQ_TEXT_ROWS_H
#define RMQ_TEXT_ROWS_H

#include "format/record.h"
#include "format/text.h"
#include "text/text_out.h"

/* The format of a row. Safe: no text begins like a spreadsheet formula (text_out.h). */
typedef enum rmq_row_kind { RMQ_ROW_JSON, RMQ_ROW_CSV, RMQ_ROW_CSV_SAFE } rmq_row_kind;

enum {
    RMQ_ROW_DONE = 0,
    RMQ_ROW_MEMORY = -1,
    RMQ_ROW_NAMES = -2, /* many properties, or a name that is not UTF-8: duplicates need a table */
};

typedef struct rmq_row_text {
    const uint8_t *p; /* NULL: absent */
    size_t len;
} rmq_row_text;

/* Writes the line with its line end. `body` is the text for the body: absent, it is null in JSON and an empty cell in CSV.
 * `properties` is the JSON object of all properties; absent, it is made of the record's, each name once, at its first place,
 * with its last value. That can return RMQ_ROW_NAMES; then, and with RMQ_ROW_MEMORY, the content of `out` is invalid. */
int rmq_row_write(const rmq_record *rec, const rmq_delay_levels *levels, rmq_row_kind kind, rmq_row_text body,
                  rmq_row_text properties, rmq_out *out);

#endif
