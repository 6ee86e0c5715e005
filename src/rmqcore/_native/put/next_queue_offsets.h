/* The queue offset table: (topic, queue id) -> the next queue offset (ConsumeQueueStore's topicQueueTable). Owns its memory. */
#ifndef RMQ_QUEUE_OFFSETS_H
#define RMQ_QUEUE_OFFSETS_H

#include <stddef.h>
#include <stdint.h>

typedef struct rmq_queue_offsets rmq_queue_offsets;

rmq_queue_offsets *rmq_queue_offsets_new(void); /* NULL without memory */
void rmq_queue_offsets_free(rmq_queue_offsets *table);

/* The queue's counter, made with 0 at its first use; NULL without memory. Valid until the next call: the table may move. */
int64_t *rmq_queue_offsets_at(rmq_queue_offsets *table, const uint8_t *topic, size_t topic_len, int32_t queue_id);

/* Closes a topic: the counters of its queues, also of later ones, are RMQ_QUEUE_CLOSED. Returns 0, -1 without memory.
 * */
int rmq_queue_offsets_close(rmq_queue_offsets *table, const uint8_t *topic, size_t topic_len);

enum { RMQ_QUEUE_RECENT = 16, RMQ_QUEUE_CLOSED = -1 };

/* Recently found counters: the messages of one call belong to few queues, and most share the address of their topic.
 * The struct begins as zeros. Calls that share it must not be interleaved with other calls for the table, and topics
 * must not move. */
typedef struct rmq_queue_recent {
    const uint8_t *topic; /* the topic of all of them; NULL: unknown yet */
    size_t topic_len;
    int64_t *next[RMQ_QUEUE_RECENT]; /* NULL: unknown */
    int32_t queue_ids[RMQ_QUEUE_RECENT];
} rmq_queue_recent;

/* As rmq_queue_offsets_at. */
int64_t *rmq_queue_offsets_find(rmq_queue_offsets *table, rmq_queue_recent *recent, const uint8_t *topic,
                                size_t topic_len, int32_t queue_id);

static inline int64_t *rmq_queue_offsets_again(rmq_queue_offsets *table, rmq_queue_recent *recent, const uint8_t *topic,
                                               size_t topic_len, int32_t queue_id) {
    const uint32_t at = (uint32_t)queue_id % RMQ_QUEUE_RECENT;
    if (recent->topic == topic && recent->topic_len == topic_len && recent->next[at] &&
        recent->queue_ids[at] == queue_id)
        return recent->next[at];
    return rmq_queue_offsets_find(table, recent, topic, topic_len, queue_id);
}

#endif
