/* Memory of one batch of columns, and the pool it returns to.
 *
 * A batch that was exported (Arrow) returns through rmq_batch_release on any thread. Recycling its buffers instead of
 * mapping fresh ones makes a stream 4 to 7 times faster: over three quarters of the time with fresh memory is page faults.
 */
#ifndef RMQ_BATCH_H
#define RMQ_BATCH_H

#include <stddef.h>
#include <stdint.h>

/* Columns in the order of rmqcore's default; the first RMQ_COL_PUBLIC bear the MessageView names. */
enum rmq_column_id {
    RMQ_COL_PHY_OFFSET,
    RMQ_COL_MSG_SIZE,
    RMQ_COL_MAGIC,
    RMQ_COL_BODY_CRC,
    RMQ_COL_QUEUE_ID,
    RMQ_COL_FLAG,
    RMQ_COL_QUEUE_OFFSET,
    RMQ_COL_SYS_FLAG,
    RMQ_COL_BORN_TIMESTAMP_MS,
    RMQ_COL_BORN_HOST,
    RMQ_COL_STORE_TIMESTAMP_MS,
    RMQ_COL_STORE_HOST,
    RMQ_COL_RECONSUME_TIMES,
    RMQ_COL_PREPARED_TRANSACTION_OFFSET,
    RMQ_COL_BODY,
    RMQ_COL_TOPIC,
    RMQ_COL_PROPERTIES,
    RMQ_COL_TAGS,
    RMQ_COL_KEYS,
    RMQ_COL_UNIQ_KEY,
    RMQ_COL_MSG_ID,
    RMQ_COL_TAGS_CODE,
    RMQ_COL_PUBLIC,
    RMQ_COL_RAW = RMQ_COL_PUBLIC, /* the whole record */
    RMQ_COL_TOPIC_ID,             /* number of the topic in rmq_topics */
    RMQ_COL_KEY_HASHES,           /* hashes of the index keys, in the order Java indexes them */
    RMQ_COL_TAG_ID,               /* number of TAGS in an rmq_topics of its own, -1 without */
    RMQ_COL_COUNT
};

enum rmq_column_kind {
    RMQ_KIND_I32,
    RMQ_KIND_I64,
    RMQ_KIND_TEXT,   /* UTF-8 */
    RMQ_KIND_BYTES,
    RMQ_KIND_MAP,    /* text to text */
    RMQ_KIND_WORDS,  /* list of text */
    RMQ_KIND_HASHES, /* list of i32 */
};

typedef struct rmq_column_type {
    const char *name;
    uint8_t kind;
    uint8_t nullable;
} rmq_column_type;

extern const rmq_column_type rmq_column_types[RMQ_COL_COUNT];

/* Texts end to end: text i is data[offsets[i], offsets[i + 1]), and offsets[count] == used. */
typedef struct rmq_strings {
    int32_t *offsets;
    uint8_t *data;
    size_t count, used;
    size_t offsets_cap, data_cap;
} rmq_strings;

typedef struct rmq_column {
    union {
        int32_t *i32;
        int64_t *i64;
        void *any;
    } values;             /* I32, I64; HASHES: the flat hashes */
    int32_t *offsets;     /* MAP, WORDS, HASHES: rows + 1 positions in what follows */
    rmq_strings strings;  /* TEXT, BYTES; WORDS: the words; MAP: the names */
    rmq_strings second;   /* MAP: the values */
    size_t values_cap;    /* HASHES */
    uint8_t *validity;    /* of nullable columns: bit i of byte i / 8 */
    int64_t null_count;
} rmq_column;

struct rmq_pool;

typedef struct rmq_batch {
    struct rmq_batch *next; /* in the free list */
    struct rmq_pool *pool;
    int64_t rows;
    size_t bytes; /* of the records so far */
    size_t room;  /* free bytes in every string column, at least; a quarter of that number of texts */
    rmq_column columns[RMQ_COL_COUNT];
} rmq_batch;

typedef struct rmq_pool rmq_pool;

/* A pool of batches with `rows` rows of the columns in `wanted` (bit = column id). NULL without memory. */
rmq_pool *rmq_pool_new(uint32_t wanted, int64_t rows);
/* Drops the caller's hold; the memory is freed when the last batch has returned. */
void rmq_pool_close(rmq_pool *pool);
uint32_t rmq_pool_wanted(const rmq_pool *pool);
int64_t rmq_pool_rows(const rmq_pool *pool);

/* An empty batch, NULL without memory. Any thread. */
rmq_batch *rmq_batch_take(rmq_pool *pool);
/* Any thread. */
void rmq_batch_release(rmq_batch *batch);

/* Makes room for `bytes` more bytes and bytes / 4 more texts or hashes in every variable column, and sets batch->room.
 * 0, or -1
 * without memory or past 2 GiB (32-bit offsets). */
int rmq_batch_grow(rmq_batch *batch, size_t bytes);

#endif
