/* Comparison of CommitLog records with their queue entries, place by place.
 *
 * The log is authoritative: the queue entry of a record belongs at queue offset QUEUEOFFSET. A comparison only reads;
 * entries are written at absolute positions, so that writing them twice does no harm. The ends of queues are neither
 * used nor changed here.
 *
 * One thread at a time, and no put into the table at the same time, unless all rows lie before the ends of their
 * queues.
 */
#ifndef RMQ_CQ_PLACE_H
#define RMQ_CQ_PLACE_H

#include "queues/cq_table.h"

/* ConsumeQueueExt#MAX_ADDR: a tags code up to it is an address in consumequeue_ext. */
#define RMQ_CQ_EXT_ADDRESS_MAX ((int64_t)INT32_MIN - 1)

/* The result of a comparison, for each row. */
enum {
    RMQ_CQ_DIFFERS = 1, /* the place holds other bytes */
    RMQ_CQ_HELD = 2,    /* with DIFFERS: a valid entry that is not a filler */
    RMQ_CQ_BACK =
        4, /* the queue offset is not above that of the queue's row before it, or too far above that of its only row */
    RMQ_CQ_REFUSED =
        8, /* the row fits no queue: queue id or offset are impossible, or more messages would be missing before
                           it than fit into the log between; it is not compared */
    RMQ_CQ_TAGS = 16, /* with DIFFERS: only in the tags code */
};

/* The rows of one queue, in the order of the log. */
typedef struct rmq_cq_seen {
    int32_t topic, queue_id;
    int64_t rows;
    /* Of the rows since the last restart: first and last queue offset, and the places of their records. */
    int64_t first, last, first_phy, last_phy, last_end;
    int64_t low; /* the lowest queue offset of all counted rows, with its record's place */
    int64_t low_phy;
    int64_t backs; /* number of restarts of the queue offsets */
    int64_t since; /* rows since the last restart */
    /* The values of first to last_end before that restart. */
    int64_t prev_first, prev_last, prev_first_phy, prev_last_phy, prev_last_end;
    int64_t prev_low, prev_low_phy;
} rmq_cq_seen;

typedef struct rmq_cq_compare rmq_cq_compare;

/* with_ext: a tags code that may be an address in consumequeue_ext is not compared. none_held: no queue has a file, so
 * every place differs and none is read; then rows may be put after their comparison. NULL without memory. */
rmq_cq_compare *rmq_cq_compare_new(rmq_cq_table *table, int with_ext, int none_held);
void rmq_cq_compare_free(rmq_cq_compare *compare);

/* Compares rows, in the order of the log, with the files; only reads. flags[i]: RMQ_CQ_..., 0 if the place of row i
 * holds its entry, and for rows without an entry (rmq_has_queue_entry, topic_of[topic_id] below 0). seen[i]: the number
 * of the row's queue, -1 for rows without an entry and refused ones. Returns the number of flags that are not 0, or
 * -errno (rmq_cq_put_failed_path of the table has the path). */
int64_t rmq_cq_compare_rows(rmq_cq_compare *compare, const rmq_cq_rows *rows, const int32_t *topic_of,
                            int32_t topic_count, uint8_t *flags, int32_t *seen);
/* The next rows lie elsewhere in the log: drops what was seen of the queues, and keeps their numbers. */
void rmq_cq_compare_restart(rmq_cq_compare *compare);
int32_t rmq_cq_compare_count(const rmq_cq_compare *compare);
rmq_cq_seen rmq_cq_compare_seen(const rmq_cq_compare *compare, int32_t number);

/* Writes packed entries at their places from queue offset `index` on; missing files are made, with zeros around these
 * entries. 0 or -errno (rmq_cq_put_failed_path has the path). */
int rmq_cq_write_at(rmq_cq_table *table, rmq_cq *queue, int64_t index, const uint8_t *entries, int64_t count);

#endif
