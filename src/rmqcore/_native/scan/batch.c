#include "scan/batch.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

const rmq_column_type rmq_column_types[RMQ_COL_COUNT] = {
    [RMQ_COL_PHY_OFFSET] = {"phy_offset", RMQ_KIND_I64, 0},
    [RMQ_COL_MSG_SIZE] = {"msg_size", RMQ_KIND_I32, 0},
    [RMQ_COL_MAGIC] = {"magic", RMQ_KIND_I32, 0},
    [RMQ_COL_BODY_CRC] = {"body_crc", RMQ_KIND_I32, 0},
    [RMQ_COL_QUEUE_ID] = {"queue_id", RMQ_KIND_I32, 0},
    [RMQ_COL_FLAG] = {"flag", RMQ_KIND_I32, 0},
    [RMQ_COL_QUEUE_OFFSET] = {"queue_offset", RMQ_KIND_I64, 0},
    [RMQ_COL_SYS_FLAG] = {"sys_flag", RMQ_KIND_I32, 0},
    [RMQ_COL_BORN_TIMESTAMP_MS] = {"born_timestamp_ms", RMQ_KIND_I64, 0},
    [RMQ_COL_BORN_HOST] = {"born_host", RMQ_KIND_TEXT, 0},
    [RMQ_COL_STORE_TIMESTAMP_MS] = {"store_timestamp_ms", RMQ_KIND_I64, 0},
    [RMQ_COL_STORE_HOST] = {"store_host", RMQ_KIND_TEXT, 0},
    [RMQ_COL_RECONSUME_TIMES] = {"reconsume_times", RMQ_KIND_I32, 0},
    [RMQ_COL_PREPARED_TRANSACTION_OFFSET] = {"prepared_transaction_offset", RMQ_KIND_I64, 0},
    [RMQ_COL_BODY] = {"body", RMQ_KIND_BYTES, 0},
    [RMQ_COL_TOPIC] = {"topic", RMQ_KIND_TEXT, 0},
    [RMQ_COL_PROPERTIES] = {"properties", RMQ_KIND_MAP, 0},
    [RMQ_COL_TAGS] = {"tags", RMQ_KIND_TEXT, 1},
    [RMQ_COL_KEYS] = {"keys", RMQ_KIND_WORDS, 0},
    [RMQ_COL_UNIQ_KEY] = {"uniq_key", RMQ_KIND_TEXT, 1},
    [RMQ_COL_MSG_ID] = {"msg_id", RMQ_KIND_TEXT, 0},
    [RMQ_COL_TAGS_CODE] = {"tags_code", RMQ_KIND_I64, 0},
    [RMQ_COL_RAW] = {"raw", RMQ_KIND_BYTES, 0},
    [RMQ_COL_TOPIC_ID] = {"topic_id", RMQ_KIND_I32, 0},
    [RMQ_COL_KEY_HASHES] = {"key_hashes", RMQ_KIND_HASHES, 0},
    [RMQ_COL_TAG_ID] = {"tag_id", RMQ_KIND_I32, 0},
};

struct rmq_pool {
    pthread_mutex_t lock;
    rmq_batch *free_list;
    int free_count;
    int64_t holds; /* batches out, plus 1 until rmq_pool_close */
    uint32_t wanted;
    int64_t rows;
};

/* A longer list would only keep the memory of a consumer that once held many batches. */
enum { KEPT_FREE = 4 };

static void free_batch(rmq_batch *batch) {
    for (int i = 0; i < RMQ_COL_COUNT; i++) {
        rmq_column *c = &batch->columns[i];
        free(c->values.any);
        free(c->offsets);
        free(c->validity);
        free(c->strings.offsets);
        free(c->strings.data);
        free(c->second.offsets);
        free(c->second.data);
    }
    free(batch);
}

static int grow_array(void **array, size_t *cap, size_t need, size_t item) {
    if (need <= *cap) return 0;
    size_t next = *cap * 2 > need ? *cap * 2 : need;
    void *moved = realloc(*array, next * item);
    if (moved == NULL) return -1;
    *array = moved;
    *cap = next;
    return 0;
}

/* Room for `texts` more texts and `bytes` more bytes. */
static int grow_strings(rmq_strings *s, size_t texts, size_t bytes) {
    if (s->used + bytes > INT32_MAX || s->count + texts >= INT32_MAX) return -1;
    void *offsets = s->offsets, *data = s->data;
    const int first = offsets == NULL;
    int failed = grow_array(&offsets, &s->offsets_cap, s->count + texts + 1, sizeof(int32_t));
    s->offsets = offsets;
    if (failed) return -1;
    if (first) s->offsets[0] = 0;
    failed = grow_array(&data, &s->data_cap, s->used + bytes, 1);
    s->data = data;
    return failed;
}

static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }

static int grow_many(rmq_strings *s, size_t bytes, size_t *left) {
    if (grow_strings(s, bytes / 4, bytes)) return -1;
    *left = min_size(*left, min_size(s->data_cap - s->used, (s->offsets_cap - s->count - 1) * 4));
    return 0;
}

