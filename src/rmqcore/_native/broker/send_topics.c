#include "broker/send_topics.h"
#include "format/text.h"
#include <stdlib.h>
#include <string.h>

enum { FIRST_BUCKETS = 64 };

int rmq_send_topics_init(rmq_send_topics *topics) {
    topics->buckets = calloc(FIRST_BUCKETS, sizeof(rmq_send_topic *));
    topics->mask = FIRST_BUCKETS - 1;
    topics->count = 0;
    topics->recent = NULL;
    return topics->buckets == NULL ? -1 : 0;
}

void rmq_send_topics_destroy(rmq_send_topics *topics) {
    if (topics->buckets == NULL) return;
    for (uint32_t i = 0; i <= topics->mask; i++) {
        while (topics->buckets[i] != NULL) {
            rmq_send_topic *next = topics->buckets[i]->next;
            free(topics->buckets[i]);
            topics->buckets[i] = next;
        }
    }
    free(topics->buckets);
    topics->buckets = NULL;
}

static int is_named(const rmq_send_topic *topic, const uint8_t *name, size_t len) {
    return topic->name_len == len && memcmp(topic->name, name, len) == 0;
}

static rmq_send_topic *find_hashed(const rmq_send_topics *topics, const uint8_t *name, size_t len, uint32_t hash) {
    rmq_send_topic *topic = topics->buckets[hash & topics->mask];
    while (topic != NULL && (topic->hash != hash || !is_named(topic, name, len))) topic = topic->next;
    return topic;
}

rmq_send_topic *rmq_send_topics_find(rmq_send_topics *topics, const uint8_t *name, size_t len) {
    if (topics->recent != NULL && is_named(topics->recent, name, len)) return topics->recent;
    rmq_send_topic *topic = find_hashed(topics, name, len, rmq_text_hash(name, len));
    if (topic != NULL) topics->recent = topic;
    return topic;
}

/* Doubles the buckets; without memory the table stays unchanged, which is only slower. */
static void grow(rmq_send_topics *topics) {
    if (topics->mask >= 1U << 24) return;
    const uint32_t mask = topics->mask * 2 + 1;
    rmq_send_topic **buckets = calloc((size_t)mask + 1, sizeof *buckets);
    if (buckets == NULL) return;
    for (uint32_t i = 0; i <= topics->mask; i++) {
        while (topics->buckets[i] != NULL) {
            rmq_send_topic *topic = topics->buckets[i];
            topics->buckets[i] = topic->next;
            topic->next = buckets[topic->hash & mask];
            buckets[topic->hash & mask] = topic;
        }
    }
    free(topics->buckets);
    topics->buckets = buckets;
    topics->mask = mask;
}

rmq_send_topic *rmq_send_topics_add(rmq_send_topics *topics, const uint8_t *name, size_t len) {
    const uint32_t hash = rmq_text_hash(name, len);
    rmq_send_topic *topic = find_hashed(topics, name, len, hash);
    if (topic != NULL) return topic;
    topic = calloc(1, sizeof *topic);
    if (topic == NULL) return NULL;
    if (topics->count >= topics->mask) grow(topics);
    topic->hash = hash;
    topic->name_len = (uint32_t)len;
    memcpy(topic->name, name, len);
    topic->next = topics->buckets[hash & topics->mask];
    topics->buckets[hash & topics->mask] = topic;
    topics->count++;
    return topic;
}

void rmq_send_topics_remove(rmq_send_topics *topics, rmq_send_topic *topic) {
    rmq_send_topic **at = &topics->buckets[topic->hash & topics->mask];
    while (*at != topic) at = &(*at)->next;
    *at = topic->next;
    if (topics->recent == topic) topics->recent = NULL;
    topics->count--;
    free(topic);
}

rmq_send_topic *rmq_send_topics_next(const rmq_send_topics *topics, const rmq_send_topic *topic) {
    if (topic != NULL && topic->next != NULL) return topic->next;
    const uint32_t first = topic == NULL ? 0 : (topic->hash & topics->mask) + 1;
    for (uint32_t i = first; i <= topics->mask; i++) {
        if (topics->buckets[i] != NULL) return topics->buckets[i];
    }
    return NULL;
}
