#include "put/arrow_import.h"
#include "put/arrow_values.h"
#include "format/text.h"
#include "format/utf8.h"
#include <string.h>

static const uint8_t DEFAULT_HOST[RMQ_HOST_V6_SIZE] = {127, 0, 0, 1}; /* 127.0.0.1:0 */
static const rmq_text NO_TEXT = {NULL, 0};

void rmq_import_defaults(rmq_put *puts, int64_t count) {
    memset(puts, 0, (size_t)count * sizeof *puts);
    for (int64_t i = 0; i < count; i++) {
        memcpy(puts[i].msg.born_host, DEFAULT_HOST, sizeof DEFAULT_HOST);
        memcpy(puts[i].msg.store_host, DEFAULT_HOST, sizeof DEFAULT_HOST);
        puts[i].born_now = 1;
    }
}

/* One call of rmq_import_rows. Columns are read one after the other; a fault shortens the chunk to the rows before it. An item is
 * RMQ_PUT_WAITING until it is refused. */
typedef struct chunk {
    rmq_import *import;
    const rmq_import_batch *batch;
    rmq_put *puts;
    int64_t from, count;
    rmq_import_fault *fault;
} chunk;

static void note(rmq_import_fault *fault, int32_t code, int32_t column, int64_t row, rmq_text text, int64_t found) {
    fault->code = code;
    fault->column = column;
    fault->row = row;
    fault->found = found;
    fault->expected = 0;
    fault->what = NULL;
    fault->sample_len = text.len < RMQ_IMP_SAMPLE ? (uint32_t)text.len : RMQ_IMP_SAMPLE;
    if (fault->sample_len) memcpy(fault->sample, text.p, fault->sample_len);
}

/* Notes a fault or a refusal at item i. */
static __attribute__((noinline, cold)) void object(chunk *c, int64_t i, int32_t code, int32_t column, rmq_text text,
                                                   int64_t found) {
    if (code > RMQ_IMP_REFUSALS) {
        c->count = i;
        note(c->fault, code, column, c->from + i, text, found);
        return;
    }
    rmq_import_fault *first = &c->import->refusal;
    if (first->code == 0 || c->from + i < first->row) note(first, code, column, c->from + i, text, found);
    if (code != RMQ_IMP_R_LIMIT) c->puts[i].status = RMQ_PUT_MESSAGE_ILLEGAL;
}

/* ---- numbers -------------------------------------------------------------------------------------- */

/* `field` is that of the first item. */
static void numbers32(chunk *c, int32_t column, int32_t *field) {
    const rmq_import_array *a = &c->batch->columns[column].texts.array;
    if (!c->batch->columns[column].present) return;
    uint8_t *out = (uint8_t *)field;
    for (int64_t i = 0; i < c->count; i++, out += sizeof *c->puts) {
        int64_t value = 0;
        if (rmq_iv_valid(a, c->from + i)) {
            const int fits = rmq_iv_number(a, c->from + i, &value);
            if (!fits || value != (int32_t)value) object(c, i, RMQ_IMP_R_RANGE, column, NO_TEXT, value);
        }
        const int32_t small = (int32_t)value;
        memcpy(out, &small, sizeof small);
    }
}

static void transaction_offsets(chunk *c) {
    const int32_t column = RMQ_IMP_PREPARED_TRANSACTION_OFFSET;
    const rmq_import_array *a = &c->batch->columns[column].texts.array;
    if (!c->batch->columns[column].present) return;
    for (int64_t i = 0; i < c->count; i++) {
        int64_t value = 0;
        if (rmq_iv_valid(a, c->from + i) && !rmq_iv_number(a, c->from + i, &value)) {
            object(c, i, RMQ_IMP_R_RANGE, column, NO_TEXT, value);
        }
        c->puts[i].msg.prepared_transaction_offset = value;
    }
}

