#include "text/text_rows.h"
#include "format/utf8.h"
#include <string.h>

/* ---- separators of the values ------------------------------------------------------------------------------------------ */

/* The values, in the order of a line. */
// clang-format off: as many as a line takes
enum field {
    PHY_OFFSET, MSG_SIZE, MAGIC, BODY_CRC, QUEUE_ID, FLAG, QUEUE_OFFSET, SYS_FLAG, BORN_TIMESTAMP, BORN_HOST, STORE_TIMESTAMP,
    STORE_HOST, RECONSUME_TIMES, PREPARED_TRANSACTION_OFFSET, BODY, TOPIC, PROPERTIES, TAGS, KEYS, UNIQ_KEY, MSG_ID, TAGS_CODE,
    END,
};
// clang-format on

/* A short text in a field of fixed size, so that its copy is a few moves. */
enum { LITERAL_ROOM = 40 };
typedef struct literal {
    char text[LITERAL_ROOM - 1];
    uint8_t len;
} literal;
#define LITERAL(text) {text, sizeof text - 1}

/* The text that JSON has before each value, and after the last one. */
// clang-format off: a table
static const literal json[] = {
    [PHY_OFFSET] = LITERAL("{\"phy_offset\": "),
    [MSG_SIZE] = LITERAL(", \"msg_size\": "),
    [MAGIC] = LITERAL(", \"magic\": "),
    [BODY_CRC] = LITERAL(", \"body_crc\": "),
    [QUEUE_ID] = LITERAL(", \"queue_id\": "),
    [FLAG] = LITERAL(", \"flag\": "),
    [QUEUE_OFFSET] = LITERAL(", \"queue_offset\": "),
    [SYS_FLAG] = LITERAL(", \"sys_flag\": "),
    [BORN_TIMESTAMP] = LITERAL(", \"born_timestamp_ms\": "),
    [BORN_HOST] = LITERAL(", \"born_host\": \""),
    [STORE_TIMESTAMP] = LITERAL("\", \"store_timestamp_ms\": "),
    [STORE_HOST] = LITERAL(", \"store_host\": \""),
    [RECONSUME_TIMES] = LITERAL("\", \"reconsume_times\": "),
    [PREPARED_TRANSACTION_OFFSET] = LITERAL(", \"prepared_transaction_offset\": "),
    [BODY] = LITERAL(", \"body\": "),
    [TOPIC] = LITERAL(", \"topic\": "),
    [PROPERTIES] = LITERAL(", \"properties\": "),
    [TAGS] = LITERAL(", \"tags\": "),
    [KEYS] = LITERAL(", \"keys\": "),
    [UNIQ_KEY] = LITERAL(", \"uniq_key\": "),
    [MSG_ID] = LITERAL(", \"msg_id\": \""),
    [TAGS_CODE] = LITERAL("\", \"tags_code\": "),
    [END] = LITERAL("}\n"),
};
// clang-format on

typedef struct row {
    const rmq_record *rec;
    rmq_out *out;
    rmq_row_kind kind;
} row;

/* Writes the text before a value; the caller has made room. */
static inline char *separator(const row *row, enum field field, char *to) {
    if (row->kind == RMQ_ROW_JSON) {
        memcpy(to, json[field].text, sizeof json[field].text);
        return to + json[field].len;
    }
    *to = field == END ? '\n' : ',';
    return to + (field != PHY_OFFSET);
}

static void put_separator(const row *row, enum field field) {
    if (!rmq_out_room(row->out, LITERAL_ROOM)) return;
    char *begin = (char *)row->out->at + row->out->len;
    row->out->len += (size_t)(separator(row, field, begin) - begin);
}

static inline char *number(const row *row, enum field field, char *to, int64_t value) {
    return rmq_decimal(separator(row, field, to), value);
}

/* ---- properties --------------------------------------------------------------------------------------------------------- */

enum { MOST_PROPERTIES = 64 }; /* compared with each other; a client sets two to eight */

