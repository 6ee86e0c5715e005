/* Sync of the written queue files to disk. */
/* fdatasync and syncfs */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "queues/cq_table_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum {
    PAGE = 4096, /* of Java's flush rule, on any machine */
    FLUSH_AT_ONCE = 256, /* queues */
};

static int sync_fd(int fd) {
#if defined(__APPLE__)
    if (fcntl(fd, F_FULLFSYNC) == 0) return 0;
    return fsync(fd) == 0 ? 0 : -errno;
#else
    return fdatasync(fd) == 0 ? 0 : -errno;
#endif
}

static int sync_file(rmq_cq_table *t, rmq_cq *q, int64_t file) {
    int32_t place;
    int code = rmq_cq_make_path(t, q, file, t->flush_failed);
    if (code < 0) return code;
    const int fd = rmq_cq_open_to_read(t, q, file, 0, &place);
    if (fd == -ENOENT && file < rmq_cq_first_file(q)) return 0; /* the cleaner has deleted the file */
    if (fd < 0) return fd;
    code = sync_fd(fd);
    rmq_cq_fds_unpin(&t->fds, place, fd);
    return code;
}

static int sync_directory(const char *path) {
    const int fd = rmq_cq_open_path(path, O_RDONLY | O_DIRECTORY);
    if (fd < 0) return fd;
    const int code = fsync(fd) == 0 ? 0 : -errno;
    close(fd);
    return code;
}

/* Syncs the directories that have new names in them, from the innermost on. */
static int sync_names(rmq_cq_table *t, rmq_cq *q, uint32_t names) {
    static const struct {
        uint32_t name;
        int64_t directory;
    } levels[] = {{RMQ_CQ_NEW_FILE, -1}, {RMQ_CQ_NEW_QUEUE, -2}, {RMQ_CQ_NEW_TOPIC, -3}, {RMQ_CQ_NEW_ROOT, -3}};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        if (!(names & levels[i].name)) continue;
        int code = rmq_cq_make_path(t, q, levels[i].directory, t->flush_failed);
        if (code == 0 && levels[i].name == RMQ_CQ_NEW_ROOT) {
            char *slash = strrchr(t->flush_failed, '/');
            if (slash) slash[slash == t->flush_failed] = 0;
        }
        if (code == 0) code = sync_directory(t->flush_failed);
        if (code < 0) return code;
    }
    return 0;
}

/* The writer sets it, too, before a queue's first entry. */
static int64_t flushed_of(const rmq_cq *q) { return __atomic_load_n(&q->flushed, __ATOMIC_ACQUIRE); }

int rmq_cq_flush(rmq_cq_table *t, rmq_cq *q, int32_t least_pages) {
    const int64_t end = rmq_cq_end(q), size = t->file_size, flushed = flushed_of(q);
    int code = 0;
    if (flushed < end && rmq_cq_last_file(q) >= 0) {
        int64_t file = flushed - flushed % size;
        const int64_t waiting = (end - file) / PAGE - (flushed - file) / PAGE;
        if (end >= file + size || waiting >= least_pages) {
            for (; code == 0 && file < end; file += size) code = sync_file(t, q, file);
            if (code == 0) publish(&q->flushed, end);
        } else {
            return 0;
        }
    }
    const uint32_t names = __atomic_exchange_n(&q->new_names, 0, __ATOMIC_ACQ_REL);
    if (code == 0 && names) code = sync_names(t, q, names);
    if (code < 0 && names) __atomic_fetch_or(&q->new_names, names, __ATOMIC_ACQ_REL);
    return code;
}

void rmq_cq_assume_flushed(rmq_cq *q) { q->flushed = rmq_cq_end(q); }

#if defined(__linux__)
/* Before Linux 5.8 syncfs does not report a failed write. */
static int syncfs_tells_failures(void) {
    struct utsname system;
    int major = 0, minor = 0;
    if (uname(&system) != 0 || sscanf(system.release, "%d.%d", &major, &minor) != 2) return 0;
    return major > 5 || (major == 5 && minor >= 8);
}

static int sync_filesystem(rmq_cq_table *t) {
    snprintf(t->flush_failed, sizeof t->flush_failed, "%s", t->root);
    const int fd = rmq_cq_open_path(t->root, O_RDONLY | O_DIRECTORY);
    if (fd < 0) return fd;
    const int code = syncfs(fd) == 0 ? 0 : -errno;
    close(fd);
    return code;
}

int rmq_cq_flush_at_once(rmq_cq_table *t) {
    const int32_t count = rmq_cq_count(t);
    int32_t waiting = 0;
    for (int32_t i = 0; i < count; i++) waiting += flushed_of(rmq_cq_at(t, i)) < rmq_cq_end(rmq_cq_at(t, i));
    if (waiting < FLUSH_AT_ONCE || !syncfs_tells_failures()) return 0;
    struct noted {
        int64_t end;
        uint32_t names;
    } *noted = malloc((size_t)count * sizeof *noted);
    if (noted == NULL) return 0;
    /* Entries put during the sync wait for the next one. */
    for (int32_t i = 0; i < count; i++) {
        rmq_cq *q = rmq_cq_at(t, i);
        noted[i].end = rmq_cq_end(q);
        noted[i].names = __atomic_exchange_n(&q->new_names, 0, __ATOMIC_ACQ_REL);
    }
    const int code = sync_filesystem(t);
    for (int32_t i = 0; i < count; i++) {
        rmq_cq *q = rmq_cq_at(t, i);
        if (code == 0) publish(&q->flushed, noted[i].end);
        else if (noted[i].names) __atomic_fetch_or(&q->new_names, noted[i].names, __ATOMIC_ACQ_REL);
    }
    free(noted);
    return code == 0 ? 1 : code;
}
#else
int rmq_cq_flush_at_once(rmq_cq_table *t) {
    (void)t;
    return 0;
}
#endif
