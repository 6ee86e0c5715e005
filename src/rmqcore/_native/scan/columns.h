/* Records into columns, one fused pass per record: "collect starts first, then columns" touches every line twice and
 * was
 * measured 4.6 times slower. */
#ifndef RMQ_COLUMNS_H
#define RMQ_COLUMNS_H

#include "scan/batch.h"
#include "scan/filter.h"
#include "format/text.h"
#include "scan/topics.h"
#include "scan/window.h"

enum {
    /* Beside the step codes RMQ_R_BLANK and RMQ_E_*. */
    RMQ_S_END = 1,    /* the window is used up */
    RMQ_S_FULL = 2,   /* the batch is full, by rows or bytes */
    RMQ_S_STOP = 3,   /* the next record starts at or after the scan's end */
    RMQ_S_MEMORY = 4, /* no memory, or a row that Arrow's 32-bit offsets cannot hold */
};

enum { RMQ_HOST_CACHE = 64 };

/* State that all batches of a scan share. */
typedef struct rmq_scan {
    const rmq_filter *filter;
    rmq_delay_levels levels;
    rmq_topics *topics; /* needed for TOPIC_ID and KEY_HASHES, else NULL */
    rmq_topics *tags;   /* needed for TAG_ID, else NULL */
    uint32_t wanted;
    int64_t batch_rows;
    size_t batch_bytes;
    int64_t stop_offset; /* records that start here or later are left alone */
    struct rmq_known_host {
        uint64_t key;  /* the 8 bytes */
        uint64_t len;  /* 0: free */
        char text[32]; /* "ip:port" */
        char hex[16];
    } hosts[RMQ_HOST_CACHE]; /* a store has few distinct hosts; formatting one takes 25 ns, finding it 3 */
} rmq_scan;

/* Appends the accepted records of the window from *pos on and moves *pos behind the last one looked at. Returns RMQ_S_*, or
 * the step code of the record at *pos that ended it, described in *rec. */
int32_t rmq_scan_columns(rmq_scan *scan, rmq_batch *batch, const rmq_window *w, size_t *pos, rmq_record *rec);

/* Finds the next accepted record without building columns: 1 with *pos at it and *rec filled (the caller steps over it), else
 * as rmq_scan_columns. */
enum { RMQ_S_RECORD = 5 };
int32_t rmq_scan_next(rmq_scan *scan, const rmq_window *w, size_t *pos, rmq_record *rec);

/* Adds one row to a batch of the column PROPERTIES alone, which has a row left: the map of a bare properties string of at most
 * RMQ_MAX_PROPERTIES_LEN bytes. Reads only [props - before, props + len + after). 0, or -1 without memory: then the batch is
 * unusable. */
int rmq_batch_add_properties(rmq_batch *batch, const uint8_t *props, size_t len, size_t before, size_t after);

#endif
