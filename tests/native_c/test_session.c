/* Dispatch sessions beside an appender, a reader of the queues, a second writer of the table and a bell, for ThreadSanitizer and
 * for what has to hold: what a reader is told of is there. argv[1]: an empty directory for the queues. */
#include "check.h"
#include "dispatch/session.h"
#include <pthread.h>

enum {
    TOPICS = 2,
    QUEUES = 2,
    COUNT = 20000,
    SLOTS = 512,
    CAPACITY = 4 * COUNT,
    FILE_SIZE = 1 << 24,
    CQ_FILE = 20 * 1000
};

static const char *const names[TOPICS] = {"first", "second"};
static rmq_log *logs;
static rmq_cq_table *table;
static rmq_cq *queues[TOPICS][QUEUES];
static rmq_dispatched done;
static rmq_ring ring;
static int over; /* atomic */

static int is_over(void) { return __atomic_load_n(&over, __ATOMIC_ACQUIRE); }

static void *append(void *context) {
    static const uint8_t props[] = "KEYS\1some\2";
    (void)context;
    for (int32_t i = 0; i < COUNT; i++) {
        rmq_put put;
        size_t n = 0;
        memset(&put, 0, sizeof put);
        put.msg.topic = (const uint8_t *)names[i % TOPICS];
        put.msg.topic_len = strlen(names[i % TOPICS]);
        put.msg.queue_id = i / TOPICS % QUEUES;
        put.msg.body = (const uint8_t *)"body";
        put.msg.body_len = 4;
        put.msg.props = props;
        put.msg.props_len = sizeof props - 1;
        rmq_put_check(logs, &put);
        rmq_log_lock(logs);
        rmq_log_append(logs, &put, 1, 1700000000000 + i, &n);
        rmq_log_unlock(logs);
        EXPECT(put.status == RMQ_PUT_OK, "message %d: status %d", i, put.status);
        if (i % 512 == 0) usleep(500);
    }
    return NULL;
}

/* A queue's last entry can be read, and its message lies below the end that the dispatch had before. */
static void *look(void *context) {
    (void)context;
    while (!is_over()) {
        const int64_t last = rmq_dispatched_get(&done.last_phy_offset);
        EXPECT(last < rmq_log_wrote(logs), "dispatched %lld", (long long)last);
        int64_t most = -1;
        for (int i = 0; i < TOPICS * QUEUES; i++) {
            rmq_cq *queue = queues[i % TOPICS][i / TOPICS];
            const int64_t end = rmq_cq_end(queue);
            uint8_t bytes[RMQ_CQ_STORE_UNIT_SIZE];
            if (rmq_cq_max_phy(queue) > most) most = rmq_cq_max_phy(queue);
            if (end == 0) continue;
            EXPECT(rmq_cq_read(table, queue, end / RMQ_CQ_STORE_UNIT_SIZE - 1, 1, bytes, 0) == 1, "end %lld",
                   (long long)end);
            EXPECT(rmq_cq_load(bytes).phy_offset < rmq_log_wrote(logs), "an entry before its message");
        }
        EXPECT(last < most || most == -1, "a checkpoint of %lld, queues up to %lld", (long long)last, (long long)most);
    }
    return NULL;
}

/* What a cleaner does, and a thread that adds queues: at once with the session, each call by itself. A flush once made a path from the
 * table's topics while one more topic moved them. */
static void *change(void *context) {
    (void)context;
    const int32_t topic = rmq_cq_topic_add(table, "third");
    for (int32_t i = 0; !is_over(); i++) {
        rmq_cq_set_min(table, queues[0][0], 0);
        if (i < 2000) rmq_cq_topic_add(table, "fourth");
        if (i < 2000) rmq_cq_find_or_add(table, topic, i);
        if (i % 64 == 0) rmq_ring_ring(&ring);
        usleep(50);
    }
    return NULL;
}

static void *flush(void *context) {
    (void)context;
    while (!is_over()) {
        for (int i = 0; i < TOPICS * QUEUES; i++) {
            EXPECT(rmq_cq_flush(table, queues[i % TOPICS][i / TOPICS], 0) == 0, "a flush");
        }
        usleep(2000);
    }
    return NULL;
}

