/* All ConsumeQueues of a store: where each one begins and ends, and the writing of new entries.
 *
 * A call that changes the table or a queue (topic_add, find_or_add, put..., write_at, set...) holds the writer lock:
 * any thread may make it, and a caller that holds the GIL releases it first. One thread at a time adds queues and
 * topics, under a lock of the caller that rmq_cq_find needs too; rmq_cq_put_known adds none, so a find beside it does
 * not wait. Readers and the flusher run beside the writer without a lock: the fields they need are loaded atomically
 * and are never ahead of the files, and a queue's address never changes.
 *
 * A batch is staged as a whole, then written: one pwrite per touched queue and file. Only what a write has confirmed counts.
 */
#ifndef RMQ_CQ_TABLE_H
#define RMQ_CQ_TABLE_H

#include "format/cq.h"
#include "format/layout.h"
#include "queues/cq_fds.h"
#include <stddef.h>
#include <stdint.h>

/* The new names that a flush has to sync: of a file in its queue's directory, and of directories in their parents. */
enum { RMQ_CQ_NEW_FILE = 1, RMQ_CQ_NEW_QUEUE = 2, RMQ_CQ_NEW_TOPIC = 4, RMQ_CQ_NEW_ROOT = 8 };

/* No queue ends behind this byte: sums of positions stay in 64 bits. */
#define RMQ_CQ_MAX_END (INT64_MAX >> 1)

/* A queue. Positions are bytes in it (20 per entry). A file is named by the position of its first byte; -1: without a
 * file. */
