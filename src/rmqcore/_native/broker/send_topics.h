/* The topics whose messages are plain, by name: the number of queues, and counts of the messages put. */
#ifndef RMQ_SEND_TOPICS_H
#define RMQ_SEND_TOPICS_H

#include <stddef.h>
#include <stdint.h>

enum { RMQ_SEND_MOST_TOPIC_LEN = 127 };

typedef struct rmq_send_counts {
    int64_t sends, messages, bytes; /* bytes: of records */
} rmq_send_counts;

typedef struct rmq_send_topic {
    struct rmq_send_topic *next; /* in its bucket */
    uint32_t hash, name_len;
    int32_t queue_nums; /* every queue id is below */
    rmq_send_counts counts;
    uint8_t name[RMQ_SEND_MOST_TOPIC_LEN];
} rmq_send_topic;

typedef struct rmq_send_topics {
    rmq_send_topic **buckets; /* mask + 1 */
    uint32_t mask, count;
    rmq_send_topic *recent; /* the topic found last */
} rmq_send_topics;

int rmq_send_topics_init(rmq_send_topics *topics); /* -1 without memory */
void rmq_send_topics_destroy(rmq_send_topics *topics);

rmq_send_topic *rmq_send_topics_find(rmq_send_topics *topics, const uint8_t *name, size_t len); /* NULL: unknown */

/* The topic, added if it is missing; NULL without memory. The name has 1 to RMQ_SEND_MOST_TOPIC_LEN bytes. */
rmq_send_topic *rmq_send_topics_add(rmq_send_topics *topics, const uint8_t *name, size_t len);
void rmq_send_topics_remove(rmq_send_topics *topics, rmq_send_topic *topic);

/* The topic behind another one in the table, to visit all. Argument NULL: the first topic; result NULL: the end. */
rmq_send_topic *rmq_send_topics_next(const rmq_send_topics *topics, const rmq_send_topic *topic);

#endif
