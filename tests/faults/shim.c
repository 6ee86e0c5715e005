/* Preloaded into a test's process: makes the n-th call of a kind fail, and records what has reached the disk.
 *
 * Only calls on files below a given directory count. Memory of a file is known by its mmap. The interface at the end is for ctypes.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MSYNC, FSYNC, PWRITE, FALLOCATE, FTRUNCATE, MMAP, MADVISE, OPEN, RENAME, UNLINK, MKDIR, KINDS };
static const char *const names[KINDS] = {"msync",   "fsync", "pwrite", "fallocate", "ftruncate", "mmap",
                                         "madvise", "open",  "rename", "unlink",    "mkdir"};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char root[4096];
static struct {
    long calls, first, last; /* calls so far; which of them fail, counted from 1 */
    int error;
} plan[KINDS];
static long fired;
static int record_fd = -1;

enum { MAPS = 4096 };
static struct {
    uint8_t *base;
    size_t size;
    int64_t offset;
    uint64_t ino;
} maps[MAPS];

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static int below(const char *path) {
    char whole[8192];
    if (root[0] == 0) return 0;
    if (path[0] != '/') {
        if (getcwd(whole, 4096) == NULL) return 0;
        strncat(whole, "/", 2);
        strncat(whole, path, 4000);
        path = whole;
    }
    return strncmp(path, root, strlen(root)) == 0;
}

static int fd_below(int fd) {
    char link[64], path[4096];
    const int saved = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    errno = saved;
    if (length < 0) return 0;
    path[length] = 0;
    return below(path);
}

/* Counts a call; answers whether it has to fail (errno is set). */
static int fails(int kind) {
    pthread_mutex_lock(&mutex);
    const long call = ++plan[kind].calls;
    const int now = plan[kind].first > 0 && call >= plan[kind].first && call <= plan[kind].last;
    if (now) fired++;
    const int error = plan[kind].error;
    pthread_mutex_unlock(&mutex);
    if (now) errno = error;
    return now;
}

/* ---- the record: kind, inode, place, length, bytes; host byte order ---- */

static void put_all(const void *bytes, size_t length) {
    const char *at = bytes;
    while (length > 0) {
        const ssize_t done = write(record_fd, at, length);
        if (done <= 0) abort();
        at += done;
        length -= (size_t)done;
    }
}

static void event(char kind, uint64_t ino, int64_t place, const void *bytes, size_t length) {
    struct {
        int64_t kind, ino, place, length;
    } head = {kind, (int64_t)ino, place, (int64_t)length};
    put_all(&head, sizeof head);
    put_all(bytes, length);
}

static void record_file(int fd) {
    struct stat status;
    if (record_fd < 0 || fstat(fd, &status) < 0) return;
    pthread_mutex_lock(&mutex);
    if (S_ISDIR(status.st_mode)) {
        static char listing[1 << 20];
        size_t used = 0;
        const int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY);
        DIR *directory = copy < 0 ? NULL : fdopendir(copy);
        struct dirent *entry;
        while (directory != NULL && (entry = readdir(directory)) != NULL) {
            if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
            used += (size_t)snprintf(listing + used, sizeof listing - used, "%llu %d %s%c",
                                     (unsigned long long)entry->d_ino, entry->d_type == DT_DIR, entry->d_name, 0);
        }
        if (directory != NULL) closedir(directory);
        event('D', status.st_ino, 0, listing, used);
    } else {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        const int copy = open(link, O_RDONLY); /* the descriptor itself may be for writing only */
        uint8_t *bytes = malloc((size_t)status.st_size + 1);
        if (copy < 0 || bytes == NULL || pread(copy, bytes, (size_t)status.st_size, 0) != status.st_size) abort();
        close(copy);
        event('F', status.st_ino, 0, bytes, (size_t)status.st_size);
        free(bytes);
    }
    pthread_mutex_unlock(&mutex);
}

/* ---- calls ---- */

static void note_map(void *base, size_t size, int fd, int64_t offset) {
    struct stat status;
    if (fstat(fd, &status) < 0) return;
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < MAPS; i++)
        if (maps[i].base == NULL) {
            maps[i].base = base;
            maps[i].size = size;
            maps[i].offset = offset;
            maps[i].ino = status.st_ino;
            break;
        }
    pthread_mutex_unlock(&mutex);
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
    REAL(mmap);
    const int ours = fd >= 0 && (flags & MAP_SHARED) && fd_below(fd);
    if (ours && fails(MMAP)) return MAP_FAILED;
    void *base = real(at, size, protection, flags, fd, offset);
    if (ours && base != MAP_FAILED) note_map(base, size, fd, offset);
    return base;
}

void *mmap64(void *at, size_t size, int protection, int flags, int fd, off64_t offset) {
    return mmap(at, size, protection, flags, fd, offset);
}

int munmap(void *base, size_t size) {
    REAL(munmap);
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < MAPS; i++)
        if (maps[i].base == base) maps[i].base = NULL;
    pthread_mutex_unlock(&mutex);
    return real(base, size);
}

static int find_map(const uint8_t *base) {
    for (int i = 0; i < MAPS; i++)
        if (maps[i].base != NULL && base >= maps[i].base && base < maps[i].base + maps[i].size) return i;
    return -1;
}

