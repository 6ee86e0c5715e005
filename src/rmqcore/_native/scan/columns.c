#include "scan/columns.h"
#include "format/jhash.h"
#include "format/utf8.h"
#include <string.h>

#define BIT(id) (UINT32_C(1) << (id))
#define WANTED(id) (wanted & BIT(id))

#define PROPERTY_COLUMNS                                                                       \
    (BIT(RMQ_COL_PROPERTIES) | BIT(RMQ_COL_TAGS) | BIT(RMQ_COL_KEYS) | BIT(RMQ_COL_UNIQ_KEY) | \
     BIT(RMQ_COL_TAGS_CODE) | BIT(RMQ_COL_KEY_HASHES) | BIT(RMQ_COL_TAG_ID))
/* The most frequent sets: all columns, and all plain numbers with the tags code. */
#define ALL_COLUMNS (BIT(RMQ_COL_PUBLIC) - 1)
#define NUMBERS                                                                                        \
    (BIT(RMQ_COL_PHY_OFFSET) | BIT(RMQ_COL_MSG_SIZE) | BIT(RMQ_COL_MAGIC) | BIT(RMQ_COL_BODY_CRC) |    \
     BIT(RMQ_COL_QUEUE_ID) | BIT(RMQ_COL_FLAG) | BIT(RMQ_COL_QUEUE_OFFSET) | BIT(RMQ_COL_SYS_FLAG) |   \
     BIT(RMQ_COL_BORN_TIMESTAMP_MS) | BIT(RMQ_COL_STORE_TIMESTAMP_MS) | BIT(RMQ_COL_RECONSUME_TIMES) | \
     BIT(RMQ_COL_PREPARED_TRANSACTION_OFFSET) | BIT(RMQ_COL_TAGS_CODE))
/* The columns for queues, and for queues with an index: in each open and each dispatch. */
#define QUEUES                                                                                             \
    (BIT(RMQ_COL_PHY_OFFSET) | BIT(RMQ_COL_MSG_SIZE) | BIT(RMQ_COL_QUEUE_ID) | BIT(RMQ_COL_QUEUE_OFFSET) | \
     BIT(RMQ_COL_SYS_FLAG) | BIT(RMQ_COL_STORE_TIMESTAMP_MS) | BIT(RMQ_COL_TAGS_CODE) | BIT(RMQ_COL_TOPIC_ID))
#define QUEUES_AND_INDEX (QUEUES | BIT(RMQ_COL_KEY_HASHES))
/* The stored values of a record, without derived ones: numbers, topic, tags and body. */
#define STORED ((NUMBERS & ~BIT(RMQ_COL_TAGS_CODE)) | BIT(RMQ_COL_TOPIC) | BIT(RMQ_COL_TAGS) | BIT(RMQ_COL_BODY))
/* The columns for counts by topic. */
#define COUNTED                                                                         \
    (BIT(RMQ_COL_PHY_OFFSET) | BIT(RMQ_COL_MSG_SIZE) | BIT(RMQ_COL_BORN_TIMESTAMP_MS) | \
     BIT(RMQ_COL_STORE_TIMESTAMP_MS) | BIT(RMQ_COL_TOPIC_ID) | BIT(RMQ_COL_TAG_ID))
#define INLINE static inline __attribute__((always_inline))

enum {
    /* Copies may write this far past their end; rmq_batch.room keeps it free. */
    SLOP = 32,
    PREFETCH_AHEAD = 4096,
    PREFETCH_UP_TO = 8192,
    /* Room for two hosts, a message id and the overrun of the copies. */
    ROW_ROOM = 2 * RMQ_HOST_TEXT_ROOM + RMQ_MSG_ID_V6_LEN + 8 * SLOP,
};

/* Texts are mostly below 33 bytes, of changing length: two fixed moves beat both memcpy's call and a branch on the length.
 * Reads past the text only when `readable` (the window's end) is far enough. */
static inline void copy_text(uint8_t *to, const uint8_t *from, size_t n, const uint8_t *readable) {
    if (readable - from < SLOP) {
        memcpy(to, from, n);
        return;
    }
    memcpy(to, from, SLOP);
    if (n > SLOP) memcpy(to + SLOP, from + SLOP, n - SLOP);
}