static void born_timestamps(chunk *c) {
    const int32_t column = RMQ_IMP_BORN_TIMESTAMP_MS;
    const rmq_import_array *a = &c->batch->columns[column].texts.array;
    const int64_t units = c->import->types[column].units;
    if (!c->batch->columns[column].present) return;
    for (int64_t i = 0; i < c->count; i++) {
        rmq_put *put = &c->puts[i];
        int64_t value = 0;
        put->born_now = !rmq_iv_valid(a, c->from + i);
        if (!put->born_now) {
            int fits = rmq_iv_number(a, c->from + i, &value);
            const int64_t found = value;
            if (units < 0) fits = fits && !__builtin_mul_overflow(value, -units, &value);
            if (units > 1) value = value / units - (value % units < 0); /* before 1970 too, the earlier millisecond */
            if (!fits) object(c, i, RMQ_IMP_R_RANGE, column, NO_TEXT, found);
        }
        put->msg.born_timestamp = value;
    }
}

/* ---- hosts ---------------------------------------------------------------------------------------- */

/* Rows in a row often have the same host: its text is compared before it is read. */
static const rmq_import_host *find_host(rmq_import_host *last, rmq_text text) {
    if (last->text != NULL && last->len == text.len && memcmp(last->text, text.p, (size_t)text.len) == 0) return last;
    const size_t size = rmq_host_parse((const char *)text.p, (size_t)text.len, last->packed);
    last->text = size ? text.p : NULL;
    last->len = text.len;
    last->v6 = size == RMQ_HOST_V6_SIZE;
    return size ? last : NULL;
}

static void hosts(chunk *c, int32_t column) {
    const rmq_import_texts *texts = &c->batch->columns[column].texts;
    rmq_import_host *last = &c->import->last[column == RMQ_IMP_STORE_HOST];
    if (!c->batch->columns[column].present) return;
    for (int64_t i = 0; i < c->count; i++) {
        static const rmq_import_host none = {NULL, 0, 0, {127, 0, 0, 1}};
        rmq_message *msg = &c->puts[i].msg;
        const rmq_import_host *host = &none;
        rmq_text text;
        const int32_t code = rmq_iv_text(texts, c->from + i, &text);
        if (code < 0) {
            object(c, i, code, column, NO_TEXT, 0);
            return;
        }
        if (text.len > 0) host = find_host(last, text);
        if (host == NULL) {
            object(c, i, RMQ_IMP_R_HOST, column, text, 0);
        } else if (column == RMQ_IMP_BORN_HOST) {
            memcpy(msg->born_host, host->packed, sizeof msg->born_host);
            msg->born_host_v6 = host->v6;
        } else {
            memcpy(msg->store_host, host->packed, sizeof msg->store_host);
            msg->store_host_v6 = host->v6;
        }
    }
}

/* ---- texts ---------------------------------------------------------------------------------------- */

#define ALL_BYTES(b) (UINT64_C(0x0101010101010101) * (b))

/* Sets the top bit of each byte that is below `least` or not ASCII. A byte above such a byte may be marked too, but no such
 * byte is missed. */
RMQ_IV_INLINE uint64_t suspects(uint64_t word, uint8_t least) {
    return ((word - ALL_BYTES(least)) | word) & ALL_BYTES(0x80);
}

/* Reads the bytes in up to two overlapping words per step and passes each word to the copy (unless out is NULL) and to
 * the test: the strings of a message have some ten bytes, a loop over single bytes would cost more than all the rest.
 * */
RMQ_IV_INLINE uint64_t copy_and_look(uint8_t *out, const uint8_t *p, size_t len, uint8_t least) {
    uint64_t seen = 0, word;
    if (len >= 8) {
        size_t i = 0;
        for (; i + 8 <= len; i += 8) {
            memcpy(&word, p + i, 8);
            if (out) memcpy(out + i, &word, 8);
            seen |= suspects(word, least);
        }
        memcpy(&word, p + len - 8, 8);
        if (out) memcpy(out + len - 8, &word, 8);
        return seen | suspects(word, least);
    }
    if (len >= 4) {
        uint32_t low, high;
        memcpy(&low, p, 4);
        memcpy(&high, p + len - 4, 4);
        if (out) {
            memcpy(out, &low, 4);
            memcpy(out + len - 4, &high, 4);
        }
        return suspects((uint64_t)high << 32 | low, least);
    }
    for (size_t i = 0; i < len; i++) {
        if (out) out[i] = p[i];
        seen |= suspects(p[i] | ALL_BYTES(0x40) << 8, least);
    }
    return seen;
}

