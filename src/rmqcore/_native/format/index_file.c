#include "format/index_file.h"
#include "format/jhash.h"

int rmq_index_header_decode(const uint8_t *buf, size_t len, rmq_index_header *out) {
    if (len < RMQ_IDX_HEADER_SIZE) return RMQ_IDX_E_SHORT;
    out->begin_timestamp = rmq_load_i64(buf + RMQ_IDX_BEGINTIMESTAMP);
    out->end_timestamp = rmq_load_i64(buf + RMQ_IDX_ENDTIMESTAMP);
    out->begin_phy_offset = rmq_load_i64(buf + RMQ_IDX_BEGINPHYOFFSET);
    out->end_phy_offset = rmq_load_i64(buf + RMQ_IDX_ENDPHYOFFSET);
    out->hash_slot_count = rmq_load_i32(buf + RMQ_IDX_HASHSLOTCOUNT);
    out->index_count = rmq_load_i32(buf + RMQ_IDX_INDEXCOUNT);
    return 0;
}

int rmq_index_header_encode(const rmq_index_header *header, uint8_t *out, size_t room) {
    if (room < RMQ_IDX_HEADER_SIZE) return RMQ_IDX_E_SHORT;
    rmq_store_i64(out + RMQ_IDX_BEGINTIMESTAMP, header->begin_timestamp);
    rmq_store_i64(out + RMQ_IDX_ENDTIMESTAMP, header->end_timestamp);
    rmq_store_i64(out + RMQ_IDX_BEGINPHYOFFSET, header->begin_phy_offset);
    rmq_store_i64(out + RMQ_IDX_ENDPHYOFFSET, header->end_phy_offset);
    rmq_store_i32(out + RMQ_IDX_HASHSLOTCOUNT, header->hash_slot_count);
    rmq_store_i32(out + RMQ_IDX_INDEXCOUNT, header->index_count);
    return 0;
}

int32_t rmq_index_hash(const uint8_t *topic, size_t topic_len, const uint8_t *key, size_t key_len) {
    static const uint8_t separator = '#';
    uint32_t hash = rmq_jhash(0, topic, topic_len);
    hash = rmq_jhash(hash, &separator, 1);
    return rmq_index_key_hash(rmq_jhash(hash, key, key_len));
}

/* begin + diff seconds, which cannot overflow for any header: a sum past the range stays at its end. */
static int64_t entry_time(int64_t begin_timestamp, int32_t time_diff) {
    int64_t diff_ms = (int64_t)time_diff * 1000;
    return begin_timestamp > INT64_MAX - diff_ms ? INT64_MAX : begin_timestamp + diff_ms;
}

int rmq_index_chain_walk(rmq_index_walk *walk, const uint8_t *window, size_t len, int32_t first_index, int64_t *out,
                         size_t room, size_t *hits) {
    int64_t first = first_index;
    int64_t last = first + (int64_t)(len / RMQ_IDX_ENTRY_SIZE);
    *hits = 0;
    for (;;) {
        int32_t at = walk->next_index;
        if (at <= 0 || at >= walk->index_count) return RMQ_WALK_END;
        if (at < first || at >= last) return RMQ_WALK_WINDOW;
        if (*hits == room) return RMQ_WALK_FULL;
        if (walk->steps <= 0) return RMQ_WALK_STEPS;
        walk->steps--;
        rmq_index_entry e = rmq_index_entry_load(window + (size_t)(at - first) * RMQ_IDX_ENTRY_SIZE);
        if (e.time_diff < 0) {
            walk->next_index = 0;
            return RMQ_WALK_END;
        }
        int64_t time = entry_time(walk->begin_timestamp, e.time_diff);
        if (e.key_hash == walk->key_hash && time >= walk->begin_ms && time <= walk->end_ms) {
            out[(*hits)++] = e.phy_offset;
        }
        if (time < walk->begin_ms || e.prev_index <= 0) {
            walk->next_index = 0;
            return RMQ_WALK_END;
        }
        if (e.prev_index >= at) {
            walk->broken_index = at;
            walk->next_index = 0;
            return RMQ_WALK_BROKEN;
        }
        walk->next_index = e.prev_index;
    }
}

typedef struct findings {
    rmq_index_finding *out;
    size_t room;
    int64_t count;
} findings;

static void note(findings *f, int64_t index, int32_t field, int64_t expected, int64_t found) {
    if ((uint64_t)f->count < f->room) {
        rmq_index_finding finding = {index, expected, found, field};
        f->out[f->count] = finding;
    }
    f->count++;
}

int64_t rmq_index_check_entries(rmq_index_check *check, const uint8_t *buf, size_t len, rmq_index_finding *out,
                                size_t room) {
    findings f = {out, room, 0};
    if (check->heads == NULL || check->slots == 0 || check->slots > INT32_MAX) return RMQ_IDX_E_SLOTS;
    for (size_t pos = 0; len - pos >= RMQ_IDX_ENTRY_SIZE; pos += RMQ_IDX_ENTRY_SIZE) {
        rmq_index_entry e = rmq_index_entry_load(buf + pos);
        int64_t index = check->next_index++;
        if (e.time_diff < 0) note(&f, index, RMQ_IDX_FIELD_TIMEDIFF, 0, e.time_diff);
        if (e.phy_offset < check->last_phy_offset) {
            note(&f, index, RMQ_IDX_FIELD_PHYOFFSET, check->last_phy_offset, e.phy_offset);
        }
        /* Also after a decrease: one wrong offset must not make all later entries findings. */
        check->last_phy_offset = e.phy_offset;
        if (e.key_hash < 0) {
            /* The entry belongs to no slot, so there is no chain to compare it with. */
            note(&f, index, RMQ_IDX_FIELD_KEYHASH, 0, e.key_hash);
            continue;
        }
        int32_t *head = &check->heads[(size_t)e.key_hash % check->slots];
        if (e.prev_index != *head) note(&f, index, RMQ_IDX_FIELD_PREVINDEX, *head, e.prev_index);
        if (*head == 0) check->used_slots++;
        if (index <= INT32_MAX) *head = (int32_t)index;
    }
    return f.count;
}

int64_t rmq_index_check_slots(const rmq_index_check *check, const uint8_t *buf, size_t len, size_t first_slot,
                              rmq_index_finding *out, size_t room) {
    findings f = {out, room, 0};
    size_t count = len / RMQ_IDX_SLOT_SIZE;
    if (check->heads == NULL || first_slot > check->slots || count > check->slots - first_slot) return RMQ_IDX_E_SLOTS;
    for (size_t i = 0; i < count; i++) {
        int32_t found = rmq_load_i32(buf + i * RMQ_IDX_SLOT_SIZE);
        int32_t expected = check->heads[first_slot + i];
        if (found != expected) note(&f, (int64_t)(first_slot + i), RMQ_IDX_FIELD_SLOT, expected, found);
    }
    return f.count;
}
