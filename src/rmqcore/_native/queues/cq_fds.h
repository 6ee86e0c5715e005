/* A bounded number of open ConsumeQueue files: a store of 10,000 queues must not hold 10,000 descriptors.
 *
 * A descriptor that is in use is pinned and never closed under its user. Among the other descriptors the least recently used
 * (by the clock algorithm) makes room. All functions are safe to call from any thread; no lock is held during a system call
 * that can wait for a disk.
 */
#ifndef RMQ_CQ_FDS_H
#define RMQ_CQ_FDS_H

#include <pthread.h>
#include <stdint.h>

/* The places of a queue's open files; -1 without a file. Guarded by the lock of the cache. */
enum { RMQ_CQ_OPEN_FILES = 2 /* the one that is written, and another that is read */ };
typedef struct rmq_cq_open {
    int32_t places[RMQ_CQ_OPEN_FILES];
} rmq_cq_open;

typedef struct rmq_cq_fd {
    rmq_cq_open *owner; /* NULL: not in use, or the file was forgotten while pinned */
    int64_t file;       /* first byte of the file in its queue */
    int fd;             /* -1: a free place */
    int32_t pins;
    int32_t next_free;
    uint8_t used; /* since the hand last passed */
} rmq_cq_fd;

typedef struct rmq_cq_fds {
    pthread_mutex_t lock;
    rmq_cq_fd *items;
    int32_t room, hand, first_free, open_count;
} rmq_cq_fds;

/* 0, or -1 without memory. */
int rmq_cq_fds_init(rmq_cq_fds *fds, int32_t room);
/* Closes all files; none may be pinned. */
void rmq_cq_fds_free(rmq_cq_fds *fds);

/* The open file, pinned, or -1 if it is not open. *place goes to rmq_cq_fds_unpin. */
int rmq_cq_fds_find(rmq_cq_fds *fds, rmq_cq_open *owner, int64_t file, int32_t *place);
/* Adds an open descriptor and returns the descriptor to use, pinned: that of another thread if it was faster (the given
 * descriptor is closed then). *place is -1 without room: unpinning closes it. */
int rmq_cq_fds_add(rmq_cq_fds *fds, rmq_cq_open *owner, int64_t file, int fd, int32_t *place);
void rmq_cq_fds_unpin(rmq_cq_fds *fds, int32_t place, int fd);
/* The queue's files from `first` up to, not including, `end` are deleted (or about to be). */
void rmq_cq_fds_forget(rmq_cq_fds *fds, rmq_cq_open *owner, int64_t first, int64_t end);

#endif