static inline void close_text(rmq_strings *s, size_t n) {
    s->used += n;
    s->offsets[++s->count] = (int32_t)s->used;
}

static inline void put_text(rmq_strings *s, rmq_slice text, int ascii, const uint8_t *readable) {
    if (ascii || rmq_utf8_valid(text.p, text.len)) {
        copy_text(s->data + s->used, text.p, text.len, readable);
        close_text(s, text.len);
    } else {
        close_text(s, rmq_utf8_sanitize(text.p, text.len, s->data + s->used));
    }
}

static inline void put_bytes(rmq_strings *s, const uint8_t *p, size_t n) {
    memcpy(s->data + s->used, p, n);
    close_text(s, n);
}

static inline void put_optional(rmq_column *c, int64_t row, rmq_slice text, int ascii, const uint8_t *readable) {
    uint8_t *byte = &c->validity[row >> 3];
    if ((row & 7) == 0) *byte = 0;
    if (text.p) {
        *byte |= (uint8_t)(1U << (row & 7));
        put_text(&c->strings, text, ascii, readable);
    } else {
        c->null_count++;
        close_text(&c->strings, 0);
    }
}

static const struct rmq_known_host *learn_host(struct rmq_known_host *known, const uint8_t *host) {
    char text[RMQ_HOST_TEXT_ROOM];
    const size_t n = rmq_host_text(host, 0, text); /* at most "255.255.255.255:-2147483648", 27 bytes */
    memcpy(&known->key, host, sizeof known->key);
    memcpy(known->text, text, sizeof known->text);
    known->len = n;
    rmq_hex_upper(host, RMQ_HOST_V4_SIZE, known->hex);
    return known;
}

static inline const struct rmq_known_host *known_host(rmq_scan *scan, const uint8_t *host) {
    uint64_t key;
    memcpy(&key, host, sizeof key);
    struct rmq_known_host *known = &scan->hosts[key * UINT64_C(0x9E3779B97F4A7C15) >> 58];
    return known->key == key && known->len ? known : learn_host(known, host);
}

static void put_host(rmq_scan *scan, rmq_strings *s, const uint8_t *host, int v6) {
    uint8_t *to = s->data + s->used;
    if (v6) {
        close_text(s, rmq_host_text(host, 1, (char *)to));
        return;
    }
    const struct rmq_known_host *known = known_host(scan, host);
    memcpy(to, known->text, sizeof known->text);
    close_text(s, known->len);
}

/* Upper-case hex of 8 bytes given as a big-endian number: nibbles spread to bytes, then +'0' or +'A'-10. */
static inline void put_hex64(uint8_t *to, uint64_t value) {
    for (int half = 0; half < 2; half++) {
        uint64_t x = half ? value & UINT32_MAX : value >> 32;
        x = (x & 0xFFFF) | (x & 0xFFFF0000) << 16;
        x = (x & UINT64_C(0x000000FF000000FF)) | (x & UINT64_C(0x0000FF000000FF00)) << 8;
        x = (x & UINT64_C(0x000F000F000F000F)) | (x & UINT64_C(0x00F000F000F000F0)) << 4;
        const uint64_t letters = (x + UINT64_C(0x0606060606060606)) >> 4 & UINT64_C(0x0101010101010101);
        x += UINT64_C(0x3030303030303030) + letters * 7;
        rmq_store_i64(to + 8 * half, (int64_t)x);
    }
}

static void put_msg_id(rmq_scan *scan, rmq_strings *s, const rmq_record *rec) {
    uint8_t *to = s->data + s->used;
    if (rec->sys_flag & RMQ_SYS_STOREHOST_V6) {
        close_text(s, rmq_msg_id(rec, (char *)to));
        return;
    }
    memcpy(to, known_host(scan, rec->at + rec->store_host_pos)->hex, 16);
    put_hex64(to + 16, (uint64_t)rmq_rec_phy_offset(rec));
    close_text(s, RMQ_MSG_ID_V4_LEN);
}

static int same_name(rmq_slice a, rmq_slice b) { return a.len == b.len && memcmp(a.p, b.p, a.len) == 0; }