enum { TOPIC, VALUE, NAME, KEY }; /* the use of a text; later uses allow fewer of the byte values */

static __attribute__((noinline)) int32_t look_closely(rmq_text text, int use) {
    if (!rmq_utf8_valid(text.p, (size_t)text.len)) return RMQ_IMP_R_UTF8;
    if (use == TOPIC) return 0;
    if (memchr(text.p, RMQ_PROPERTY_SEPARATOR, (size_t)text.len)) return RMQ_IMP_R_SEPARATOR;
    if (use == NAME && memchr(text.p, RMQ_NAME_VALUE_SEPARATOR, (size_t)text.len)) return RMQ_IMP_R_SEPARATOR;
    if (use == KEY && memchr(text.p, ' ', (size_t)text.len)) return RMQ_IMP_R_KEY;
    return 0;
}

/* The properties string of a row; bytes beyond its room are only counted. */
typedef struct image {
    uint8_t *at;
    size_t len;
} image;

RMQ_IV_INLINE void put_byte(image *image, uint8_t byte) {
    if (image->len < RMQ_MAX_PROPERTIES_LEN) image->at[image->len] = byte;
    image->len++;
}

RMQ_IV_INLINE int32_t put_text(image *image, rmq_text text, int use) {
    const size_t len = (size_t)text.len;
    uint8_t *out = image->len + len <= RMQ_MAX_PROPERTIES_LEN ? image->at + image->len : NULL;
    const uint64_t seen = copy_and_look(out, text.p, len, use == KEY ? 0x21 : 0x20);
    image->len += len;
    return seen == 0 ? 0 : look_closely(text, use);
}

/* A name of the engine's own and its 0x01. */
RMQ_IV_INLINE void put_name(image *image, const char *name, size_t len) {
    if (image->len + len <= RMQ_MAX_PROPERTIES_LEN) memcpy(image->at + image->len, name, len);
    image->len += len;
}

/* KEYS: the words of row i, joined by spaces. */
RMQ_IV_INLINE int32_t put_keys(const rmq_import_column *column, int64_t i, image *image, rmq_text *faulty) {
    const rmq_import_array *lists = &column->texts.array;
    uint64_t at, end;
    if (!rmq_iv_valid(lists, i)) return 0;
    const int32_t code = rmq_iv_range(lists, i, lists->kind == RMQ_IK_LIST64, &at, &end);
    if (code < 0 || at == end) return code;
    put_name(image, "KEYS\x01", 5);
    for (;;) {
        rmq_text word;
        int32_t fault = rmq_iv_text(&column->items[0], (int64_t)at, &word);
        if (fault == 0 && word.p == NULL) fault = RMQ_IMP_R_NULL;
        if (fault == 0) fault = word.len ? put_text(image, word, KEY) : RMQ_IMP_R_KEY;
        if (fault < 0) {
            *faulty = word;
            return fault;
        }
        if (++at == end) break;
        put_byte(image, ' ');
    }
    put_byte(image, RMQ_PROPERTY_SEPARATOR);
    return 0;
}

static int equal(rmq_text a, rmq_text b) { return a.len == b.len && memcmp(a.p, b.p, (size_t)a.len) == 0; }

static int is_name(rmq_text text, const char *name, size_t len) {
    return text.len == len && memcmp(text.p, name, len) == 0;
}

/* Whether the name of entry `at` is that of an entry [begin, at) of the same map. */
static int named_before(rmq_import *import, const rmq_import_texts *names, uint64_t begin, uint64_t at, rmq_text name) {
    rmq_text other;
    if (at - begin < 8) {
        for (uint64_t j = begin; j < at; j++) {
            if (rmq_iv_text(names, (int64_t)j, &other) == 0 && other.p && equal(other, name)) return 1;
        }
        return 0;
    }
    /* Many: a table, made when the ninth arrives. The string has room for 16,384 pairs at most, half the table. */
    uint64_t first = at;
    if (at - begin == 8) {
        memset(import->seen, 0, sizeof import->seen);
        first = begin;
    }
    for (uint64_t j = first; j <= at; j++) {
        if (rmq_iv_text(names, (int64_t)j, &other) < 0 || other.p == NULL) continue;
        uint32_t hash = 2166136261U;
        for (size_t k = 0; k < other.len; k++) hash = (hash ^ other.p[k]) * 16777619U;
        uint32_t slot = (hash ^ hash >> 15) & (RMQ_IMP_SEEN - 1);
        for (; import->seen[slot]; slot = (slot + 1) & (RMQ_IMP_SEEN - 1)) {
            rmq_text there;
            (void)rmq_iv_text(names, (int64_t)(begin + import->seen[slot] - 1), &there);
            if (j == at && equal(there, name)) return 1;
        }
        import->seen[slot] = (uint16_t)(j - begin + 1);
    }
    return 0;
}