typedef struct properties {
    rmq_prop each[MOST_PROPERTIES];
    size_t count;
    int odd; /* more of them, or different names that may become one text */
    rmq_known_props known;
} properties;

static void note(properties *found, const rmq_prop *prop) {
    rmq_props_note(&found->known, prop);
    if (found->count == MOST_PROPERTIES || !rmq_utf8_valid(prop->name.p, prop->name.len)) {
        found->odd = 1;
        return;
    }
    for (size_t i = 0; i < found->count; i++) {
        rmq_prop *other = &found->each[i];
        if (other->name.len == prop->name.len && rmq_text_equal(other->name.p, prop->name.p, prop->name.len)) {
            other->value = prop->value;
            return;
        }
    }
    found->each[found->count++] = *prop;
}

static void find_properties(const rmq_record *rec, properties *found) {
    rmq_props_iter it;
    rmq_prop prop;
    found->count = 0;
    found->odd = 0;
    rmq_props_none(&found->known);
    rmq_props_begin(&it, rec->at + rec->props_pos, rec->props_len, rec->props_pos);
    while (rmq_props_next(&it, &prop)) note(found, &prop);
}

/* ---- texts --------------------------------------------------------------------------------------------------------------- */

static void put_bytes(rmq_out *out, const char *bytes, size_t len) {
    if (!rmq_out_room(out, len)) return;
    memcpy(out->at + out->len, bytes, len);
    out->len += len;
}

static void end_of_cell(const row *row, size_t begin) {
    rmq_out_csv_field(row->out, begin, row->kind == RMQ_ROW_CSV_SAFE);
}

static void put_text(const row *row, const uint8_t *text, size_t len) {
    const size_t begin = row->out->len;
    if (row->kind == RMQ_ROW_JSON) {
        rmq_out_json(row->out, text, len);
    } else {
        rmq_out_text(row->out, text, len);
        end_of_cell(row, begin);
    }
}

static void put_text_or_none(const row *row, const uint8_t *text, size_t len) {
    if (text != NULL) put_text(row, text, len);
    else if (row->kind == RMQ_ROW_JSON) put_bytes(row->out, "null", 4);
}

/* A list in JSON; in CSV the words with a space between. */
static void put_words(const row *row, rmq_slice keys) {
    rmq_out *out = row->out;
    const size_t begin = out->len;
    size_t pos = 0;
    rmq_slice word;
    if (row->kind == RMQ_ROW_JSON) {
        put_bytes(out, "[", 1);
        for (int more = 0; rmq_keys_next(keys, &pos, &word); more = 1) {
            if (more) put_bytes(out, ", ", 2);
            rmq_out_json(out, word.p, word.len);
        }
        put_bytes(out, "]", 1);
    } else {
        for (int more = 0; rmq_keys_next(keys, &pos, &word); more = 1) {
            if (more) put_bytes(out, " ", 1);
            rmq_out_text(out, word.p, word.len);
        }
        end_of_cell(row, begin);
    }
}

/* A JSON object; in CSV a cell that holds the text of one. */
static void put_properties(const row *row, const properties *found) {
    rmq_out *out = row->out;
    const int quoted = row->kind != RMQ_ROW_JSON && found->count;
    if (quoted) put_bytes(out, "\"", 1);
    put_bytes(out, "{", 1);
    for (size_t i = 0; i < found->count; i++) {
        const rmq_prop *prop = &found->each[i];
        if (i) put_bytes(out, ", ", 2);
        if (quoted) rmq_out_json_in_csv(out, prop->name.p, prop->name.len);
        else rmq_out_json(out, prop->name.p, prop->name.len);
        put_bytes(out, ": ", 2);
        if (quoted) rmq_out_json_in_csv(out, prop->value.p, prop->value.len);
        else rmq_out_json(out, prop->value.p, prop->value.len);
    }
    put_bytes(out, "}", 1);
    if (quoted) put_bytes(out, "\"", 1);
}

/* The same for a caller that has the object. */
static void put_given_properties(const row *row, rmq_row_text object) {
    const size_t begin = row->out->len;
    rmq_out_text(row->out, object.p, object.len);
    if (row->kind != RMQ_ROW_JSON) end_of_cell(row, begin);
}

