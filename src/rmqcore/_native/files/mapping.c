/* mincore */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "files/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__linux__)
#include <linux/magic.h>
#include <sys/statfs.h>
#endif

/* Linux 5.14; older headers lack the names, older kernels return EINVAL. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* On a memory filesystem blocks are pages, which are cleared while the file is locked: a put that needed pages of its
 * own waited up to 16 ms for 64 MiB of them, and still up to 8 ms without this pause: a thread that waits for the lock
 * has to wake up first. */
enum { MEMORY_STEP = 1 << 20, MEMORY_PAUSE_US = 20 };

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

int rmq_map_file(const char *path, size_t size, int writable, uint8_t **base, int *fd, int64_t *found) {
    struct stat status;
    *found = (int64_t)size;
    const int opened = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (opened < 0) return -errno;
    if (fstat(opened, &status) < 0) goto failed;
    if (!S_ISREG(status.st_mode)) {
        errno = ENODEV;
        goto failed;
    }
    if (status.st_size != (off_t)size) {
        *found = status.st_size;
        close(opened);
        return -EINVAL;
    }
    void *at = mmap(NULL, size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, opened, 0);
    if (at == MAP_FAILED) goto failed;
    *base = at;
    *fd = writable ? opened : -1;
    if (!writable) close(opened);
    return 0;
failed:;
    const int code = -errno;
    close(opened);
    return code;
}

void rmq_unmap(uint8_t *base, size_t size) { munmap(base, size); }
void rmq_close(int fd) { close(fd); }

int rmq_allocate(int fd, int64_t begin, int64_t end) {
    if (end <= begin) return 0;
#if defined(__APPLE__)
    fstore_t store = {F_ALLOCATECONTIG | F_ALLOCATEALL, F_PEOFPOSMODE, 0, end - begin, 0};
    if (fcntl(fd, F_PREALLOCATE, &store) == 0) return 0;
    store.fst_flags = F_ALLOCATEALL;
    return fcntl(fd, F_PREALLOCATE, &store) == 0 ? 0 : -errno;
#else
    const int64_t most = rmq_is_memory(fd) ? MEMORY_STEP : end - begin;
    while (begin < end) {
        const int64_t step = end - begin < most ? end - begin : most;
        const int code = posix_fallocate(fd, begin, step);
        if (code != 0 && code != EINTR) return -code;
        if (code == 0) begin += step;
        if (begin < end) usleep(MEMORY_PAUSE_US);
    }
    return 0;
#endif
}

int rmq_populate(uint8_t *base, size_t begin, size_t end) {
    if (end <= begin) return 0;
    const size_t page = page_size();
    begin -= begin % page;
#if defined(__linux__)
    if (madvise(base + begin, end - begin, MADV_POPULATE_WRITE) == 0) return 0;
    if (errno != EINVAL) return -errno;
#endif
    /* A write that changes nothing, atomic because another thread may be storing to the same page. */
    for (size_t at = begin; at < end; at += page) __atomic_fetch_or(base + at, 0, __ATOMIC_RELAXED);
    return 0;
}

void rmq_forget_pages(uint8_t *base, size_t begin, size_t end) {
#if defined(__linux__)
    const size_t page = page_size();
    begin -= begin % page;
    end -= end % page;
    if (end > begin) (void)madvise(base + begin, end - begin, MADV_DONTNEED);
#else
    (void)base, (void)begin, (void)end;
#endif
}

int rmq_flush(uint8_t *base, size_t begin, size_t end) {
    if (end <= begin) return 0;
    begin -= begin % page_size();
    return msync(base + begin, end - begin, MS_SYNC) == 0 ? 0 : -errno;
}

void rmq_read_ahead(uint8_t *base, size_t begin, size_t end) {
    if (end <= begin) return;
    begin -= begin % page_size();
    (void)madvise(base + begin, end - begin, MADV_WILLNEED);
}

size_t rmq_first_cold(uint8_t *base, size_t begin, size_t end) {
#if defined(__linux__)
    unsigned char held[256];
    const size_t page = page_size();
    for (size_t at = begin - begin % page; at < end;) {
        const size_t step = end - at < sizeof held * page ? end - at : sizeof held * page;
        if (mincore(base + at, step, held) < 0) return end;
        for (size_t i = 0; i * page < step; i++) {
            if (!(held[i] & 1)) return at + i * page > begin ? at + i * page : begin;
        }
        at += step;
    }
#else
    (void)base, (void)begin;
#endif
    return end;
}

void rmq_read_in(uint8_t *base, size_t begin, size_t end) {
    if (end <= begin) return;
    const size_t page = page_size();
    begin -= begin % page;
#if defined(__linux__)
    if (madvise(base + begin, end - begin, MADV_POPULATE_READ) == 0 || errno != EINVAL) return;
#endif
    for (size_t at = begin; at < end; at += page) (void)*(volatile uint8_t *)(base + at);
}

void rmq_read_at_random(uint8_t *base, size_t size) { (void)madvise(base, size, MADV_RANDOM); }

int rmq_write_zeros(int fd, int64_t begin, int64_t end) {
    static const uint8_t zeros[1 << 16];
    while (begin < end) {
        const size_t step = end - begin < (int64_t)sizeof zeros ? (size_t)(end - begin) : sizeof zeros;
        const ssize_t done = pwrite(fd, zeros, step, begin);
        if (done < 0 && errno != EINTR) return -errno;
        if (done > 0) begin += done;
    }
    return 0;
}

int rmq_is_memory(int fd) {
#if defined(__linux__)
    struct statfs status;
    return fstatfs(fd, &status) == 0 && (status.f_type == TMPFS_MAGIC || status.f_type == RAMFS_MAGIC);
#else
    (void)fd;
    return 0;
#endif
}

int rmq_sync(int fd) {
#if defined(__APPLE__)
    if (fcntl(fd, F_FULLFSYNC) == 0) return 0;
#endif
    return fsync(fd) == 0 ? 0 : -errno;
}

int64_t rmq_size_of(int fd) {
    struct stat status;
    return fstat(fd, &status) == 0 ? (int64_t)status.st_size : -errno;
}