/* The pairs of row i behind TAGS and KEYS, which may occur again with the same value. */
static int32_t put_properties(rmq_import *import, const rmq_import_column *column, int64_t i, rmq_text tags,
                              rmq_text keys, image *image, rmq_text *faulty, int *inner) {
    const rmq_import_array *maps = &column->texts.array;
    uint64_t begin, end;
    if (!rmq_iv_valid(maps, i)) return 0;
    int32_t code = rmq_iv_range(maps, i, 0, &begin, &end);
    for (uint64_t at = begin; code == 0 && at < end; at++) {
        rmq_text name, value;
        code = rmq_iv_text(&column->items[0], (int64_t)at, &name);
        if (code == 0) code = rmq_iv_text(&column->items[1], (int64_t)at, &value);
        if (code < 0) break;
        *faulty = name;
        if (name.p == NULL) return RMQ_IMP_R_NULL;
        if (image->len <= RMQ_MAX_PROPERTIES_LEN && at - begin < RMQ_IMP_SEEN / 2 &&
            named_before(import, &column->items[0], begin, at, name)) {
            return RMQ_IMP_R_TWICE;
        }
        if (value.p == NULL) continue; /* as a value None */
        const rmq_text *sugar = is_name(name, "TAGS", 4) ? &tags : is_name(name, "KEYS", 4) ? &keys : NULL;
        if (sugar && sugar->p) {
            if (!equal(*sugar, value)) return RMQ_IMP_R_TWICE;
            continue;
        }
        if (is_name(name, "INNER_NUM", 9)) *inner = 1;
        if (import->append_prop_crc && is_name(name, "__CRC32#", 8)) continue;
        code = put_text(image, name, NAME);
        put_byte(image, RMQ_NAME_VALUE_SEPARATOR);
        if (code == 0) code = put_text(image, value, VALUE);
        put_byte(image, RMQ_PROPERTY_SEPARATOR);
    }
    return code;
}

/* ---- rows ----------------------------------------------------------------------------------------- */

/* Topic, body and properties of one row; *column and *faulty name the subject of a fault or refusal. */
RMQ_IV_INLINE int32_t one_row(chunk *c, int64_t i, image *image, int32_t *column, rmq_text *faulty, int *inner) {
    const rmq_import_column *columns = c->batch->columns;
    rmq_message *msg = &c->puts[i].msg;
    const int64_t at = c->from + i;
    rmq_text text;
    int32_t code;
    *faulty = NO_TEXT;

    *column = RMQ_IMP_TOPIC;
    code = rmq_iv_text(&columns[RMQ_IMP_TOPIC].texts, at, &text);
    if (code < 0) return code;
    if (text.p == NULL) return RMQ_IMP_R_NULL;
    msg->topic = text.p;
    msg->topic_len = (size_t)text.len;
    if (copy_and_look(NULL, text.p, (size_t)text.len, 0)) {
        *faulty = text;
        code = look_closely(text, TOPIC);
        if (code < 0) return code;
    }

    *column = RMQ_IMP_BODY;
    code = rmq_iv_text(&columns[RMQ_IMP_BODY].texts, at, &text);
    if (code < 0) return code;
    if (text.p == NULL) return RMQ_IMP_R_NULL;
    msg->body = text.p;
    msg->body_len = (size_t)text.len;

    rmq_text tags = NO_TEXT, keys = NO_TEXT;
    if (columns[RMQ_IMP_TAGS].present) {
        *column = RMQ_IMP_TAGS;
        code = rmq_iv_text(&columns[RMQ_IMP_TAGS].texts, at, &text);
        if (code < 0) return code;
        if (text.len) {
            *faulty = tags = text;
            put_name(image, "TAGS\x01", 5);
            code = put_text(image, text, VALUE);
            if (code < 0) return code;
            put_byte(image, RMQ_PROPERTY_SEPARATOR);
        }
    }
    if (columns[RMQ_IMP_KEYS].present) {
        *column = RMQ_IMP_KEYS;
        const size_t before = image->len;
        code = put_keys(&columns[RMQ_IMP_KEYS], at, image, faulty);
        if (code < 0) return code;
        if (image->len > before && image->len <= RMQ_MAX_PROPERTIES_LEN) {
            keys.p = image->at + before + 5;
            keys.len = image->len - before - 6;
        }
    }
    if (columns[RMQ_IMP_PROPERTIES].present) {
        *column = RMQ_IMP_PROPERTIES;
        code = put_properties(c->import, &columns[RMQ_IMP_PROPERTIES], at, tags, keys, image, faulty, inner);
        if (code < 0) return code;
    }
    msg->props = image->len <= RMQ_MAX_PROPERTIES_LEN ? image->at : NULL;
    msg->props_len = image->len;
    return 0;
}