/* ---- the line ------------------------------------------------------------------------------------------------------------ */

enum {
    NUMBERS = 12,
    HEAD_ROOM = (BODY + 1) * LITERAL_ROOM + NUMBERS * RMQ_DECIMAL_ROOM + 2 * RMQ_HOST_TEXT_ROOM,
    TAIL_ROOM = 3 * LITERAL_ROOM + RMQ_MSG_ID_V6_LEN + RMQ_DECIMAL_ROOM,
};

/* All values before the body. */
static void put_head(const row *row) {
    if (!rmq_out_room(row->out, HEAD_ROOM)) return;
    const rmq_record *rec = row->rec;
    char *begin = (char *)row->out->at + row->out->len, *to = begin;
    to = number(row, PHY_OFFSET, to, rmq_rec_phy_offset(rec));
    to = number(row, MSG_SIZE, to, rec->msg_size);
    to = number(row, MAGIC, to, rec->magic);
    to = number(row, BODY_CRC, to, rmq_rec_body_crc(rec));
    to = number(row, QUEUE_ID, to, rmq_rec_queue_id(rec));
    to = number(row, FLAG, to, rmq_rec_flag(rec));
    to = number(row, QUEUE_OFFSET, to, rmq_rec_queue_offset(rec));
    to = number(row, SYS_FLAG, to, rec->sys_flag);
    to = number(row, BORN_TIMESTAMP, to, rmq_rec_born_timestamp(rec));
    to = separator(row, BORN_HOST, to);
    to += rmq_host_text(rec->at + RMQ_REC_BORNHOST, rec->sys_flag & RMQ_SYS_BORNHOST_V6, to);
    to = number(row, STORE_TIMESTAMP, to, rmq_rec_store_timestamp(rec));
    to = separator(row, STORE_HOST, to);
    to += rmq_host_text(rec->at + rec->store_host_pos, rec->sys_flag & RMQ_SYS_STOREHOST_V6, to);
    to = number(row, RECONSUME_TIMES, to, rmq_rec_reconsume_times(rec));
    to = number(row, PREPARED_TRANSACTION_OFFSET, to, rmq_rec_prepared_transaction_offset(rec));
    to = separator(row, BODY, to);
    row->out->len += (size_t)(to - begin);
}

static void put_tail(const row *row, int64_t tags_code) {
    if (!rmq_out_room(row->out, TAIL_ROOM)) return;
    char *begin = (char *)row->out->at + row->out->len, *to = separator(row, MSG_ID, begin);
    to += rmq_msg_id(row->rec, to);
    to = number(row, TAGS_CODE, to, tags_code);
    to = separator(row, END, to);
    row->out->len += (size_t)(to - begin);
}

int rmq_row_write(const rmq_record *rec, const rmq_delay_levels *levels, rmq_row_kind kind, rmq_row_text body,
                  rmq_row_text object, rmq_out *out) {
    const row row = {rec, out, kind};
    properties found;
    find_properties(rec, &found);
    if (found.odd && object.p == NULL) return RMQ_ROW_NAMES;
    put_head(&row);
    put_text_or_none(&row, body.p, body.len);
    put_separator(&row, TOPIC);
    put_text(&row, rec->at + rec->topic_pos, rec->topic_len);
    put_separator(&row, PROPERTIES);
    if (object.p != NULL) put_given_properties(&row, object);
    else put_properties(&row, &found);
    put_separator(&row, TAGS);
    put_text_or_none(&row, found.known.tags.p, found.known.tags.len);
    put_separator(&row, KEYS);
    put_words(&row, found.known.keys);
    put_separator(&row, UNIQ_KEY);
    put_text_or_none(&row, found.known.uniq_key.p, found.known.uniq_key.len);
    put_tail(&row, rmq_tags_code(rec, &found.known, levels));
    return out->failed ? RMQ_ROW_MEMORY : RMQ_ROW_DONE;
}