/* The map of a record with repeated or very many names: each name at its first place, with its last value, as a Python
 * dict or
 * Java's LinkedHashMap would hold it. Offsets fit 16 bits: properties have at most 32767 bytes. */
static void put_map_slow(rmq_column *c, const uint8_t *props, size_t props_len, size_t before, int ascii,
                         const uint8_t *readable) {
    enum { SLOTS = 16384 }; /* the shortest pair has 4 bytes: at most 8192 names */
    uint16_t first[SLOTS] = {0}, last[SLOTS] = {0};
    for (int write = 0; write < 2; write++) {
        rmq_props_iter it;
        rmq_prop prop;
        rmq_props_begin(&it, props, props_len, before);
        while (rmq_props_next(&it, &prop)) {
            const uint16_t at = (uint16_t)(prop.name.p - props + 1);
            uint32_t slot = rmq_text_hash(prop.name.p, prop.name.len) % SLOTS;
            for (; first[slot]; slot = (slot + 1) % SLOTS) {
                const size_t other = first[slot] - 1u, len = (size_t)prop.name.len + 1; /* with its 0x01 */
                if (other + len <= props_len && memcmp(props + other, prop.name.p, len) == 0) break;
            }
            if (!write) {
                if (first[slot] == 0) first[slot] = at;
                last[slot] = at;
            } else if (first[slot] == at) {
                rmq_props_iter value;
                rmq_prop final = prop;
                rmq_props_begin(&value, props + last[slot] - 1, props_len - last[slot] + 1u, 0);
                rmq_props_next(&value, &final);
                put_text(&c->strings, final.name, ascii, readable);
                put_text(&c->second, final.value, ascii, readable);
            }
        }
    }
}

/* The map of a properties string, and the known properties on the way; `before` as for rmq_props_begin. */
static void put_map(rmq_column *map, int64_t row, const uint8_t *props, size_t props_len, size_t before,
                    rmq_known_props *known, int ascii, const uint8_t *readable) {
    enum { QUICK = 32 };
    rmq_slice names[QUICK];
    size_t count = 0;
    uint64_t seen = 0;
    int slow = 0;
    const size_t begin_names = map->strings.count, begin_values = map->second.count;
    const size_t begin_names_used = map->strings.used, begin_values_used = map->second.used;
    rmq_props_iter it;
    rmq_prop prop;
    rmq_props_begin(&it, props, props_len, before);
    while (rmq_props_next(&it, &prop)) {
        rmq_props_note(known, &prop);
        if (slow) continue;
        /* A repeated name is rare: a bit set says "never seen", only otherwise are names compared. */
        const uint64_t bit =
            UINT64_C(1) << ((prop.name.p[0] * 5u + prop.name.p[prop.name.len - 1] + prop.name.len) & 63);
        if (count == QUICK) slow = 1;
        if (seen & bit) {
            for (size_t i = 0; i < count && !slow; i++) slow = same_name(names[i], prop.name);
        }
        if (slow) continue;
        seen |= bit;
        names[count++] = prop.name;
        put_text(&map->strings, prop.name, ascii, readable);
        put_text(&map->second, prop.value, ascii, readable);
    }
    if (slow) {
        map->strings.count = begin_names;
        map->strings.used = begin_names_used;
        map->second.count = begin_values;
        map->second.used = begin_values_used;
        put_map_slow(map, props, props_len, before, ascii, readable);
    }
    map->offsets[row + 1] = (int32_t)map->strings.count;
}

static void put_keys(rmq_column *c, int64_t row, rmq_slice keys, int ascii, const uint8_t *readable) {
    size_t pos = 0;
    rmq_slice word;
    while (rmq_keys_next(keys, &pos, &word)) put_text(&c->strings, word, ascii, readable);
    c->offsets[row + 1] = (int32_t)c->strings.count;
}

