/* Topics as numbers: the first topic seen is 0, the next new one 1, ... Owns its memory (the one kernel part, with batch.c,
 * that allocates): the number of topics is unknown beforehand. */
#ifndef RMQ_TOPICS_H
#define RMQ_TOPICS_H

#include "format/properties.h"

typedef struct rmq_topic {
    rmq_slice name;
    uint32_t key_seed; /* rmq_jhash(0, name + "#"): index keys continue from it */
} rmq_topic;

typedef struct rmq_topics rmq_topics;

rmq_topics *rmq_topics_new(void); /* NULL without memory */
void rmq_topics_free(rmq_topics *topics);
int32_t rmq_topics_count(const rmq_topics *topics);
/* Approximate bytes of memory of the topics. */
size_t rmq_topics_bytes(const rmq_topics *topics);
/* Forgets all topics: the next one is 0 again. */
void rmq_topics_clear(rmq_topics *topics);
const rmq_topic *rmq_topics_get(const rmq_topics *topics, int32_t id);

/* The topic's number, -1 without memory. The name is copied. One thread at a time. */
int32_t rmq_topics_intern(rmq_topics *topics, const uint8_t *name, uint32_t len);

#endif
