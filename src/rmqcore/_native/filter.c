#include "filter.h"
#include <string.h>

/* Only spreads table slots: nothing on disk depends on it. The last 8 bytes are loaded whole, some for the second time. */
uint32_t rmq_text_hash(const uint8_t *p, size_t len) {
    uint64_t h = len * UINT64_C(0x9E3779B97F4A7C15), word = 0;
    if (len >= 8) {
        for (size_t i = 0; i + 8 < len; i += 8) {
            memcpy(&word, p + i, 8);
            h = (h ^ word) * UINT64_C(0xD6E8FEB86659FD93);
            h ^= h >> 32;
        }
        memcpy(&word, p + len - 8, 8);
    } else {
        for (size_t i = 0; i < len; i++) word = word << 8 | p[i];
    }
    /* The last characters sit in the top byte, which one multiplication spreads only upwards: fold and multiply again. */
    h = (h ^ word) * UINT64_C(0xD6E8FEB86659FD93);
    h = (h ^ h >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    return (uint32_t)(h >> 32);
}

/* memcmp for texts that are usually equal and short. */
int rmq_text_equal(const uint8_t *a, const uint8_t *b, size_t len) {
    uint64_t x, y, differ = 0;
    if (len < 8) {
        for (size_t i = 0; i < len; i++) differ |= (uint64_t)(a[i] ^ b[i]);
        return differ == 0;
    }
    for (size_t i = 0; i + 8 < len; i += 8) {
        memcpy(&x, a + i, 8);
        memcpy(&y, b + i, 8);
        differ |= x ^ y;
    }
    memcpy(&x, a + len - 8, 8);
    memcpy(&y, b + len - 8, 8);
    return (differ | (x ^ y)) == 0;
}

static int same(rmq_slice a, rmq_slice b) { return a.len == b.len && rmq_text_equal(a.p, b.p, a.len); }

void rmq_text_set_build(uint32_t *slots, uint32_t mask, const rmq_slice *items, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = rmq_text_hash(items[i].p, items[i].len) & mask;
        while (slots[slot] && !same(items[slots[slot] - 1], items[i])) slot = (slot + 1) & mask;
        slots[slot] = i + 1;
    }
}

int rmq_text_set_has(const rmq_text_set *set, rmq_slice text) {
    uint32_t slot = rmq_text_hash(text.p, text.len) & set->mask;
    while (set->slots[slot]) {
        if (same(set->items[set->slots[slot] - 1], text)) return 1;
        slot = (slot + 1) & set->mask;
    }
    return 0;
}

int rmq_filter_accepts(const rmq_filter *f, const rmq_record *rec, int64_t phy_offset) {
    if (phy_offset < f->start_phy_offset || phy_offset >= f->end_phy_offset) return 0;
    const int64_t store_timestamp = rmq_rec_store_timestamp(rec);
    if (store_timestamp < f->since_ms) return 0;
    if (store_timestamp >= f->until_ms && f->until_ms != INT64_MAX) return 0;
    if (f->queue_id_count >= 0) {
        const int32_t queue_id = rmq_rec_queue_id(rec);
        int64_t i = 0;
        while (i < f->queue_id_count && f->queue_ids[i] != queue_id) i++;
        if (i == f->queue_id_count) return 0;
    }
    if (f->topics.active) {
        const rmq_slice topic = {rec->at + rec->topic_pos, rec->topic_len};
        if (!rmq_text_set_has(&f->topics, topic)) return 0;
    }
    return 1;
}

int rmq_filter_accepts_properties(const rmq_filter *f, const rmq_known_props *known) {
    if (f->tags.active && (known->tags.p == NULL || !rmq_text_set_has(&f->tags, known->tags))) return 0;
    if (!f->keys.active) return 1;
    if (known->uniq_key.p && rmq_text_set_has(&f->keys, known->uniq_key)) return 1;
    if (known->keys.p == NULL) return 0;
    size_t pos = 0;
    rmq_slice word;
    while (rmq_keys_next(known->keys, &pos, &word)) {
        if (rmq_text_set_has(&f->keys, word)) return 1;
    }
    return 0;
}