static void texts_and_checks(chunk *c, const rmq_log *log, uint8_t *arena) {
    const uint8_t *validity = c->batch->validity, *end = arena + RMQ_IMP_ARENA_SIZE;
    for (int64_t i = 0; i < c->count; i++) {
        if (end - arena < RMQ_MAX_PROPERTIES_LEN) {
            c->count = i;
            c->fault->code = 0; /* a later fault is reported with its own chunk */
            return;
        }
        image image = {arena, 0};
        int32_t column = RMQ_IMP_TOPIC, code;
        int inner = 0;
        rmq_text faulty = NO_TEXT;
        rmq_put *put = &c->puts[i];
        const int64_t at = c->batch->offset + c->from + i;
        if (validity && !(validity[at >> 3] >> (at & 7) & 1)) {
            code = RMQ_IMP_R_NULL;
        } else {
            code = one_row(c, i, &image, &column, &faulty, &inner);
        }
        if (code < 0) {
            object(c, i, code, column, faulty, 0);
            if (code > RMQ_IMP_REFUSALS) return;
        }
        if (put->status != RMQ_PUT_WAITING) continue;
        if (log == NULL) {
            rmq_put_check_record(put, c->import->append_prop_crc);
        } else {
            rmq_put_check(log, put);
            /* A batch in one record is only for topics of batch queues, which are not written. */
            if (inner && put->status == RMQ_PUT_WAITING) put->status = RMQ_PUT_MESSAGE_ILLEGAL;
        }
        if (put->status == RMQ_PUT_WAITING) {
            arena += image.len;
        } else {
            const rmq_text topic = {put->msg.topic, put->msg.topic_len};
            put->given_queue_id = put->msg.queue_id;
            object(c, i, RMQ_IMP_R_LIMIT, -1, topic, put->status);
        }
    }
}

int64_t rmq_import_rows(rmq_import *import, const rmq_log *log, const rmq_import_batch *batch, int64_t from,
                        int64_t count, rmq_put *puts, uint8_t *arena, rmq_import_fault *fault) {
    chunk c = {import, batch, puts, from, count, fault};
    fault->code = 0;
    for (int64_t i = 0; i < count; i++) puts[i].status = RMQ_PUT_WAITING;
    numbers32(&c, RMQ_IMP_QUEUE_ID, &puts->msg.queue_id);
    numbers32(&c, RMQ_IMP_FLAG, &puts->msg.flag);
    numbers32(&c, RMQ_IMP_SYS_FLAG, &puts->msg.sys_flag);
    numbers32(&c, RMQ_IMP_RECONSUME_TIMES, &puts->msg.reconsume_times);
    born_timestamps(&c);
    transaction_offsets(&c);
    hosts(&c, RMQ_IMP_BORN_HOST);
    hosts(&c, RMQ_IMP_STORE_HOST);
    texts_and_checks(&c, log, arena);
    return c.count;
}
