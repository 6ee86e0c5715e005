#include "put/next_queue_offsets.h"
#include "format/text.h"
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    uint8_t *topic; /* NULL: free */
    uint32_t topic_len, hash;
    int32_t queue_id;
    int64_t next_offset;
} entry;

struct rmq_queue_offsets {
    entry *slots; /* mask + 1 of them, at most half in use */
    uint32_t mask, count;
    int any_closed;
};

enum { WHOLE_TOPIC = -1 }; /* in place of a queue id: the entry of a closed topic */

rmq_queue_offsets *rmq_queue_offsets_new(void) {
    rmq_queue_offsets *t = calloc(1, sizeof *t);
    if (t == NULL) return NULL;
    t->mask = 63;
    t->slots = calloc(t->mask + 1, sizeof *t->slots);
    if (t->slots) return t;
    free(t);
    return NULL;
}

static void free_topics(rmq_queue_offsets *t) {
    for (uint32_t i = 0; i <= t->mask; i++) free(t->slots[i].topic);
}

void rmq_queue_offsets_free(rmq_queue_offsets *t) {
    if (t == NULL) return;
    free_topics(t);
    free(t->slots);
    free(t);
}

static int grow(rmq_queue_offsets *t) {
    if (t->mask >= 1U << 29) return -1;
    const uint32_t mask = t->mask * 2 + 1;
    entry *slots = calloc((size_t)mask + 1, sizeof *slots);
    if (slots == NULL) return -1;
    for (uint32_t i = 0; i <= t->mask; i++) {
        if (t->slots[i].topic == NULL) continue;
        uint32_t at = t->slots[i].hash & mask;
        while (slots[at].topic) at = (at + 1) & mask;
        slots[at] = t->slots[i];
    }
    free(t->slots);
    t->slots = slots;
    t->mask = mask;
    return 0;
}

static uint32_t hash_of(const uint8_t *topic, size_t topic_len, int32_t queue_id) {
    /* The queue id is spread over all bits: queues of one topic must not fill neighbouring slots. */
    return rmq_text_hash(topic, topic_len) ^ ((uint32_t)queue_id * UINT32_C(2654435761));
}

/* The queue's slot, or the free one where it belongs. */
static entry *slot_of(const rmq_queue_offsets *t, uint32_t hash, const uint8_t *topic, size_t topic_len,
                      int32_t queue_id) {
    uint32_t at = hash & t->mask;
    for (; t->slots[at].topic; at = (at + 1) & t->mask) {
        const entry *e = &t->slots[at];
        if (e->hash == hash && e->queue_id == queue_id && e->topic_len == topic_len &&
            rmq_text_equal(e->topic, topic, topic_len))
            break;
    }
    return &t->slots[at];
}

static int is_closed(const rmq_queue_offsets *t, const uint8_t *topic, size_t topic_len) {
    return t->any_closed &&
           slot_of(t, hash_of(topic, topic_len, WHOLE_TOPIC), topic, topic_len, WHOLE_TOPIC)->topic != NULL;
}

int64_t *rmq_queue_offsets_at(rmq_queue_offsets *t, const uint8_t *topic, size_t topic_len, int32_t queue_id) {
    const uint32_t hash = hash_of(topic, topic_len, queue_id);
    entry *slot = slot_of(t, hash, topic, topic_len, queue_id);
    if (slot->topic) return &slot->next_offset;
    if (t->count >= (t->mask + 1) / 2) {
        if (grow(t)) return NULL;
        slot = slot_of(t, hash, topic, topic_len, queue_id);
    }
    uint8_t *copy = malloc(topic_len ? topic_len : 1);
    if (copy == NULL) return NULL;
    if (topic_len) memcpy(copy, topic, topic_len);
    const int64_t next_offset = is_closed(t, topic, topic_len) ? RMQ_QUEUE_CLOSED : 0;
    *slot = (entry){copy, (uint32_t)topic_len, hash, queue_id, next_offset};
    t->count++;
    return &slot->next_offset;
}

int rmq_queue_offsets_close(rmq_queue_offsets *t, const uint8_t *topic, size_t topic_len) {
    int64_t *whole = rmq_queue_offsets_at(t, topic, topic_len, WHOLE_TOPIC);
    if (whole == NULL) return -1;
    t->any_closed = 1;
    for (uint32_t i = 0; i <= t->mask; i++) {
        entry *e = &t->slots[i];
        if (e->topic && e->topic_len == topic_len && rmq_text_equal(e->topic, topic, topic_len))
            e->next_offset = RMQ_QUEUE_CLOSED;
    }
    return 0;
}

int64_t *rmq_queue_offsets_find(rmq_queue_offsets *t, rmq_queue_recent *recent, const uint8_t *topic, size_t topic_len,
                                int32_t queue_id) {
    const uint32_t at = (uint32_t)queue_id % RMQ_QUEUE_RECENT, count = t->count;
    int64_t *next = rmq_queue_offsets_at(t, topic, topic_len, queue_id);
    /* A new queue may have moved the table. */
    if (recent->topic != topic || recent->topic_len != topic_len || t->count != count)
        memset(recent, 0, sizeof *recent);
    recent->topic = topic;
    recent->topic_len = topic_len;
    recent->next[at] = next;
    recent->queue_ids[at] = queue_id;
    return next;
}
