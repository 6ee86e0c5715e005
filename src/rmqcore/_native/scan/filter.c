#include "scan/filter.h"
#include <string.h>

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
