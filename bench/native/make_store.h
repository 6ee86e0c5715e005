/* The parts of make_store.c: each writes one kind of file of a store, with the product's own encoders. */
#ifndef BENCH_MAKE_STORE_H
#define BENCH_MAKE_STORE_H

#include <stdio.h>
#include <stdlib.h>

#include "format/cq.h"
#include "format/record.h"

static inline void die(const char *what) {
    perror(what);
    exit(1);
}

/* Opens DIR/NAME for writing, as a file of `size` bytes of which nothing is allocated yet. */
int create_file(const char *dir, const char *name, size_t size);
void write_at(int fd, const uint8_t *from, size_t len, size_t pos);
void make_dir(const char *path);

/* ---- consumequeue/TOPIC/QUEUE/: entries gathered in memory and written a file at a time ------------ */
typedef struct queue_writer {
    char dir[512];
    uint8_t *entries;
    size_t len, room;         /* bytes gathered for the current file, bytes allocated */
    int64_t file_from_offset; /* of the current file */
    int64_t count;            /* entries ever put: the next queue offset */
} queue_writer;

enum { QUEUE_FILE_SIZE = 300000 * RMQ_CQ_STORE_UNIT_SIZE };

void queue_open(queue_writer *queue, const char *root, const char *topic, int queue_id);
void queue_put(queue_writer *queue, rmq_cq_entry entry);
void queue_close(queue_writer *queue);

/* ---- index/: a mapped file, a new one when it is full --------------------------------------------- */
typedef struct index_writer {
    char dir[512];
    uint8_t *map;
    int32_t count, used_slots;              /* count: the next entry's number, from 1 */
    int64_t begin_timestamp, end_timestamp; /* milliseconds */
    int64_t begin_phy_offset, end_phy_offset;
    int64_t full_until_ms; /* end_timestamp of the newest full file, 0 before a file is full */
} index_writer;

void index_open(index_writer *index, const char *root);
void index_put(index_writer *index, int32_t key_hash, int64_t phy_offset, int64_t store_timestamp);
void index_close(index_writer *index);

#endif
