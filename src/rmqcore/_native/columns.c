#include "columns.h"
#include "jhash.h"
#include "utf8.h"
#include <string.h>

#define WANTED(id) (scan->wanted & (UINT32_C(1) << (id)))

static const uint32_t PROPERTY_COLUMNS =
    UINT32_C(1) << RMQ_COL_PROPERTIES | UINT32_C(1) << RMQ_COL_TAGS | UINT32_C(1) << RMQ_COL_KEYS |
    UINT32_C(1) << RMQ_COL_UNIQ_KEY | UINT32_C(1) << RMQ_COL_TAGS_CODE | UINT32_C(1) << RMQ_COL_KEY_HASHES;

/* Exactly n bytes with fixed-size moves: properties are mostly below 33 bytes, where calling memcpy costs more. */
static inline void copy_short(uint8_t *to, const uint8_t *from, size_t n) {
    if (n > 32) {
        memcpy(to, from, n);
    } else if (n >= 16) {
        memcpy(to, from, 16);
        memcpy(to + n - 16, from + n - 16, 16);
    } else if (n >= 8) {
        memcpy(to, from, 8);
        memcpy(to + n - 8, from + n - 8, 8);
    } else if (n >= 4) {
        memcpy(to, from, 4);
        memcpy(to + n - 4, from + n - 4, 4);
    } else if (n) {
        to[0] = from[0];
        to[n / 2] = from[n / 2];
        to[n - 1] = from[n - 1];
    }
}

/* Room was made by the caller: n bytes of ASCII, or 3 * n of anything else. */
static inline void put_text(rmq_strings *s, const uint8_t *p, size_t n, int ascii) {
    const int32_t used = s->offsets[s->count];
    if (ascii || rmq_utf8_valid(p, n)) {
        copy_short(s->data + used, p, n);
    } else {
        n = rmq_utf8_sanitize(p, n, s->data + used);
    }
    s->offsets[++s->count] = used + (int32_t)n;
}

static inline void put_empty(rmq_strings *s) {
    s->offsets[s->count + 1] = s->offsets[s->count];
    s->count++;
}

static inline void put_bytes(rmq_strings *s, const uint8_t *p, size_t n) {
    const int32_t used = s->offsets[s->count];
    memcpy(s->data + used, p, n);
    s->offsets[++s->count] = used + (int32_t)n;
}

static inline void put_optional(rmq_column *c, int64_t row, rmq_slice text, int ascii) {
    uint8_t *byte = &c->validity[row >> 3];
    if ((row & 7) == 0) *byte = 0;
    if (text.p) {
        *byte |= (uint8_t)(1U << (row & 7));
        put_text(&c->strings, text.p, text.len, ascii);
    } else {
        c->null_count++;
        put_empty(&c->strings);
    }
}

