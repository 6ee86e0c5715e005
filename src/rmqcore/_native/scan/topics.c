#include "scan/topics.h"
#include "scan/filter.h"
#include "format/jhash.h"
#include <stdlib.h>
#include <string.h>

enum { TOPIC_BYTES = 64 /* of a topic without its name: its place, its slots, and what malloc adds */ };

struct rmq_topics {
    rmq_topic *topics;
    uint32_t *slots; /* id + 1, 0 is empty */
    uint32_t *hashes;
    size_t name_bytes;
    int32_t count;
    uint32_t mask; /* slots - 1; at most half of them are used */
};

rmq_topics *rmq_topics_new(void) {
    rmq_topics *t = calloc(1, sizeof *t);
    if (t == NULL) return NULL;
    t->mask = 255;
    t->slots = calloc(t->mask + 1, sizeof *t->slots);
    t->topics = malloc((t->mask + 1) / 2 * sizeof *t->topics);
    t->hashes = malloc((t->mask + 1) / 2 * sizeof *t->hashes);
    if (t->slots && t->topics && t->hashes) return t;
    rmq_topics_free(t);
    return NULL;
}

void rmq_topics_free(rmq_topics *t) {
    if (t == NULL) return;
    rmq_topics_clear(t);
    free(t->topics);
    free(t->slots);
    free(t->hashes);
    free(t);
}

int32_t rmq_topics_count(const rmq_topics *t) { return t->count; }
const rmq_topic *rmq_topics_get(const rmq_topics *t, int32_t id) { return &t->topics[id]; }

size_t rmq_topics_bytes(const rmq_topics *t) { return t->name_bytes + (size_t)t->count * TOPIC_BYTES; }

void rmq_topics_clear(rmq_topics *t) {
    for (int32_t i = 0; i < t->count; i++) free((void *)(uintptr_t)t->topics[i].name.p);
    t->count = 0;
    t->name_bytes = 0;
    if (t->slots) memset(t->slots, 0, ((size_t)t->mask + 1) * sizeof *t->slots);
}

static int grow(rmq_topics *t) {
    if (t->mask >= 1U << 29) return -1;
    const uint32_t mask = t->mask * 2 + 1;
    rmq_topic *topics = realloc(t->topics, (mask + 1) / 2 * sizeof *topics);
    if (topics) t->topics = topics;
    uint32_t *hashes = realloc(t->hashes, (mask + 1) / 2 * sizeof *hashes);
    if (hashes) t->hashes = hashes;
    uint32_t *slots = calloc(mask + 1, sizeof *slots);
    if (!topics || !hashes || !slots) {
        free(slots);
        return -1;
    }
    for (int32_t i = 0; i < t->count; i++) {
        uint32_t slot = hashes[i] & mask;
        while (slots[slot]) slot = (slot + 1) & mask;
        slots[slot] = (uint32_t)i + 1;
    }
    free(t->slots);
    t->slots = slots;
    t->mask = mask;
    return 0;
}

int32_t rmq_topics_intern(rmq_topics *t, const uint8_t *name, uint32_t len) {
    const uint32_t hash = rmq_text_hash(name, len);
    uint32_t slot = hash & t->mask;
    for (; t->slots[slot]; slot = (slot + 1) & t->mask) {
        const uint32_t id = t->slots[slot] - 1;
        const rmq_topic *topic = &t->topics[id];
        if (t->hashes[id] == hash && topic->name.len == len && rmq_text_equal(topic->name.p, name, len))
            return (int32_t)id;
    }
    if ((uint32_t)t->count >= (t->mask + 1) / 2) {
        if (grow(t)) return -1;
        slot = hash & t->mask;
        while (t->slots[slot]) slot = (slot + 1) & t->mask;
    }
    uint8_t *copy = malloc(len ? len : 1);
    if (copy == NULL) return -1;
    memcpy(copy, name, len);
    const uint8_t hash_sign = '#';
    t->topics[t->count] = (rmq_topic){{copy, len}, rmq_jhash(rmq_jhash(0, copy, len), &hash_sign, 1)};
    t->hashes[t->count] = hash;
    t->slots[slot] = (uint32_t)t->count + 1;
    t->name_bytes += len;
    return t->count++;
}