static rmq_session session_of(const int32_t *topic_of) {
    static const int64_t all_lost = 0;
    const uint32_t wanted = 1U << RMQ_COL_PHY_OFFSET | 1U << RMQ_COL_MSG_SIZE | 1U << RMQ_COL_QUEUE_ID |
                            1U << RMQ_COL_QUEUE_OFFSET | 1U << RMQ_COL_SYS_FLAG | 1U << RMQ_COL_STORE_TIMESTAMP_MS |
                            1U << RMQ_COL_TAGS_CODE | 1U << RMQ_COL_TOPIC_ID | 1U << RMQ_COL_KEY_HASHES;
    static rmq_scan scan;
    rmq_session s;
    memset(&s, 0, sizeof s);
    scan.topics = rmq_topics_new();
    scan.wanted = wanted;
    scan.batch_rows = 1000;
    scan.batch_bytes = 1 << 20;
    scan.stop_offset = INT64_MAX;
    for (int i = 0; i < TOPICS; i++) {
        rmq_topics_intern(scan.topics, (const uint8_t *)names[i], (uint32_t)strlen(names[i]));
    }
    s.log = logs;
    s.scan = &scan;
    s.pool = rmq_pool_new(wanted, scan.batch_rows);
    s.table = table;
    s.topic_of = topic_of;
    s.topics_known = TOPICS;
    s.covered_from = -1;
    s.index_alarm = INT32_MAX;
    s.all_lost = &all_lost;
    s.ring = &ring;
    s.done = &done;
    s.far_behind = INT64_MAX;
    s.nap_us = 200;
    s.idle_us = 5000;
    s.most_us = 20000;
    return s;
}

int main(int count, char **arguments) {
    const rmq_log_limits limits = {.file_size = FILE_SIZE, .max_message_size = 1 << 20};
    const rmq_index_header header = {.index_count = 1};
    const size_t index_size = RMQ_IDX_HEADER_SIZE + RMQ_IDX_SLOT_SIZE * SLOTS + (size_t)RMQ_IDX_ENTRY_SIZE * CAPACITY;
    static rmq_index_map index;
    int32_t topic_of[TOPICS];
    pthread_t threads[4];
    void *(*const work[])(void *) = {append, look, change, flush};
    uint8_t *file = calloc(1, FILE_SIZE);
    if (count != 2 || file == NULL) return 2;
    logs = rmq_log_new(&limits);
    rmq_log_set_file(logs, file, 0, 0, FILE_SIZE);
    table = rmq_cq_table_new(arguments[1], CQ_FILE, 16);
    for (int32_t i = 0; i < TOPICS; i++) {
        topic_of[i] = rmq_cq_topic_add(table, names[i]);
        for (int32_t q = 0; q < QUEUES; q++) queues[i][q] = rmq_cq_find_or_add(table, topic_of[i], q);
    }
    rmq_session s = session_of(topic_of);
    rmq_index_map_init(&index, SLOTS, CAPACITY, &header);
    index.base = calloc(1, index_size);
    rmq_index_allow(&index, CAPACITY);
    index.header.end_phy_offset = -1; /* the log's first record is new */
    s.index = &index;
    s.file = (rmq_window){.buf = file, .len = FILE_SIZE, .end_offset = FILE_SIZE, .check_place = 1, .trusted = -1};
    done.last_phy_offset = -1;
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work[i], NULL);
    int code = RMQ_SESSION_TIME, rings = 0;
    int64_t batches = 0;
    while (code != RMQ_SESSION_IDLE || batches == 0 || rings == 0) {
        rmq_ring_clear(&ring);
        code = rmq_session_run(&s);
        rings += code == RMQ_SESSION_RUNG;
        batches += s.batches;
        EXPECT(code == RMQ_SESSION_IDLE || code == RMQ_SESSION_TIME || code == RMQ_SESSION_RUNG, "code %d", code);
        if (failures) break;
    }
    pthread_join(threads[0], NULL);
    s.log = NULL;
    s.end_offset = rmq_log_wrote(logs);
    EXPECT(rmq_session_run(&s) == RMQ_SESSION_END, "the rest");
    batches += s.batches; /* nearly all of them where the appender had the processor to itself */
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    for (int i = 1; i < 4; i++) pthread_join(threads[i], NULL);
    EXPECT(done.cq_from == s.end_offset && done.index_from == s.end_offset, "%lld", (long long)done.cq_from);
    EXPECT(batches >= COUNT / s.scan->batch_rows, "%lld batches", (long long)batches);
    EXPECT(index.header.index_count == COUNT + 1, "%d index entries", index.header.index_count - 1);
    for (int i = 0; i < TOPICS * QUEUES; i++) {
        const int64_t end = rmq_cq_end(queues[i % TOPICS][i / TOPICS]) / RMQ_CQ_STORE_UNIT_SIZE;
        EXPECT(end == COUNT / (TOPICS * QUEUES), "queue %d has %lld entries", i, (long long)end);
    }
    rmq_topics_free(s.scan->topics);
    rmq_pool_close(s.pool);
    rmq_cq_table_free(table);
    rmq_log_free(logs);
    free(index.base);
    free(file);
    return finish("session");
}