static int put_host(rmq_scan *scan, rmq_strings *s, const uint8_t *host, int v6) {
    if (rmq_strings_room(s, 1, RMQ_HOST_TEXT_ROOM)) return -1;
    uint8_t *to = s->data + s->offsets[s->count];
    size_t n;
    if (v6) {
        n = rmq_host_text(host, 1, (char *)to);
    } else {
        uint64_t key;
        memcpy(&key, host, sizeof key);
        const size_t slot = (size_t)(key * UINT64_C(0x9E3779B97F4A7C15) >> 58);
        if (scan->hosts[slot].len == 0 || memcmp(scan->hosts[slot].key, host, sizeof key) != 0) {
            char text[RMQ_HOST_TEXT_ROOM];
            n = rmq_host_text(host, 0, text);
            if (n <= sizeof scan->hosts[slot].text) { /* a negative port can be longer */
                memcpy(scan->hosts[slot].key, host, sizeof key);
                memcpy(scan->hosts[slot].text, text, n);
                scan->hosts[slot].len = (uint8_t)n;
            }
            memcpy(to, text, n);
        } else {
            n = scan->hosts[slot].len;
            copy_short(to, (const uint8_t *)scan->hosts[slot].text, n);
        }
    }
    s->offsets[s->count + 1] = s->offsets[s->count] + (int32_t)n;
    s->count++;
    return 0;
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

static int put_msg_id(rmq_strings *s, const rmq_record *rec) {
    if (rmq_strings_room(s, 1, RMQ_MSG_ID_V6_LEN)) return -1;
    uint8_t *to = s->data + s->offsets[s->count];
    size_t n = 32;
    if (rec->sys_flag & RMQ_SYS_STOREHOST_V6) {
        n = rmq_msg_id(rec, (char *)to);
    } else {
        put_hex64(to, (uint64_t)rmq_load_i64(rec->at + rec->store_host_pos));
        put_hex64(to + 16, (uint64_t)rmq_rec_phy_offset(rec));
    }
    s->offsets[s->count + 1] = s->offsets[s->count] + (int32_t)n;
    s->count++;
    return 0;
}

static int same_name(rmq_slice a, rmq_slice b) { return a.len == b.len && memcmp(a.p, b.p, a.len) == 0; }

/* The map of a record with repeated names or very many: of each name the first place and the last value, as a Python dict or
 * Java's LinkedHashMap would hold it. Offsets fit 16 bits: properties have at most 32767 bytes. */
static void put_map_slow(rmq_column *c, const rmq_record *rec, int ascii) {
    enum { SLOTS = 16384 }; /* the shortest pair has 4 bytes: at most 8192 names */
    uint16_t first[SLOTS] = {0}, last[SLOTS] = {0};
    const uint8_t *props = rec->at + rec->props_pos;
    for (int write = 0; write < 2; write++) {
        rmq_props_iter it;
        rmq_prop prop;
        rmq_props_begin(&it, props, rec->props_len, rec->props_pos);
        while (rmq_props_next(&it, &prop)) {
            const uint16_t at = (uint16_t)(prop.name.p - props + 1);
            uint32_t slot = rmq_text_hash(prop.name.p, prop.name.len) % SLOTS;
            for (; first[slot]; slot = (slot + 1) % SLOTS) {
                const size_t other = first[slot] - 1u, len = (size_t)prop.name.len + 1; /* with its 0x01 */
                if (other + len <= rec->props_len && memcmp(props + other, prop.name.p, len) == 0) break;
            }
            if (!write) {
                if (first[slot] == 0) first[slot] = at;
                last[slot] = at;
            } else if (first[slot] == at) {
                rmq_props_iter value;
                rmq_prop final = prop;
                rmq_props_begin(&value, props + last[slot] - 1, rec->props_len - last[slot] + 1u, 0);
                rmq_props_next(&value, &final);
                put_text(&c->strings, final.name.p, final.name.len, ascii);
                put_text(&c->second, final.value.p, final.value.len, ascii);
            }
        }
    }
}

/* Properties: one pass for the known ones and, when wanted, the map. */
static int put_properties(rmq_scan *scan, rmq_batch *batch, const rmq_record *rec, rmq_known_props *known, int *ascii) {
    enum { QUICK = 32 };
    rmq_slice names[QUICK];
    size_t count = 0;
    uint64_t seen = 0;
    int slow = 0;
    memset(known, 0, sizeof *known);
    *ascii = rmq_is_ascii(rec->at + rec->props_pos, rec->props_len);
    rmq_column *map = WANTED(RMQ_COL_PROPERTIES) ? &batch->columns[RMQ_COL_PROPERTIES] : NULL;
    size_t begin_names = 0, begin_values = 0;
    if (map) {
        const size_t bytes = (size_t)rec->props_len * (*ascii ? 1 : 3), pairs = rec->props_len / 4 + 1u;
        if (rmq_strings_room(&map->strings, pairs, bytes) || rmq_strings_room(&map->second, pairs, bytes)) return -1;
        begin_names = map->strings.count;
        begin_values = map->second.count;
    }
    rmq_props_iter it;
    rmq_prop prop;
    rmq_props_begin(&it, rec->at + rec->props_pos, rec->props_len, rec->props_pos);
    while (rmq_props_next(&it, &prop)) {
        rmq_props_note(known, &prop);
        if (map == NULL || slow) continue;
        /* A repeated name is rare: a bit set says "never seen", only otherwise are names compared. */
        const uint64_t bit = UINT64_C(1) << ((prop.name.p[0] * 5u + prop.name.p[prop.name.len - 1] + prop.name.len) & 63);
        if (count == QUICK) slow = 1;
        if (seen & bit) {
            for (size_t i = 0; i < count && !slow; i++) slow = same_name(names[i], prop.name);
        }
        if (slow) continue;
        seen |= bit;
        names[count++] = prop.name;
        put_text(&map->strings, prop.name.p, prop.name.len, *ascii);
        put_text(&map->second, prop.value.p, prop.value.len, *ascii);
    }
    if (map) {
        if (slow) {
            map->strings.count = begin_names;
            map->second.count = begin_values;
            put_map_slow(map, rec, *ascii);
        }
        map->offsets[batch->rows + 1] = (int32_t)map->strings.count;
    }
    return 0;
}

static int put_keys(rmq_column *c, int64_t row, rmq_slice keys, int ascii) {
    if (keys.p) {
        if (rmq_strings_room(&c->strings, keys.len / 2 + 1u, (size_t)keys.len * (ascii ? 1 : 3))) return -1;
        size_t pos = 0;
        rmq_slice word;
        while (rmq_keys_next(keys, &pos, &word)) put_text(&c->strings, word.p, word.len, ascii);
    }
    c->offsets[row + 1] = (int32_t)c->strings.count;
    return 0;
}

/* IndexService#buildIndex in 5.5.0: UNIQ_KEY, the words of KEYS, then T#TAGS; nothing for a rollback. */
static int put_key_hashes(rmq_column *c, int64_t row, const rmq_record *rec, const rmq_known_props *known, uint32_t seed) {
    size_t used = (size_t)c->offsets[row];
    if ((rec->sys_flag & RMQ_SYS_TRANSACTION_MASK) != RMQ_SYS_TRANSACTION_ROLLBACK) {
        if (rmq_hashes_room(c, used, known->keys.len / 2 + 3u)) return -1;
        int32_t *hashes = c->values.i32;
        if (known->uniq_key.p) hashes[used++] = rmq_index_key_hash(rmq_jhash(seed, known->uniq_key.p, known->uniq_key.len));
        if (known->keys.p) {
            size_t pos = 0;
            rmq_slice word;
            while (rmq_keys_next(known->keys, &pos, &word)) {
                hashes[used++] = rmq_index_key_hash(rmq_jhash(seed, word.p, word.len));
            }
        }
        if (known->tags.p) {
            const uint32_t h = rmq_jhash(seed, (const uint8_t *)"T#", 2);
            hashes[used++] = rmq_index_key_hash(rmq_jhash(h, known->tags.p, known->tags.len));
        }
    }
    if (used > INT32_MAX) return -1;
    c->offsets[row + 1] = (int32_t)used;
    return 0;
}

#define PUT_I32(id, value) \
    if (WANTED(id)) batch->columns[id].values.i32[row] = (value)
#define PUT_I64(id, value) \
    if (WANTED(id)) batch->columns[id].values.i64[row] = (value)

/* Adds one row. 0, or -1 without memory: then the batch is unusable. */
static int append(rmq_scan *scan, rmq_batch *batch, const rmq_record *rec, const rmq_known_props *filtered) {
    const int64_t row = batch->rows;
    rmq_column *const columns = batch->columns;
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
    if (WANTED(RMQ_COL_BORN_HOST) && put_host(scan, &columns[RMQ_COL_BORN_HOST].strings, rec->at + RMQ_REC_BORNHOST,
                                              rec->sys_flag & RMQ_SYS_BORNHOST_V6)) {
        return -1;
    }
    if (WANTED(RMQ_COL_STORE_HOST) && put_host(scan, &columns[RMQ_COL_STORE_HOST].strings,
                                               rec->at + rec->store_host_pos, rec->sys_flag & RMQ_SYS_STOREHOST_V6)) {
        return -1;
    }
    if (WANTED(RMQ_COL_BODY)) {
        rmq_strings *s = &columns[RMQ_COL_BODY].strings;
        if (rmq_strings_room(s, 1, rec->body_len)) return -1;
        put_bytes(s, rec->at + rec->body_pos, rec->body_len);
    }
    if (WANTED(RMQ_COL_RAW)) {
        rmq_strings *s = &columns[RMQ_COL_RAW].strings;
        if (rmq_strings_room(s, 1, rec->msg_size)) return -1;
        put_bytes(s, rec->at, rec->msg_size);
    }
    const uint8_t *topic = rec->at + rec->topic_pos;
    if (WANTED(RMQ_COL_TOPIC)) {
        rmq_strings *s = &columns[RMQ_COL_TOPIC].strings;
        if (rmq_strings_room(s, 1, (size_t)rec->topic_len * 3)) return -1;
        put_text(s, topic, rec->topic_len, rmq_is_ascii(topic, rec->topic_len));
    }
    if (WANTED(RMQ_COL_MSG_ID) && put_msg_id(&columns[RMQ_COL_MSG_ID].strings, rec)) return -1;
    int32_t topic_id = 0;
    if (scan->topics && (topic_id = rmq_topics_intern(scan->topics, topic, rec->topic_len)) < 0) return -1;
    PUT_I32(RMQ_COL_TOPIC_ID, topic_id);

    if (scan->wanted & PROPERTY_COLUMNS) {
        rmq_known_props own;
        const rmq_known_props *known = filtered;
        int ascii = 1;
        /* Without the map a filter's parse is as good; with it the properties are walked again. */
        if (known == NULL || WANTED(RMQ_COL_PROPERTIES)) {
            if (put_properties(scan, batch, rec, &own, &ascii)) return -1;
            known = &own;
        } else {
            ascii = rmq_is_ascii(rec->at + rec->props_pos, rec->props_len);
        }
        const size_t factor = ascii ? 1 : 3;
        if (WANTED(RMQ_COL_TAGS)) {
            if (rmq_strings_room(&columns[RMQ_COL_TAGS].strings, 1, known->tags.len * factor)) return -1;
            put_optional(&columns[RMQ_COL_TAGS], row, known->tags, ascii);
        }
        if (WANTED(RMQ_COL_UNIQ_KEY)) {
            if (rmq_strings_room(&columns[RMQ_COL_UNIQ_KEY].strings, 1, known->uniq_key.len * factor)) return -1;
            put_optional(&columns[RMQ_COL_UNIQ_KEY], row, known->uniq_key, ascii);
        }
        if (WANTED(RMQ_COL_KEYS) && put_keys(&columns[RMQ_COL_KEYS], row, known->keys, ascii)) return -1;
        PUT_I64(RMQ_COL_TAGS_CODE, rmq_tags_code(rec, known, &scan->levels));
        if (WANTED(RMQ_COL_KEY_HASHES)) {
            const uint32_t seed = rmq_topics_get(scan->topics, topic_id)->key_seed;
            if (put_key_hashes(&columns[RMQ_COL_KEY_HASHES], row, rec, known, seed)) return -1;
        }
    }
    batch->rows = row + 1;
    batch->bytes += rec->msg_size;
    return 0;
}

/* The step code of the record at *pos when it ends the scan; 0 < code < RMQ_REC_MIN_SIZE_V1 are RMQ_S_*. */
static int32_t next_accepted(rmq_scan *scan, const rmq_window *w, size_t *pos, rmq_record *rec, rmq_known_props *known) {
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

int32_t rmq_scan_columns(rmq_scan *scan, rmq_batch *batch, const rmq_window *w, size_t *pos, rmq_record *rec) {
    rmq_known_props known;
    const int parsed = scan->filter && rmq_filter_needs_properties(scan->filter);
    for (;;) {
        if (batch->rows >= scan->batch_rows || batch->bytes >= scan->batch_bytes) return RMQ_S_FULL;
        const int32_t size = next_accepted(scan, w, pos, rec, &known);
        if (size < RMQ_REC_MIN_SIZE_V1) return size;
        if (append(scan, batch, rec, parsed ? &known : NULL)) return RMQ_S_MEMORY;
        *pos += (size_t)size;
    }
}

int32_t rmq_scan_next(rmq_scan *scan, const rmq_window *w, size_t *pos, rmq_record *rec) {
    rmq_known_props known;
    const int32_t size = next_accepted(scan, w, pos, rec, &known);
    return size < RMQ_REC_MIN_SIZE_V1 ? size : RMQ_S_RECORD;
}
