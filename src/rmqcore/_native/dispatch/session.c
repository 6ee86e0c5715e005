#include "dispatch/session.h"

enum { GO_ON = RMQ_SESSION_LEFT + 1 };

static rmq_cq_rows queue_rows(const rmq_batch *batch) {
    const rmq_column *c = batch->columns;
    const rmq_cq_rows rows = {
        .phy_offset = c[RMQ_COL_PHY_OFFSET].values.i64,
        .msg_size = c[RMQ_COL_MSG_SIZE].values.i32,
        .queue_id = c[RMQ_COL_QUEUE_ID].values.i32,
        .queue_offset = c[RMQ_COL_QUEUE_OFFSET].values.i64,
        .sys_flag = c[RMQ_COL_SYS_FLAG].values.i32,
        .tags_code = c[RMQ_COL_TAGS_CODE].values.i64,
        .topic_id = c[RMQ_COL_TOPIC_ID].values.i32,
        .count = batch->rows,
    };
    return rows;
}

/* Puts the keys of all rows; 0 if the index needs more than this: then the rows are put again in the ordinary way, which
 * finds out which keys the index has already. */
static int put_keys(const rmq_session *s, const rmq_batch *batch) {
    const rmq_column *c = batch->columns;
    const rmq_index_rows rows = {
        .phy_offsets = c[RMQ_COL_PHY_OFFSET].values.i64,
        .store_timestamps = c[RMQ_COL_STORE_TIMESTAMP_MS].values.i64,
        .hashes = c[RMQ_COL_KEY_HASHES].values.i32,
        .offsets = c[RMQ_COL_KEY_HASHES].offsets,
        .rows = batch->rows,
    };
    rmq_index_place at = {0, 0};
    if (rows.phy_offsets[0] <= s->index->header.end_phy_offset) return 0;
    const int code = rmq_index_put(s->index, &rows, &at);
    return code == RMQ_PUT_DONE && __atomic_load_n(s->all_lost, __ATOMIC_ACQUIRE) == 0;
}

/* Whether one of the rows has a topic with a listener. */
static int is_heard(const rmq_session *s, const rmq_cq_rows *rows) {
    for (int32_t i = 0; i < s->heard_count; i++)
        for (int64_t row = 0; row < rows->count; row++)
            if (rows->topic_id[row] == s->heard[i]) return 1;
    return 0;
}

/* Puts the rows of a batch, whose last record ends at `end`, into queues and index. GO_ON, or why the session ends. */
static int put(const rmq_session *s, const rmq_batch *batch, int64_t end) {
    rmq_dispatched *done = s->done;
    const int64_t last = batch->rows - 1;
    const rmq_cq_rows rows = queue_rows(batch);
    int64_t stopped = -1;
    if (rmq_topics_count(s->scan->topics) > s->topics_known || is_heard(s, &rows)) return RMQ_SESSION_LEFT;
    const int code =
        rmq_cq_put_known(s->table, &rows, done->cq_from, s->covered_from, s->topic_of, s->topics_known, &stopped);
    if (code < 0) return code;
    if (code == RMQ_CQ_UNKNOWN_QUEUE) rmq_dispatched_set(&done->cq_from, stopped);
    if (code != 0) return RMQ_SESSION_LEFT;
    const int indexed = s->index == NULL || put_keys(s, batch);
    rmq_dispatched_set(&done->last_phy_offset, rows.phy_offset[last]);
    rmq_dispatched_set(&done->last_store_timestamp, batch->columns[RMQ_COL_STORE_TIMESTAMP_MS].values.i64[last]);
    if (indexed) rmq_dispatched_set(&done->index_from, end);
    rmq_dispatched_set(&done->cq_from, end);
    if (!indexed || (s->index && s->index->header.index_count >= s->index_alarm)) return RMQ_SESSION_LEFT;
    return GO_ON;
}

/* Dispatches a batch of the records below `end`. GO_ON, or why the session ends; *whole: it reached `end`. */
static int dispatch(rmq_session *s, int64_t end, int *whole) {
    rmq_window window = s->file;
    const int64_t at = s->done->cq_from;
    size_t pos = (size_t)(at - window.phy_offset);
    rmq_record rec;
    if (at >= window.end_offset) return RMQ_SESSION_LEFT;
    if (end < window.end_offset) window.len = (size_t)(end - window.phy_offset);
    rmq_batch *batch = rmq_batch_take(s->pool);
    if (batch == NULL) return RMQ_SESSION_LEFT;
    const int32_t stop = rmq_scan_columns(s->scan, batch, &window, &pos, &rec);
    int code = stop == RMQ_S_END || stop == RMQ_S_FULL ? GO_ON : RMQ_SESSION_LEFT;
    const int lost = __atomic_load_n(s->all_lost, __ATOMIC_ACQUIRE) != 0; /* zeros may have been read */
    if (lost || stop == RMQ_S_MEMORY) {
        code = RMQ_SESSION_LEFT;
    } else if (batch->rows > 0) { /* rows before the place where the scan stopped are sound */
        const int found = put(s, batch, window.phy_offset + (int64_t)pos);
        if (found != GO_ON) code = found;
        s->batches++;
    }
    rmq_batch_release(batch);
    *whole = stop == RMQ_S_END;
    return code;
}

int rmq_session_run(rmq_session *s) {
    const int64_t began = rmq_now_us();
    int64_t now = began, busy = began;
    s->batches = 0;
    for (;;) {
        const int64_t end = s->log ? rmq_log_wrote(s->log) : s->end_offset;
        int whole = 1;
        if (end > s->done->cq_from) {
            if (end - s->done->cq_from > s->far_behind) return RMQ_SESSION_LEFT;
            const int code = dispatch(s, end, &whole);
            if (code != GO_ON) return code;
            busy = now;
        } else if (s->log == NULL) {
            return RMQ_SESSION_END;
        } else if (now - busy >= s->idle_us) {
            return RMQ_SESSION_IDLE;
        }
        if (s->log == NULL) continue;
        if (rmq_ring_rung(s->ring)) return RMQ_SESSION_RUNG;
        if (now - began >= s->most_us) return RMQ_SESSION_TIME;
        /* Batches of a millisecond's records cost less than single ones, and their writer keeps its cache line. */
        if (whole) rmq_ring_nap(s->ring, s->nap_us);
        now = rmq_now_us();
    }
}
