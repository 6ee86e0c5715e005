/* Room for an append: pages of a file that has its blocks, filled with zeros ahead of the writer and mapped.
 *
 * The zeros are written through the descriptor, 64 KiB per call, because the kernel then uses small pieces of free
 * memory. A fault needs up to 2 MiB at once: if the memory has to be fetched first (a virtual machine that gave it
 * back), filling reaches 1.2 to 3.4 GB/s and faults 0.35, and 2 MiB wait 30 ms. tmpfs uses single pages in any case,
 * and zeros its blocks itself.
 *
 * Zeros overwrite what is there. So an append may store only below the log's `allocated`, a piece begins there, and one
 * thread at a time fills.
 */
#ifndef RMQ_FILL_H
#define RMQ_FILL_H

#include "put/append.h"
#include <pthread.h>

/* The size of a piece: a put that needs room waits for at most one piece of another thread. */
enum { RMQ_FILL_PIECE = 256 * 1024 };

typedef struct rmq_fill {
    pthread_mutex_t mutex; /* taken before the lock of the log, never with it */
    int urgent; /* threads that wait for room now */
    int stopped;
} rmq_fill;

/* The current file of the log, the next one, or one that the log has left: then nothing is done. */
typedef struct rmq_fill_file {
    int fd;
    uint8_t *base;
    int64_t file_from_offset;
} rmq_fill_file;

int rmq_fill_init(rmq_fill *fill); /* 0, or -1 */
void rmq_fill_destroy(rmq_fill *fill);

/* Fills up to the log offset `end`, which has blocks, and updates the log after each piece. `urgent`: a put waits; a
 * thread that works ahead yields to it. Returns 0 or a negated errno. The caller holds neither the GIL nor the lock of
 * the log. */
int rmq_fill_up_to(rmq_fill *fill, rmq_log *log, const rmq_fill_file *file, int64_t end, int urgent);

/* After the return no page is filled any more. */
void rmq_fill_stop(rmq_fill *fill);

#endif