typedef struct rmq_cq {
    int32_t topic, queue_id;
    const char *topic_name; /* the table's topics may move while a flush or a read makes a path, their names do not */
    /* The content of the files. */
    int64_t first_file, last_file, end, min;
    int64_t max_phy; /* CommitLog offset behind the last message that has an entry, -1 without entries */
    /* The batch that is being put. These fields are valid only while `batch` equals the table's. */
    uint64_t batch;
    int64_t new_first, new_last, new_end,
        new_max_phy; /* first_file, last_file, end and max_phy once the batch is written */
    int64_t fillers; /* bytes of fillers that the file new_first begins with */
    int begins;      /* the file new_first has no entry yet */
    int64_t entries; /* number of entries that the batch adds */
    int64_t missing; /* number of these that are fillers in place of missing messages */
    int64_t new_last_phy; /* where the last message of the batch begins, -1 before the first one */
    uint8_t *cursor; /* where in the arena the next of them is laid out; in the end behind the last one */
    int64_t pos;     /* of that entry in the queue */
    int64_t leap_pos; /* the place of `leap`, -1 without one */
    rmq_cq_entry leap; /* an entry that was put off */
    /* The last entry put off because more messages are missing before it than the log has room for; ahead_pos -1: none.
     * */
    int64_t ahead_pos;
    rmq_cq_entry ahead;
    /* The flusher's. */
    int64_t flushed; /* entries before this position are on disk */
    uint32_t new_names; /* RMQ_CQ_NEW_..., atomic */
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

/* root: the directory of all queues. file_size: bytes, a multiple of 20. open_files: how many may stay open. NULL without memory. */
rmq_cq_table *rmq_cq_table_new(const char *root, int64_t file_size, int32_t open_files);
void rmq_cq_table_free(rmq_cq_table *table);

/* The number of a new topic, whose name must be valid for a directory; -1 without memory. */
int32_t rmq_cq_topic_add(rmq_cq_table *table, const char *name);
/* The queue, NULL if the table does not have it. */
rmq_cq *rmq_cq_find(rmq_cq_table *table, int32_t topic, int32_t queue_id);
/* The queue, added if it is missing: then it is empty, and has no file. NULL without memory. */
rmq_cq *rmq_cq_find_or_add(rmq_cq_table *table, int32_t topic, int32_t queue_id);
/* Queues in the order they were added. Any thread. */
int32_t rmq_cq_count(const rmq_cq_table *table);
rmq_cq *rmq_cq_at(const rmq_cq_table *table, int32_t number);

/* The greatest queue offset at which a queue can begin: it leaves room for two more files. */
static inline int64_t rmq_cq_most_queue_offset(int64_t file_size) {
    return (INT64_MAX - 2 * file_size) / RMQ_CQ_STORE_UNIT_SIZE;
}

/* The most messages of a queue that the log can have between the queue's last one, whose record is [begin, end), and
 * `to`. Each needs a record of its own; in a light queue only a name and a number in a record, and the last record can
 * name it again. */
int64_t rmq_cq_room(const char *topic, int64_t begin, int64_t end, int64_t to);

/* Further results of a put, beside 0 and -errno. */
enum {
    RMQ_CQ_GO_BACK = 1,
    RMQ_CQ_UNKNOWN_QUEUE = 2,
};

/* An entry of a record lies at the record's queue offset, or nowhere. Before the queue's end: a repeat, as is a message
 * that is not behind the queue's last one. At the end: appended. Behind the end: the places in between belong to
 * messages that the log may have. If the caller has not passed the log from the queue's last message on, no row of the
 * batch is written, and the caller passes the log from there on (RMQ_CQ_GO_BACK). If it has, the log lacks those
 * messages, and their places get fillers. A distance that the log's bytes in between cannot hold is not a queue offset:
 * the row is refused, unless the queue's next row continues behind it, at most a file of places away. A queue without a
 * file begins at its first entry.
 *
 * Puts the rows whose phy_offset is at least from_phy_offset and whose SYSFLAG has an entry (rmq_has_queue_entry) into
 * their queues. covered_from: from there on the caller has passed the log in order, up to these rows; -1: the whole
 * log. topic_of[topic_id] is the topic's number here, -1 for a topic without queues: its rows are refused (counted, not
 * written), as are rows with a queue id below 0 and rows that would begin a queue at a negative offset or one above the
 * greatest.
 *
 * 0, or RMQ_CQ_GO_BACK and in *back_to the end of the last message that a queue has (-1: it has none), or -errno of the
 * call that failed (rmq_cq_put_failed_path has the path). Queues written before the failure count, others are
 * unchanged. Many fillers are written in steps, each with the rows before it. */
int rmq_cq_put(rmq_cq_table *table, const rmq_cq_rows *rows, int64_t from_phy_offset, int64_t covered_from,
               const int32_t *topic_of, int32_t topic_count, int64_t *back_to);

/* The same for queues that the table has: if a row would add a queue, the rows before it are put, it and the rows
 * behind it are left, and the result is RMQ_CQ_UNKNOWN_QUEUE, with the row's phy_offset in *stopped. (RMQ_CQ_GO_BACK:
 * as above.) */
int rmq_cq_put_known(rmq_cq_table *table, const rmq_cq_rows *rows, int64_t from_phy_offset, int64_t covered_from,
                     const int32_t *topic_of, int32_t topic_count, int64_t *stopped);

/* Puts packed entries of one queue, 20 bytes each, in the order of their records, by the same rule, for a log that is
 * passed as a whole. Returns how many got a place, or -errno as rmq_cq_put. */
int64_t rmq_cq_put_run(rmq_cq_table *table, rmq_cq *queue, const int64_t *queue_offsets, const uint8_t *entries,
                       int64_t count);

typedef struct rmq_cq_counts {
    int64_t refused; /* rows without a queue, or at an impossible queue offset */
    int64_t repeats; /* rows whose entry existed already */
    int64_t gaps; /* places filled because the log lacks their messages */
} rmq_cq_counts;
rmq_cq_counts rmq_cq_counted(const rmq_cq_table *table);

/* Reads entries [index, index + count), up to the end of their file and of the queue, into out. Returns how many, 0
 * outside the queue, -ENOENT if the file is missing, or -errno. nowait: -EAGAIN instead of waiting for a disk. Any
 * thread. */
int64_t rmq_cq_read(rmq_cq_table *table, rmq_cq *queue, int64_t index, int64_t count, uint8_t *out, int nowait);

/* Syncs the queue's last written file if at least least_pages of its pages wait (0: any number), then the directories
 * with new names. 0, or -errno and nothing counts as flushed. One thread at a time. */
int rmq_cq_flush(rmq_cq_table *table, rmq_cq *queue, int32_t least_pages);

/* Does the same for all queues by one sync of the whole file system, if so many queues wait that this costs less: the
 * sync of a file waits for the disk's own cache, also if nothing is to be written. Returns 1 if it was done, 0 if not
 * (too few queues wait, or the system cannot report a failure), or -errno. */
int rmq_cq_flush_at_once(rmq_cq_table *table);

/* Marks all of the queue as on disk: a clean exit has synced it. */
void rmq_cq_assume_flushed(rmq_cq *queue);

/* Sets where a queue begins and ends, after its files were read, cut or deleted; open files behind last_file are closed. */
void rmq_cq_set(rmq_cq_table *table, rmq_cq *queue, int64_t first_file, int64_t last_file, int64_t end,
                int64_t max_phy);
void rmq_cq_set_min(rmq_cq_table *table, rmq_cq *queue, int64_t min);
/* Sets the first file, and closes those before it, which the caller deletes afterwards. */
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