int msync(void *base, size_t length, int flags) {
    REAL(msync);
    pthread_mutex_lock(&mutex);
    const int map = find_map(base);
    pthread_mutex_unlock(&mutex);
    if (map < 0) return real(base, length, flags);
    if (fails(MSYNC)) return -1;
    /* What is there now is on disk when the call returns. */
    uint8_t *bytes = malloc(length + 1);
    if (bytes == NULL) abort();
    memcpy(bytes, base, length);
    const int code = real(base, length, flags);
    if (code == 0 && record_fd >= 0) {
        pthread_mutex_lock(&mutex);
        event('M', maps[map].ino, maps[map].offset + ((uint8_t *)base - maps[map].base), bytes, length);
        pthread_mutex_unlock(&mutex);
    }
    free(bytes);
    return code;
}

int fsync(int fd) {
    REAL(fsync);
    const int ours = fd_below(fd);
    if (ours && fails(FSYNC)) return -1;
    const int code = real(fd);
    if (ours && code == 0) record_file(fd);
    return code;
}

static int record_entry(const char *path, const struct stat *status, int type, struct FTW *place) {
    (void)status, (void)type, (void)place;
    const int fd = openat(AT_FDCWD, path, O_RDONLY);
    if (fd < 0) return 0; /* deleted meanwhile */
    record_file(fd);
    close(fd);
    return 0;
}

int syncfs(int fd) {
    REAL(syncfs);
    const int ours = fd_below(fd);
    if (ours && fails(FSYNC)) return -1;
    const int code = real(fd);
    if (ours && code == 0 && record_fd >= 0) nftw(root, record_entry, 16, FTW_PHYS);
    return code;
}

int fdatasync(int fd) {
    REAL(fdatasync);
    const int ours = fd_below(fd);
    if (ours && fails(FSYNC)) return -1;
    const int code = real(fd);
    if (ours && code == 0) record_file(fd);
    return code;
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t place) {
    REAL(pwrite);
    if (fd_below(fd) && fails(PWRITE)) return -1;
    return real(fd, bytes, length, place);
}
ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t place) { return pwrite(fd, bytes, length, place); }

int posix_fallocate(int fd, off_t begin, off_t length) {
    REAL(posix_fallocate);
    if (fd_below(fd) && fails(FALLOCATE)) return errno;
    return real(fd, begin, length);
}
int posix_fallocate64(int fd, off64_t begin, off64_t length) { return posix_fallocate(fd, begin, length); }

int ftruncate(int fd, off_t length) {
    REAL(ftruncate);
    if (fd_below(fd) && fails(FTRUNCATE)) return -1;
    return real(fd, length);
}
int ftruncate64(int fd, off64_t length) { return ftruncate(fd, length); }

int madvise(void *base, size_t length, int advice) {
    REAL(madvise);
    pthread_mutex_lock(&mutex);
    const int map = find_map(base);
    pthread_mutex_unlock(&mutex);
    if (map >= 0 && fails(MADVISE)) return -1;
    return real(base, length, advice);
}

static int open_mode(int flags, va_list more) { return flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, int) : 0; }

int open(const char *path, int flags, ...) {
    REAL(open);
    va_list more;
    va_start(more, flags);
    const int mode = open_mode(flags, more);
    va_end(more);
    if (below(path) && fails(OPEN)) return -1;
    return real(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    REAL(open64);
    va_list more;
    va_start(more, flags);
    const int mode = open_mode(flags, more);
    va_end(more);
    if (below(path) && fails(OPEN)) return -1;
    return real(path, flags, mode);
}

int rename(const char *from, const char *to) {
    REAL(rename);
    if (below(to) && fails(RENAME)) return -1;
    return real(from, to);
}

int unlink(const char *path) {
    REAL(unlink);
    if (below(path) && fails(UNLINK)) return -1;
    return real(path);
}

int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    if (below(path) && fails(MKDIR)) return -1;
    return real(path, mode);
}

/* ---- for ctypes ---- */

/* Only files whose path begins so count from now on; NULL or "": none. All plans are forgotten. */
void shim_watch(const char *path) {
    pthread_mutex_lock(&mutex);
    memset(plan, 0, sizeof plan);
    fired = 0;
    snprintf(root, sizeof root, "%s", path == NULL ? "" : path);
    pthread_mutex_unlock(&mutex);
}

/* The calls number first to last of a kind fail with `error` (first 0: none); answers -1 for an unknown name. */
int shim_fail(const char *name, long first, long last, int error) {
    for (int kind = 0; kind < KINDS; kind++)
        if (strcmp(names[kind], name) == 0) {
            pthread_mutex_lock(&mutex);
            plan[kind].first = first;
            plan[kind].last = last;
            plan[kind].error = error;
            pthread_mutex_unlock(&mutex);
            return 0;
        }
    return -1;
}

long shim_fired(void) { return __atomic_load_n(&fired, __ATOMIC_RELAXED); }

long shim_calls(const char *name) {
    for (int kind = 0; kind < KINDS; kind++)
        if (strcmp(names[kind], name) == 0) return plan[kind].calls;
    return -1;
}

/* Records what reaches the disk into this descriptor; -1 ends it. */
void shim_record(int fd) { record_fd = fd; }

/* A note of the test's among the events. */
void shim_note(char kind, uint64_t ino, const void *bytes, size_t length) {
    pthread_mutex_lock(&mutex);
    if (record_fd >= 0) event(kind, ino, 0, bytes, length);
    pthread_mutex_unlock(&mutex);
}
