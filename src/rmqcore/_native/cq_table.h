/* All ConsumeQueues of a store: where each one begins and ends, and new entries on their way into the files.
 *
 * One writer at a time puts, sets and deletes; the caller holds a lock for that. Readers and the flusher run beside it without
 * one: what they need is loaded atomically, is never ahead of the file, and a queue's address never changes.
 *
 * A batch is staged as a whole, then written: one pwrite per touched queue and file. Only what a write has confirmed counts.
 */
#ifndef RMQ_CQ_TABLE_H
#define RMQ_CQ_TABLE_H

#include "cq_fds.h"
#include <stddef.h>
#include <stdint.h>

/* Which directories have new entries that a flush has to bring to disk. */
enum { RMQ_CQ_NEW_FILE = 1, RMQ_CQ_NEW_QUEUE = 2, RMQ_CQ_NEW_TOPIC = 4, RMQ_CQ_NEW_ROOT = 8 };

/* Positions and sizes are bytes in the queue (20 an entry), files are named by their first byte; -1: there is none. */
typedef struct rmq_cq {
    int32_t topic, queue_id;
    /* What is in the files. */
    int64_t first_file, last_file, end, min;
    int64_t max_phy; /* CommitLog offset behind the last message that has an entry, -1 without */
    /* The batch that is being put; valid while `batch` is the table's. */
    uint64_t batch;
    int64_t new_first, new_last, new_end, new_max_phy;
    int64_t fillers; /* bytes of fillers that new_first begins with */
    int begins;      /* new_first has no entry yet */
    int64_t entries; /* new ones, */
    uint8_t *cursor; /* of which the next one goes here */
    /* Up to here it is on disk; the flusher's. */
    int64_t flushed;
    uint32_t new_names; /* atomic: RMQ_CQ_NEW_... */
    rmq_cq_open open;
} rmq_cq;

typedef struct rmq_cq_table rmq_cq_table;

/* Columns of equal length in the host's byte order. */
typedef struct rmq_cq_rows {
    const int64_t *phy_offset;
    const int32_t *msg_size;
    const int32_t *queue_id;
    const int64_t *queue_offset;
    const int32_t *sys_flag;
    const int64_t *tags_code;
    const int32_t *topic_id;
    int64_t count;
} rmq_cq_rows;

/* root: the directory of all queues. file_size: a multiple of 20. NULL without memory. */
rmq_cq_table *rmq_cq_table_new(const char *root, int64_t file_size, int32_t open_files);
void rmq_cq_table_free(rmq_cq_table *table);

/* The number of a new topic, whose name must be fit for a directory; -1 without memory. */
int32_t rmq_cq_topic_add(rmq_cq_table *table, const char *name);
/* NULL: there is none. */
rmq_cq *rmq_cq_find(rmq_cq_table *table, int32_t topic, int32_t queue_id);
/* The same, made if there is none: an empty queue, of which nothing is on disk. NULL without memory. */
rmq_cq *rmq_cq_find_or_add(rmq_cq_table *table, int32_t topic, int32_t queue_id);
/* Queues in the order they were added. Any thread. */
int32_t rmq_cq_count(const rmq_cq_table *table);
rmq_cq *rmq_cq_at(const rmq_cq_table *table, int32_t number);

/* Puts the rows whose phy_offset is at least from_phy_offset and whose transaction type has an entry (NOT, COMMIT) into their
 * queues, by the rules of ConsumeQueue#putMessagePositionInfo. topic_of[topic_id] is the topic's number here, -1 one that has no
 * directory: such rows are refused (counted, not written), as are those with a queue id below 0 and those that would begin a
 * queue at an offset that is none.
 *
 * 0, or -errno of what failed (rmq_cq_failed_path says where). Queues written before the failure count, others stay as they
 * were. */
int rmq_cq_put(rmq_cq_table *table, const rmq_cq_rows *rows, int64_t from_phy_offset, const int32_t *topic_of,
               int32_t topic_count);

typedef struct rmq_cq_counts {
    int64_t refused; /* rows without a place */
    int64_t repeats; /* rows that were there already */
    int64_t gaps; /* entries at a smaller queue offset than their record says, because some before it are missing */
} rmq_cq_counts;
rmq_cq_counts rmq_cq_counted(const rmq_cq_table *table);

/* Entries [index, index + count) as far as they are in one file and before the queue's end, into out. Answers their number, 0
 * outside, -ENOENT when the file is missing, -errno. nowait: -EAGAIN instead of waiting for a disk. Any thread. */
int64_t rmq_cq_read(rmq_cq_table *table, rmq_cq *queue, int64_t index, int64_t count, uint8_t *out, int nowait);

/* Brings to disk what has been written to the queue, if at least so many pages of its file wait, or (0) anything; then the
 * directories with new names. 0 or -errno: nothing counts as flushed then. One thread at a time. */
int rmq_cq_flush(rmq_cq_table *table, rmq_cq *queue, int32_t least_pages);

/* The same for all queues by one sync of the whole file system, if so many wait that this costs less: a sync of a file waits for
 * the disk's own cache, also when there is nothing to write. 1 done, 0 not done (too few wait, or the system cannot), -errno. */
int rmq_cq_flush_at_once(rmq_cq_table *table);

/* Says that all of the queue is on disk: a clean exit has synced it. */
void rmq_cq_assume_flushed(rmq_cq *queue);

/* Says where a queue is after its files were read, cut or deleted; open ones behind last_file are closed. */
void rmq_cq_set(rmq_cq_table *table, rmq_cq *queue, int64_t first_file, int64_t last_file, int64_t end,
                int64_t max_phy);
void rmq_cq_set_min(rmq_cq *queue, int64_t min);
/* Files before this one are gone. */
void rmq_cq_set_first_file(rmq_cq_table *table, rmq_cq *queue, int64_t first_file);

/* Closes the queue's files; the next use opens them again. */
void rmq_cq_close(rmq_cq_table *table, rmq_cq *queue);

/* The path of the last failure of this kind; valid until the next call of that kind. */
const char *rmq_cq_put_failed_path(const rmq_cq_table *table);
const char *rmq_cq_flush_failed_path(const rmq_cq_table *table);

int32_t rmq_cq_open_count(rmq_cq_table *table);

/* ---- for readers on any thread ---- */
static inline int64_t rmq_cq_end(const rmq_cq *q) { return __atomic_load_n(&q->end, __ATOMIC_ACQUIRE); }
static inline int64_t rmq_cq_min(const rmq_cq *q) { return __atomic_load_n(&q->min, __ATOMIC_ACQUIRE); }
static inline int64_t rmq_cq_max_phy(const rmq_cq *q) { return __atomic_load_n(&q->max_phy, __ATOMIC_ACQUIRE); }
static inline int64_t rmq_cq_first_file(const rmq_cq *q) { return __atomic_load_n(&q->first_file, __ATOMIC_ACQUIRE); }
static inline int64_t rmq_cq_last_file(const rmq_cq *q) { return __atomic_load_n(&q->last_file, __ATOMIC_ACQUIRE); }

#endif
