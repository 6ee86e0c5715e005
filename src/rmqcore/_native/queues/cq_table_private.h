/* Declarations shared by the four files behind cq_table.h: cq_table.c, cq_files.c, cq_put.c, cq_flush.c; only they
 * include this. */
#ifndef RMQ_CQ_TABLE_PRIVATE_H
#define RMQ_CQ_TABLE_PRIVATE_H

#include "queues/cq_table.h"
#include "format/cq.h"
#include <pthread.h>

enum {
    UNIT = RMQ_CQ_STORE_UNIT_SIZE,
    PATH_ROOM = 4096 + 512,
};

typedef struct slot {
    uint64_t key; /* topic and queue id */
    rmq_cq *queue;
} slot;

struct rmq_cq_table {
    pthread_mutex_t writer; /* held for each call that changes the table or a queue */
    char *root;
    int64_t file_size, most_queue_offset;
    rmq_cq **chunks; /* room for the most queues, so that neither chunks nor queues move */
    int32_t count;
    slot *slots;
    uint32_t mask; /* slots - 1; at most half of them are used */
    char **topics;
    int32_t topic_count, topic_room;
    uint64_t batch;
    rmq_cq **row_queues; /* of the rows of a batch; NULL: the row gets no entry */
    int64_t row_room;
    rmq_cq **touched; /* queues that the batch has rows for */
    int64_t touched_count, touched_room;
    uint8_t *arena; /* entries of a batch, queue after queue */
    int64_t arena_room;
    rmq_cq_counts counts;
    /* Of the running put: */
    int64_t covered_from; /* the caller has passed the log from here on, in order */
    int64_t back_to; /* from where the caller has to pass it again; INT64_MAX: not at all */
    int adds; /* new queues are added; else the put stops at the first row of a new queue */
    int stopped; /* the put has stopped there */
    int64_t filler_room; /* places of missing messages that this step may still fill */
    rmq_cq_fds fds;
    char put_failed[PATH_ROOM], flush_failed[PATH_ROOM];
};

/* Makes a field's new value visible to readers, and with it all earlier stores. */
static inline void publish(int64_t *field, int64_t value) { __atomic_store_n(field, value, __ATOMIC_RELEASE); }

/* ---- cq_table.c ---- */

static inline uint64_t key_of(int32_t topic, int32_t queue_id) {
    return (uint64_t)(uint32_t)topic << 32 | (uint32_t)queue_id;
}

static inline uint32_t slot_of(const rmq_cq_table *t, uint64_t key) {
    return (uint32_t)(key * UINT64_C(0x9E3779B97F4A7C15) >> 32) & t->mask;
}

static inline slot *find_slot(const rmq_cq_table *t, uint64_t key) {
    uint32_t at = slot_of(t, key);
    while (t->slots[at].queue && t->slots[at].key != key) at = (at + 1) & t->mask;
    return &t->slots[at];
}

/* rmq_cq_find_or_add with the writer lock held. */
rmq_cq *rmq_cq_find_or_add_held(rmq_cq_table *table, int32_t topic, int32_t queue_id);
static inline void lock_writer(rmq_cq_table *t) { pthread_mutex_lock(&t->writer); }
static inline void unlock_writer(rmq_cq_table *t) { pthread_mutex_unlock(&t->writer); }

/* Room for `wanted` items of `size` bytes, at least doubled. 0, or -1 without memory. */
int rmq_cq_make_room(void **items, int64_t *room, int64_t wanted, size_t size);

/* ---- cq_files.c; a negative result is -errno ---- */

/* The path of a file (>= 0), or of a directory: -1 the queue's, -2 the topic's, -3 the root. 0 or -ENAMETOOLONG. */
int rmq_cq_make_path(const rmq_cq_table *table, const rmq_cq *queue, int64_t file, char *out);
/* open() that is repeated after a signal: a descriptor. For a file: -ELOOP: a link, -EINVAL: not a regular file. */
int rmq_cq_open_path(const char *path, int flags);
/* Opens a file of the queue for writing, pinned; a new one is created with its full size, sparse. */
int rmq_cq_open_to_write(rmq_cq_table *table, rmq_cq *queue, int64_t file, int create, const char *path,
                         int32_t *place);
/* Opens a file of the queue for reading, pinned. nowait: -EAGAIN if it is not open already. */
int rmq_cq_open_to_read(rmq_cq_table *table, rmq_cq *queue, int64_t file, int nowait, int32_t *place);
int rmq_cq_write_all(int fd, const uint8_t *bytes, int64_t count, int64_t pos);
/* Fills the first `count` bytes of a file with fillers (ConsumeQueue#fillPreBlank). */
int rmq_cq_write_fillers(int fd, int64_t count);

#endif