/* IndexService#buildIndex in 5.5.0: UNIQ_KEY, the words of KEYS, then T#TAGS; nothing for a rollback. */
static void put_key_hashes(rmq_column *c, int64_t row, const rmq_record *rec, const rmq_known_props *known,
                           uint32_t seed) {
    int32_t *hash = c->values.i32 + c->offsets[row];
    if ((rec->sys_flag & RMQ_SYS_TRANSACTION_MASK) != RMQ_SYS_TRANSACTION_ROLLBACK) {
        if (known->uniq_key.p) *hash++ = rmq_index_key_hash(rmq_jhash(seed, known->uniq_key.p, known->uniq_key.len));
        size_t pos = 0;
        rmq_slice word;
        while (rmq_keys_next(known->keys, &pos, &word)) *hash++ = rmq_index_key_hash(rmq_jhash(seed, word.p, word.len));
        if (known->tags.p) {
            const uint32_t prefix = rmq_jhash(seed, (const uint8_t *)"T#", 2);
            *hash++ = rmq_index_key_hash(rmq_jhash(prefix, known->tags.p, known->tags.len));
        }
    }
    c->offsets[row + 1] = (int32_t)(hash - c->values.i32);
}

#define PUT_I32(id, value) \
    if (WANTED(id)) columns[id].values.i32[row] = (value)
#define PUT_I64(id, value) \
    if (WANTED(id)) columns[id].values.i64[row] = (value)

/* 0, or -1 without memory. */
INLINE int append_properties(rmq_scan *scan, const uint32_t wanted, rmq_column *columns, int64_t row,
                             const rmq_record *rec, int32_t topic_id, const rmq_known_props *filtered,
                             const uint8_t *readable) {
    rmq_known_props own;
    const rmq_known_props *known = &own;
    const int ascii = rmq_is_ascii(rec->at + rec->props_pos, rec->props_len);
    if (WANTED(RMQ_COL_PROPERTIES)) {
        rmq_props_none(&own);
        put_map(&columns[RMQ_COL_PROPERTIES], row, rec->at + rec->props_pos, rec->props_len, rec->props_pos, &own,
                ascii, readable);
    } else if (filtered) {
        known = filtered;
    } else {
        rmq_props_known(rec->at + rec->props_pos, rec->props_len, rec->props_pos, &own);
    }
    if (WANTED(RMQ_COL_TAGS)) put_optional(&columns[RMQ_COL_TAGS], row, known->tags, ascii, readable);
    if (WANTED(RMQ_COL_UNIQ_KEY)) put_optional(&columns[RMQ_COL_UNIQ_KEY], row, known->uniq_key, ascii, readable);
    if (WANTED(RMQ_COL_KEYS)) put_keys(&columns[RMQ_COL_KEYS], row, known->keys, ascii, readable);
    if (WANTED(RMQ_COL_TAGS_CODE)) {
        int64_t tags_code = 0;
        if (known->delay.p) {
            tags_code = rmq_tags_code(rec, known, &scan->levels);
        } else if (known->tags.p) {
            tags_code = (int32_t)rmq_jhash(0, known->tags.p, known->tags.len);
        }
        columns[RMQ_COL_TAGS_CODE].values.i64[row] = tags_code;
    }
    if (WANTED(RMQ_COL_KEY_HASHES)) {
        put_key_hashes(&columns[RMQ_COL_KEY_HASHES], row, rec, known, rmq_topics_get(scan->topics, topic_id)->key_seed);
    }
    if (WANTED(RMQ_COL_TAG_ID)) {
        int32_t tag_id = -1;
        if (known->tags.p && (tag_id = rmq_topics_intern(scan->tags, known->tags.p, known->tags.len)) < 0) return -1;
        columns[RMQ_COL_TAG_ID].values.i32[row] = tag_id;
    }
    return 0;
}