static int grow_column(rmq_column *c, int id, int64_t rows, size_t bytes, size_t *left) {
    switch (rmq_column_types[id].kind) {
        case RMQ_KIND_I32:
        case RMQ_KIND_I64:
            return 0;
        case RMQ_KIND_HASHES: {
            const size_t used = (size_t)c->offsets[rows];
            if (used + bytes / 4 > INT32_MAX) return -1;
            if (grow_array(&c->values.any, &c->values_cap, used + bytes / 4, sizeof(int32_t))) return -1;
            *left = min_size(*left, (c->values_cap - used) * 4);
            return 0;
        }
        case RMQ_KIND_TEXT:
        case RMQ_KIND_BYTES: /* one text per row: the offsets exist already */
            if (grow_strings(&c->strings, 0, bytes)) return -1;
            *left = min_size(*left, c->strings.data_cap - c->strings.used);
            return 0;
        case RMQ_KIND_MAP:
            if (grow_many(&c->second, bytes, left)) return -1;
            break;
        default:
            break;
    }
    return grow_many(&c->strings, bytes, left);
}

int rmq_batch_grow(rmq_batch *batch, size_t bytes) {
    batch->room = SIZE_MAX;
    for (int i = 0; i < RMQ_COL_COUNT; i++) {
        if (batch->pool->wanted >> i & 1 && grow_column(&batch->columns[i], i, batch->rows, bytes, &batch->room))
            return -1;
    }
    return 0;
}

static int start_column(rmq_column *c, int id, int64_t rows) {
    const size_t n = (size_t)rows;
    const rmq_column_type *type = &rmq_column_types[id];
    /* First guesses of a row's bytes; buffers that are too small grow. */
    enum { TEXT_BYTES = 16, PAIRS = 4 };
    switch (type->kind) {
        case RMQ_KIND_I32:
        case RMQ_KIND_I64:
            c->values.any = malloc(n * (type->kind == RMQ_KIND_I32 ? sizeof(int32_t) : sizeof(int64_t)));
            return c->values.any ? 0 : -1;
        case RMQ_KIND_TEXT:
        case RMQ_KIND_BYTES:
            if (type->nullable && (c->validity = malloc((n + 7) / 8)) == NULL) return -1;
            return grow_strings(&c->strings, n, n * TEXT_BYTES);
        case RMQ_KIND_MAP:
            if (grow_strings(&c->second, n * PAIRS, n * PAIRS * TEXT_BYTES)) return -1;
            break;
        default:
            break;
    }
    if ((c->offsets = malloc((n + 1) * sizeof(int32_t))) == NULL) return -1;
    if (type->kind == RMQ_KIND_HASHES) return grow_array(&c->values.any, &c->values_cap, n * 2, sizeof(int32_t));
    return grow_strings(&c->strings, n * PAIRS, n * PAIRS * TEXT_BYTES);
}

static void empty_batch(rmq_batch *batch) {
    batch->next = NULL;
    batch->rows = 0;
    batch->bytes = 0;
    batch->room = 0;
    for (int i = 0; i < RMQ_COL_COUNT; i++) {
        rmq_column *c = &batch->columns[i];
        c->null_count = 0;
        c->strings.count = c->second.count = 0;
        c->strings.used = c->second.used = 0;
        if (c->offsets) c->offsets[0] = 0;
        if (c->strings.offsets) c->strings.offsets[0] = 0;
        if (c->second.offsets) c->second.offsets[0] = 0;
    }
}

static rmq_batch *new_batch(rmq_pool *pool) {
    rmq_batch *batch = calloc(1, sizeof *batch);
    if (batch == NULL) return NULL;
    batch->pool = pool;
    for (int i = 0; i < RMQ_COL_COUNT; i++) {
        if (pool->wanted >> i & 1 && start_column(&batch->columns[i], i, pool->rows)) {
            free_batch(batch);
            return NULL;
        }
    }
    return batch;
}

rmq_pool *rmq_pool_new(uint32_t wanted, int64_t rows) {
    rmq_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL) return NULL;
    pthread_mutex_init(&pool->lock, NULL);
    pool->holds = 1;
    pool->wanted = wanted;
    pool->rows = rows;
    return pool;
}

uint32_t rmq_pool_wanted(const rmq_pool *pool) { return pool->wanted; }
int64_t rmq_pool_rows(const rmq_pool *pool) { return pool->rows; }

/* Drops one hold and releases the lock, which the caller has acquired; the last hold frees the pool. */
static void drop_hold(rmq_pool *pool) {
    const int last = --pool->holds == 0;
    rmq_batch *list = last ? pool->free_list : NULL;
    pthread_mutex_unlock(&pool->lock);
    if (!last) return;
    while (list) {
        rmq_batch *next = list->next;
        free_batch(list);
        list = next;
    }
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

void rmq_pool_close(rmq_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    drop_hold(pool);
}

rmq_batch *rmq_batch_take(rmq_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    rmq_batch *batch = pool->free_list;
    if (batch) {
        pool->free_list = batch->next;
        pool->free_count--;
    }
    pool->holds++;
    pthread_mutex_unlock(&pool->lock);
    if (batch == NULL) batch = new_batch(pool);
    if (batch == NULL) {
        pthread_mutex_lock(&pool->lock);
        drop_hold(pool);
        return NULL;
    }
    empty_batch(batch);
    return batch;
}

void rmq_batch_release(rmq_batch *batch) {
    rmq_pool *pool = batch->pool;
    pthread_mutex_lock(&pool->lock);
    /* One huge record must not pin its memory for the rest of the stream. */
    enum { KEPT_BYTES = 64 << 20 };
    if (pool->free_count < KEPT_FREE && batch->bytes < KEPT_BYTES) {
        batch->next = pool->free_list;
        pool->free_list = batch;
        pool->free_count++;
        batch = NULL;
    }
    drop_hold(pool);
    if (batch) free_batch(batch);
}
