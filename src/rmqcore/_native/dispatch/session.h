/* A session: a dispatch that follows the log without Python, as long as all records are plain.
 *
 * Plain are records of the file in which the session began, of topics and queues that the table has, behind the records in
 * queues and index, and of a topic without a listener. Any other record ends the session untouched: the caller dispatches it
 * in the ordinary way, as if there had been no session. Both ways call the same functions to write queues and index.
 */
#ifndef RMQ_SESSION_H
#define RMQ_SESSION_H

#include "index/mapped_index.h"
#include "put/append.h"
#include "queues/cq_table.h"
#include "scan/columns.h"
#include "threads/ring.h"

/* The progress of a dispatch. One thread at a time dispatches and sets it; any thread reads each field by itself: a field is
 * set after its records are in the queues (index_from: in the index). */
typedef struct rmq_dispatched {
    int64_t cq_from, index_from; /* records below are in the queues, in the index */
    int64_t last_phy_offset, last_store_timestamp; /* of the last record put into the queues */
} rmq_dispatched;

static inline int64_t rmq_dispatched_get(const int64_t *field) { return __atomic_load_n(field, __ATOMIC_ACQUIRE); }
static inline void rmq_dispatched_set(int64_t *field, int64_t value) {
    __atomic_store_n(field, value, __ATOMIC_RELEASE);
}

typedef struct rmq_session {
    const rmq_log *log; /* the session follows its end; NULL: up to end_offset and no further */
    int64_t end_offset;
    rmq_scan *scan; /* without a filter, with the columns for queues and index */
    rmq_pool *pool; /* of the batches */
    rmq_window file; /* all of the file that holds cq_from */
    rmq_cq_table *table;
    const int32_t *topic_of; /* of the scan's known topics, as for rmq_cq_put */
    int32_t topics_known;
    int64_t covered_from; /* as for rmq_cq_put */
    rmq_index_map *index; /* the newest file; NULL: nothing is indexed */
    int32_t index_alarm; /* the session ends when the file has this many entries */
    const int32_t *heard; /* ids of topics whose rows are not plain: a Python listener waits for them */
    int32_t heard_count;
    const int64_t *all_lost; /* rmq_all_lost_pages */
    rmq_ring *ring; /* ends a session that follows the log */
    rmq_dispatched *done; /* cq_from and index_from are equal */
    int64_t far_behind; /* bytes; farther behind, larger batches pay */
    int64_t nap_us, idle_us, most_us; /* between two looks; without a new record; in all */
    int64_t batches; /* number of batches dispatched; set by the session */
} rmq_session;

enum {
    RMQ_SESSION_END = 0,  /* all below end_offset is dispatched */
    RMQ_SESSION_IDLE = 1, /* no new record for idle_us */
    RMQ_SESSION_TIME = 2, /* most_us have passed */
    RMQ_SESSION_RUNG = 3,
    RMQ_SESSION_LEFT = 4, /* the record at cq_from, or at index_from, is not plain */
};

/* One of these, or -errno of the call that failed (rmq_cq_put_failed_path says where). */
int rmq_session_run(rmq_session *session);

#endif