/* Adds one row. 0, or -1 without memory: then the batch is unusable. */
INLINE int append(rmq_scan *scan, const uint32_t wanted, rmq_batch *batch, const rmq_record *rec,
                  const rmq_known_props *filtered, const uint8_t *readable) {
    const int64_t row = batch->rows;
    rmq_column *const columns = batch->columns;
    /* One test for all columns: malformed text can take three times its bytes. */
    if (wanted & ~(NUMBERS | BIT(RMQ_COL_TOPIC_ID) | BIT(RMQ_COL_TAG_ID))) {
        const size_t need = rec->msg_size + 2 * ((size_t)rec->topic_len + rec->props_len) + ROW_ROOM;
        if (need > batch->room && rmq_batch_grow(batch, need + (64 << 10))) return -1;
        batch->room -= need;
    }

    PUT_I64(RMQ_COL_PHY_OFFSET, rmq_rec_phy_offset(rec));
    PUT_I32(RMQ_COL_MSG_SIZE, (int32_t)rec->msg_size);
    PUT_I32(RMQ_COL_MAGIC, rec->magic);
    PUT_I32(RMQ_COL_BODY_CRC, rmq_rec_body_crc(rec));
    PUT_I32(RMQ_COL_QUEUE_ID, rmq_rec_queue_id(rec));
    PUT_I32(RMQ_COL_FLAG, rmq_rec_flag(rec));
    PUT_I64(RMQ_COL_QUEUE_OFFSET, rmq_rec_queue_offset(rec));
    PUT_I32(RMQ_COL_SYS_FLAG, rec->sys_flag);
    PUT_I64(RMQ_COL_BORN_TIMESTAMP_MS, rmq_rec_born_timestamp(rec));
    PUT_I64(RMQ_COL_STORE_TIMESTAMP_MS, rmq_rec_store_timestamp(rec));
    PUT_I32(RMQ_COL_RECONSUME_TIMES, rmq_rec_reconsume_times(rec));
    PUT_I64(RMQ_COL_PREPARED_TRANSACTION_OFFSET, rmq_rec_prepared_transaction_offset(rec));
    if (WANTED(RMQ_COL_BORN_HOST)) {
        put_host(scan, &columns[RMQ_COL_BORN_HOST].strings, rec->at + RMQ_REC_BORNHOST,
                 rec->sys_flag & RMQ_SYS_BORNHOST_V6);
    }
    if (WANTED(RMQ_COL_STORE_HOST)) {
        put_host(scan, &columns[RMQ_COL_STORE_HOST].strings, rec->at + rec->store_host_pos,
                 rec->sys_flag & RMQ_SYS_STOREHOST_V6);
    }
    if (WANTED(RMQ_COL_MSG_ID)) put_msg_id(scan, &columns[RMQ_COL_MSG_ID].strings, rec);
    if (WANTED(RMQ_COL_BODY)) put_bytes(&columns[RMQ_COL_BODY].strings, rec->at + rec->body_pos, rec->body_len);
    if (WANTED(RMQ_COL_RAW)) put_bytes(&columns[RMQ_COL_RAW].strings, rec->at, rec->msg_size);
    const rmq_slice topic = {rec->at + rec->topic_pos, rec->topic_len};
    if (WANTED(RMQ_COL_TOPIC)) {
        put_text(&columns[RMQ_COL_TOPIC].strings, topic, rmq_is_ascii(topic.p, topic.len), readable);
    }
    int32_t topic_id = 0;
    if (wanted & (BIT(RMQ_COL_TOPIC_ID) | BIT(RMQ_COL_KEY_HASHES)) &&
        (topic_id = rmq_topics_intern(scan->topics, topic.p, topic.len)) < 0)
        return -1;
    PUT_I32(RMQ_COL_TOPIC_ID, topic_id);
    if (wanted & PROPERTY_COLUMNS && append_properties(scan, wanted, columns, row, rec, topic_id, filtered, readable))
        return -1;
    batch->rows = row + 1;
    batch->bytes += rec->msg_size;
    return 0;
}

/* The step code of the record at *pos if it ends the scan; 0 < code < RMQ_REC_MIN_SIZE_V1 are RMQ_S_*. */
INLINE int32_t next_accepted(rmq_scan *scan, const rmq_window *w, size_t *pos, rmq_record *rec,
                             rmq_known_props *known) {
    const rmq_filter *filter = scan->filter;
    for (;;) {
        const int64_t at = w->phy_offset + (int64_t)*pos;
        if (at >= scan->stop_offset) return RMQ_S_STOP;
        if (*pos == w->len && at < w->end_offset) return RMQ_S_END;
        const int32_t size = rmq_window_step(w, *pos, rec);
        if (size <= 0) return size;
        if (filter == NULL) return size;
        if (rmq_filter_accepts(filter, rec, at)) {
            if (!rmq_filter_needs_properties(filter)) return size;
            rmq_props_known(rec->at + rec->props_pos, rec->props_len, rec->props_pos, known);
            if (rmq_filter_accepts_properties(filter, known)) return size;
        }
        *pos += (size_t)size;
    }
}

