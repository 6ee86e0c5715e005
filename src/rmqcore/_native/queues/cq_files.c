/* Files of queues: their paths, making and opening them, reading and writing at a position. */
/* preadv2 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "queues/cq_table_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FILLER_BLOCK = 512 /* entries */ };

int rmq_cq_make_path(const rmq_cq_table *t, const rmq_cq *q, int64_t file, char *out) {
    const char *topic = q->topic_name;
    int n;
    if (file >= 0) n = snprintf(out, PATH_ROOM, "%s/%s/%d/%020lld", t->root, topic, q->queue_id, (long long)file);
    else if (file == -1) n = snprintf(out, PATH_ROOM, "%s/%s/%d", t->root, topic, q->queue_id);
    else if (file == -2) n = snprintf(out, PATH_ROOM, "%s/%s", t->root, topic);
    else n = snprintf(out, PATH_ROOM, "%s", t->root);
    return n < 0 || n >= PATH_ROOM ? -ENAMETOOLONG : 0;
}

int rmq_cq_open_path(const char *path, int flags) {
    struct stat status;
    const int folder = flags & O_DIRECTORY; /* the root of the queues may be a link that the caller follows */
    int fd;
    if (!folder) flags |= O_NOFOLLOW | O_NONBLOCK; /* O_NONBLOCK: a FIFO would wait for ever */
    do fd = open(path, flags | O_CLOEXEC, 0644);
    while (fd < 0 && errno == EINTR);
    if (fd < 0) return -errno;
    if (folder || (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))) return fd;
    close(fd);
    return -EINVAL;
}

/* Makes the missing directories above a queue's files and adds the flag of each new one to *made. */
static int make_directories(const rmq_cq_table *t, const rmq_cq *q, uint32_t *made) {
    static const uint32_t flags[] = {RMQ_CQ_NEW_ROOT, RMQ_CQ_NEW_TOPIC, RMQ_CQ_NEW_QUEUE};
    char path[PATH_ROOM];
    for (int level = 0; level < 3; level++) {
        const int code = rmq_cq_make_path(t, q, level - 3, path);
        if (code < 0) return code;
        if (mkdir(path, 0755) == 0) *made |= flags[level];
        else if (errno != EEXIST) return -errno;
    }
    return 0;
}

int rmq_cq_open_to_write(rmq_cq_table *t, rmq_cq *q, int64_t file, int create, const char *path, int32_t *place) {
    if (!create) {
        const int found = rmq_cq_fds_find(&t->fds, &q->open, file, place);
        if (found >= 0) return found;
    }
    uint32_t made = create ? RMQ_CQ_NEW_FILE : 0;
    int fd = rmq_cq_open_path(path, O_RDWR | (create ? O_CREAT : 0));
    if (fd == -ENOENT && create) {
        const int code = make_directories(t, q, &made);
        if (code < 0) return code;
        fd = rmq_cq_open_path(path, O_RDWR | O_CREAT);
    }
    if (fd < 0) return fd;
    if (create) {
        if (ftruncate(fd, t->file_size) < 0) {
            const int code = -errno;
            unlink(path); /* no file of another size may stay: Java refuses a directory that holds one */
            close(fd);
            return code;
        }
        __atomic_fetch_or(&q->new_names, made, __ATOMIC_ACQ_REL);
    }
    return rmq_cq_fds_add(&t->fds, &q->open, file, fd, place);
}

int rmq_cq_open_to_read(rmq_cq_table *t, rmq_cq *q, int64_t file, int nowait, int32_t *place) {
    char path[PATH_ROOM];
    const int found = rmq_cq_fds_find(&t->fds, &q->open, file, place);
    if (found >= 0) return found;
    if (nowait) return -EAGAIN;
    const int code = rmq_cq_make_path(t, q, file, path);
    if (code < 0) return code;
    int fd = rmq_cq_open_path(path, O_RDWR);
    if (fd == -EACCES || fd == -EROFS || fd == -EPERM) fd = rmq_cq_open_path(path, O_RDONLY);
    return fd < 0 ? fd : rmq_cq_fds_add(&t->fds, &q->open, file, fd, place);
}

int rmq_cq_write_all(int fd, const uint8_t *bytes, int64_t count, int64_t pos) {
    while (count > 0) {
        const ssize_t done = pwrite(fd, bytes, (size_t)count, pos);
        if (done < 0 && errno != EINTR) return -errno;
        if (done == 0) return -EIO;
        if (done > 0) {
            bytes += done;
            pos += done;
            count -= done;
        }
    }
    return 0;
}

int rmq_cq_write_fillers(int fd, int64_t count) {
    uint8_t block[FILLER_BLOCK * UNIT];
    const rmq_cq_entry filler = RMQ_CQ_FILLER;
    for (int i = 0; i < FILLER_BLOCK; i++) rmq_cq_store(block + i * UNIT, filler);
    for (int64_t pos = 0; pos < count; pos += (int64_t)sizeof block) {
        const int64_t step = count - pos < (int64_t)sizeof block ? count - pos : (int64_t)sizeof block;
        const int code = rmq_cq_write_all(fd, block, step, pos);
        if (code < 0) return code;
    }
    return 0;
}

static ssize_t read_some(int fd, uint8_t *out, size_t count, int64_t pos, int nowait) {
#if defined(__linux__) && defined(RWF_NOWAIT)
    if (nowait) {
        const struct iovec part = {out, count};
        return preadv2(fd, &part, 1, pos, RWF_NOWAIT);
    }
#else
    if (nowait) {
        errno = EAGAIN;
        return -1;
    }
#endif
    return pread(fd, out, count, pos);
}

int64_t rmq_cq_read(rmq_cq_table *t, rmq_cq *q, int64_t index, int64_t count, uint8_t *out, int nowait) {
    const int64_t end = rmq_cq_end(q), first = rmq_cq_first_file(q);
    if (first < 0 || index < 0 || index >= end / UNIT || count <= 0) return 0;
    const int64_t pos = index * UNIT, file = pos - pos % t->file_size;
    if (file < first) return -ENOENT;
    const int64_t stop = end < file + t->file_size ? end : file + t->file_size;
    if (count > (stop - pos) / UNIT) count = (stop - pos) / UNIT;
    int32_t place;
    const int fd = rmq_cq_open_to_read(t, q, file, nowait, &place);
    if (fd < 0) return fd;
    int64_t done = 0, code = 0;
    while (done < count * UNIT) {
        const ssize_t got = read_some(fd, out + done, (size_t)(count * UNIT - done), pos - file + done, nowait);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) code = nowait ? -EAGAIN : -errno;
        if (got <= 0) break;
        done += got;
    }
    rmq_cq_fds_unpin(&t->fds, place, fd);
    return code < 0 ? code : done / UNIT;
}
