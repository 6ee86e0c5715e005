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

void rmq_queue_offsets_clear(rmq_queue_offsets *table);

#endif