/* One loop for each set of columns known to the compiler: 22 tests per row cost as much as the CRC. */
INLINE int32_t scan_columns(rmq_scan *scan, const uint32_t wanted, rmq_batch *batch, const rmq_window *window,
                            size_t *pos, rmq_record *out) {
    /* Copies whose address does not leave this function: the compiler keeps them in registers. */
    const rmq_window w = *window;
    size_t at = *pos;
    rmq_record rec;
    const uint8_t *readable = w.buf + w.len;
    rmq_known_props known;
    const int parsed = scan->filter && rmq_filter_needs_properties(scan->filter);
    /* Unread bodies of changing length defeat the hardware prefetcher: every line some way ahead is prefetched (numbers
     * of 1 KiB records of mixed size: 230 -> 51 ns each), unless the body is so long that two misses cost less. */
    const int skips_bodies = !w.check_crc && !(wanted & (BIT(RMQ_COL_BODY) | BIT(RMQ_COL_RAW)));
    int32_t code = RMQ_S_FULL;
    while (batch->rows < scan->batch_rows && batch->bytes < scan->batch_bytes) {
        code = next_accepted(scan, &w, &at, &rec, &known);
        if (code < RMQ_REC_MIN_SIZE_V1) break;
        if (append(scan, wanted, batch, &rec, parsed ? &known : NULL, readable)) {
            code = RMQ_S_MEMORY;
            break;
        }
        if (skips_bodies && code <= PREFETCH_UP_TO) {
            /* An address, not a pointer: it may lie behind the window, where a prefetch does nothing. */
            const uintptr_t ahead = (uintptr_t)rec.at + PREFETCH_AHEAD;
            for (uintptr_t z = 0; z < (uintptr_t)code; z += 64) __builtin_prefetch((const void *)(ahead + z));
        }
        at += (size_t)code;
        code = RMQ_S_FULL;
    }
    *pos = at;
    if (code <= 0) *out = rec;
    return code;
}

int32_t rmq_scan_columns(rmq_scan *scan, rmq_batch *batch, const rmq_window *w, size_t *pos, rmq_record *rec) {
    switch (scan->wanted) {
        case ALL_COLUMNS:
            return scan_columns(scan, ALL_COLUMNS, batch, w, pos, rec);
        case NUMBERS:
            return scan_columns(scan, NUMBERS, batch, w, pos, rec);
        case QUEUES:
            return scan_columns(scan, QUEUES, batch, w, pos, rec);
        case QUEUES_AND_INDEX:
            return scan_columns(scan, QUEUES_AND_INDEX, batch, w, pos, rec);
        case STORED:
            return scan_columns(scan, STORED, batch, w, pos, rec);
        case COUNTED:
            return scan_columns(scan, COUNTED, batch, w, pos, rec);
        default:
            return scan_columns(scan, scan->wanted, batch, w, pos, rec);
    }
}

int32_t rmq_scan_next(rmq_scan *scan, const rmq_window *w, size_t *pos, rmq_record *rec) {
    rmq_known_props known;
    const int32_t size = next_accepted(scan, w, pos, rec, &known);
    return size < RMQ_REC_MIN_SIZE_V1 ? size : RMQ_S_RECORD;
}

int rmq_batch_add_properties(rmq_batch *batch, const uint8_t *props, size_t len, size_t before, size_t after) {
    const size_t need = 3 * len + ROW_ROOM;
    rmq_known_props known;
    if (need > batch->room && rmq_batch_grow(batch, need + (64 << 10))) return -1;
    batch->room -= need;
    rmq_props_none(&known);
    put_map(&batch->columns[RMQ_COL_PROPERTIES], batch->rows, props, len, before, &known, rmq_is_ascii(props, len),
            props + len + after);
    batch->rows++;
    batch->bytes += len;
    return 0;
}
