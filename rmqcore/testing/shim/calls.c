/* Preloaded into a process: makes the n-th call of a kind fail, and has record.c record what changes files.
 *
 * Only calls on files below a given directory count. The interface at the end is for ctypes (rmqcore/testing/fault_shim.py).
 */
#define _GNU_SOURCE
#include "record.h"

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
#include <sys/uio.h>
#include <unistd.h>

enum {
    K_any,
    K_msync,
    K_fsync,
    K_pwrite,
    K_write,
    K_fallocate,
    K_ftruncate,
    K_mmap,
    K_madvise,
    K_open,
    K_rename,
    K_unlink,
    K_mkdir,
    K_rmdir,
    K_lock,
    K_pread,
    K_read,
    K_stat,
    K_opendir,
    COUNT
};
static const char *const names[COUNT] = {"any",  "msync",   "fsync", "pwrite", "write",  "fallocate", "ftruncate",
                                         "mmap", "madvise", "open",  "rename", "unlink", "mkdir",     "rmdir",
                                         "lock", "pread",   "read",  "stat",   "opendir"};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char root[4096];
static struct {
    long calls, first, last; /* calls so far; which of them fail, counted from 1 */
    int error;
} plan[COUNT];
static long fired;
static char fired_name[16];

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

/* Reads the path of a descriptor; returns 0 if it has none. */
static int path_of(int fd, char path[4096]) {
    char link[64];
    const int saved = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, 4095);
    errno = saved;
    path[length < 0 ? 0 : length] = 0;
    return length > 0;
}

static int fd_below(int fd) {
    char path[4096];
    return root[0] != 0 && path_of(fd, path) && below(path);
}

/* The place that a name relative to a directory's descriptor stands for. */
static const char *place_of(int folder, const char *name, char path[8192]) {
    if (folder == AT_FDCWD || name[0] == '/' || !path_of(folder, path)) return name;
    strncat(path, "/", 2);
    return strncat(path, name, 4000);
}

/* Counts a call; answers whether it has to fail (errno is set). */
static int fails(int kind) {
    const int both[] = {K_any, kind};
    int error = 0;
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < 2; i++) {
        const long call = ++plan[both[i]].calls;
        if (plan[both[i]].first > 0 && call >= plan[both[i]].first && call <= plan[both[i]].last)
            error = plan[both[i]].error;
    }
    if (error) {
        fired++;
        snprintf(fired_name, sizeof fired_name, "%s", names[kind]);
    }
    pthread_mutex_unlock(&mutex);
    if (error) errno = error;
    return error != 0;
}

/* ---- calls that change files ---- */

enum { MAPS = 4096 };
static struct {
    uint8_t *base;
    size_t size;
    int64_t offset;
    uint64_t ino;
} maps[MAPS];

/* Before a call: locks the mutex during a recording, so that no other call gets between this call and its event. */
static int begin(int ours) {
    if (!ours || record_fd < 0) return 0;
    pthread_mutex_lock(&mutex);
    record_what_is_mapped();
    return 1;
}

static void end(int recorded) {
    if (recorded) pthread_mutex_unlock(&mutex);
}

static void note_map(void *base, size_t size, int fd, int64_t offset) {
    struct stat status;
    if (plain_fstat(fd, &status) < 0) return;
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < MAPS; i++)
        if (maps[i].base == NULL) {
            maps[i].base = base;
            maps[i].size = size;
            maps[i].offset = offset;
            maps[i].ino = status.st_ino;
            record_mapped(fd);
            break;
        }
    pthread_mutex_unlock(&mutex);
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
    REAL(mmap);
    const int ours = fd >= 0 && (flags & MAP_SHARED) && fd_below(fd);
    if (ours && fails(K_mmap)) return MAP_FAILED;
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
        if (maps[i].base != NULL && maps[i].base == base) {
            maps[i].base = NULL;
            record_unmapped(maps[i].ino);
        }
    pthread_mutex_unlock(&mutex);
    return real(base, size);
}

static int find_map(const uint8_t *base) {
    for (int i = 0; i < MAPS; i++)
        if (maps[i].base != NULL && base >= maps[i].base && base < maps[i].base + maps[i].size) return i;
    return -1;
}

static int synced(int code, int64_t number) {
    if (number == 0 || code != 0) return code;
    pthread_mutex_lock(&mutex);
    if (record_fd >= 0) record_event('E', 0, number, NULL, 0);
    pthread_mutex_unlock(&mutex);
    return code;
}

int msync(void *base, size_t length, int flags) {
    REAL(msync);
    pthread_mutex_lock(&mutex);
    const int map = find_map(base);
    pthread_mutex_unlock(&mutex);
    if (map < 0) return real(base, length, flags);
    if (fails(K_msync)) return -1;
    int64_t number = 0;
    const int recorded = begin(1);
    if (recorded) {
        const int64_t range[2] = {maps[map].offset + ((uint8_t *)base - maps[map].base), (int64_t)length};
        number = record_new_sync();
        record_event('M', maps[map].ino, number, range, sizeof range);
    }
    end(recorded);
    return synced(real(base, length, flags), number);
}

static int64_t sync_number(int fd) {
    int64_t number = 0;
    const int recorded = begin(1);
    if (recorded) record_sync_of(fd, number = record_new_sync());
    end(recorded);
    return number;
}

int fsync(int fd) {
    REAL(fsync);
    if (!fd_below(fd)) return real(fd);
    if (fails(K_fsync)) return -1;
    const int64_t number = sync_number(fd);
    return synced(real(fd), number);
}

int fdatasync(int fd) {
    REAL(fdatasync);
    if (!fd_below(fd)) return real(fd);
    if (fails(K_fsync)) return -1;
    const int64_t number = sync_number(fd);
    return synced(real(fd), number);
}

static int64_t all_number; /* of the syncfs that begins */

static int sync_entry(const char *path, const struct stat *status, int type, struct FTW *place) {
    REAL(open);
    (void)status, (void)type, (void)place;
    const int fd = real(path, O_RDONLY);
    if (fd < 0) return 0; /* the file has been deleted */
    record_sync_of(fd, all_number);
    close(fd);
    return 0;
}

int syncfs(int fd) {
    REAL(syncfs);
    if (!fd_below(fd)) return real(fd);
    if (fails(K_fsync)) return -1;
    int64_t number = 0;
    const int recorded = begin(1);
    if (recorded) {
        number = all_number = record_new_sync();
        nftw(root, sync_entry, 16, FTW_PHYS);
    }
    end(recorded);
    return synced(real(fd), number);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t place) {
    REAL(pwrite);
    const int ours = fd_below(fd);
    if (ours && fails(K_pwrite)) return -1;
    const int recorded = begin(ours);
    const ssize_t done = real(fd, bytes, length, place);
    if (recorded && done > 0) record_wrote(fd, bytes, (size_t)done, place);
    end(recorded);
    return done;
}
ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t place) { return pwrite(fd, bytes, length, place); }

ssize_t write(int fd, const void *bytes, size_t length) {
    REAL(write);
    const int ours = fd_below(fd);
    if (ours && fails(K_write)) return -1;
    const int recorded = begin(ours);
    const ssize_t done = real(fd, bytes, length);
    if (recorded && done > 0) record_wrote(fd, bytes, (size_t)done, lseek(fd, 0, SEEK_CUR) - done);
    end(recorded);
    return done;
}

int posix_fallocate(int fd, off_t first, off_t length) {
    REAL(posix_fallocate);
    const int ours = fd_below(fd);
    if (ours && fails(K_fallocate)) return errno;
    const int recorded = begin(ours);
    const int code = real(fd, first, length);
    if (recorded) record_resized(fd);
    end(recorded);
    return code;
}
int posix_fallocate64(int fd, off64_t first, off64_t length) { return posix_fallocate(fd, first, length); }

int ftruncate(int fd, off_t length) {
    REAL(ftruncate);
    const int ours = fd_below(fd);
    if (ours && fails(K_ftruncate)) return -1;
    const int recorded = begin(ours);
    const int code = real(fd, length);
    if (recorded) record_resized(fd);
    end(recorded);
    return code;
}
int ftruncate64(int fd, off64_t length) { return ftruncate(fd, length); }

static int opened(int folder, const char *name, int flags, va_list more) {
    REAL(openat);
    struct stat status;
    char whole[8192];
    const int mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, int) : 0;
    const char *path = place_of(folder, name, whole);
    if (!below(path)) return real(folder, name, flags, mode);
    if (fails(K_open)) return -1;
    const int recorded = begin(flags & (O_CREAT | O_TRUNC));
    const int is_new = recorded && plain_lstat(path, &status) < 0;
    const int fd = real(folder, name, flags, mode);
    if (recorded && fd >= 0 && is_new) record_name('C', path, 0);
    else if (recorded && fd >= 0) record_resized(fd);
    end(recorded);
    return fd;
}

#define OPEN(folder)                                  \
    va_list more;                                     \
    va_start(more, flags);                            \
    const int fd = opened(folder, path, flags, more); \
    return va_end(more), fd
int open(const char *path, int flags, ...) { OPEN(AT_FDCWD); }
int open64(const char *path, int flags, ...) { OPEN(AT_FDCWD); }
int openat(int folder, const char *path, int flags, ...) { OPEN(folder); }
int openat64(int folder, const char *path, int flags, ...) { OPEN(folder); }

int renameat(int source, const char *old, int target, const char *new) {
    REAL(renameat);
    char old_path[8192], new_path[8192];
    const char *from = place_of(source, old, old_path), *to = place_of(target, new, new_path);
    if (!below(to)) return real(source, old, target, new);
    if (fails(K_rename)) return -1;
    const int recorded = begin(1);
    const int code = real(source, old, target, new);
    if (recorded && code == 0) record_rename(from, to);
    end(recorded);
    return code;
}
int rename(const char *from, const char *to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }

int unlinkat(int folder, const char *name, int flags) {
    REAL(unlinkat);
    char path[8192];
    const char *place = place_of(folder, name, path);
    if (!below(place)) return real(folder, name, flags);
    if (fails(flags & AT_REMOVEDIR ? K_rmdir : K_unlink)) return -1;
    const int recorded = begin(1);
    const int code = real(folder, name, flags);
    if (recorded && code == 0) record_name('U', place, (flags & AT_REMOVEDIR) != 0);
    end(recorded);
    return code;
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdirat(int folder, const char *name, mode_t mode) {
    REAL(mkdirat);
    char whole[8192];
    const char *path = place_of(folder, name, whole);
    if (!below(path)) return real(folder, name, mode);
    if (fails(K_mkdir)) return -1;
    const int recorded = begin(1);
    const int code = real(folder, name, mode);
    if (recorded && code == 0) record_name('C', path, 1);
    end(recorded);
    return code;
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

/* ---- calls that only look: they can fail ---- */

int madvise(void *base, size_t length, int advice) {
    REAL(madvise);
    pthread_mutex_lock(&mutex);
    const int map = find_map(base);
    pthread_mutex_unlock(&mutex);
    return map >= 0 && fails(K_madvise) ? -1 : real(base, length, advice);
}

ssize_t pread(int fd, void *bytes, size_t length, off_t place) {
    REAL(pread);
    return fd_below(fd) && fails(K_pread) ? -1 : real(fd, bytes, length, place);
}
ssize_t pread64(int fd, void *bytes, size_t length, off64_t place) { return pread(fd, bytes, length, place); }

ssize_t preadv2(int fd, const struct iovec *parts, int count, off_t place, int flags) {
    REAL(preadv2);
    return fd_below(fd) && fails(K_pread) ? -1 : real(fd, parts, count, place, flags);
}
ssize_t preadv64v2(int fd, const struct iovec *parts, int count, off64_t place, int flags) {
    return preadv2(fd, parts, count, place, flags);
}

ssize_t read(int fd, void *bytes, size_t length) {
    REAL(read);
    return fd_below(fd) && fails(K_read) ? -1 : real(fd, bytes, length);
}

#define STAT(name, type)                                               \
    int name(const char *path, struct type *status) {                  \
        REAL(name);                                                    \
        return below(path) && fails(K_stat) ? -1 : real(path, status); \
    }
STAT(stat, stat)
STAT(stat64, stat64)
STAT(lstat, stat)
STAT(lstat64, stat64)

int fstat(int fd, struct stat *status) { return fd_below(fd) && fails(K_stat) ? -1 : plain_fstat(fd, status); }
int fstat64(int fd, struct stat64 *status) {
    REAL(fstat64);
    return fd_below(fd) && fails(K_stat) ? -1 : real(fd, status);
}

DIR *opendir(const char *path) {
    REAL(opendir);
    return below(path) && fails(K_opendir) ? NULL : real(path);
}

static int locked(int fd, int command, va_list more) {
    REAL(fcntl);
    void *argument = va_arg(more, void *); /* an int comes in the same register */
    const int locks = command == F_SETLK || command == F_OFD_SETLK;
    return locks && fd_below(fd) && fails(K_lock) ? -1 : real(fd, command, argument);
}
int fcntl(int fd, int command, ...) {
    va_list more;
    va_start(more, command);
    const int code = locked(fd, command, more);
    va_end(more);
    return code;
}
int fcntl64(int fd, int command, ...) {
    va_list more;
    va_start(more, command);
    const int code = locked(fd, command, more);
    va_end(more);
    return code;
}

/* ---- for ctypes ---- */

/* Only files whose path begins so count from now on; with NULL or "" no file counts. All plans are forgotten. */
void shim_watch(const char *path) {
    pthread_mutex_lock(&mutex);
    memset(plan, 0, sizeof plan);
    fired = 0;
    fired_name[0] = 0;
    snprintf(root, sizeof root, "%s", path == NULL ? "" : path);
    pthread_mutex_unlock(&mutex);
}

static int kind_of(const char *name) {
    for (int kind = 0; kind < COUNT; kind++)
        if (strcmp(names[kind], name) == 0) return kind;
    return -1;
}

/* The calls number first to last of a kind fail with `error` (first 0: no call fails); answers -1 for an unknown name. */
int shim_fail(const char *name, long first, long last, int error) {
    const int kind = kind_of(name);
    if (kind < 0) return -1;
    pthread_mutex_lock(&mutex);
    plan[kind].first = first;
    plan[kind].last = last;
    plan[kind].error = error;
    pthread_mutex_unlock(&mutex);
    return 0;
}

long shim_fired(void) { return __atomic_load_n(&fired, __ATOMIC_RELAXED); }

/* The kind of the last call that failed. */
const char *shim_fired_name(void) { return fired_name; }

long shim_calls(const char *name) {
    const int kind = kind_of(name);
    return kind < 0 ? -1 : plan[kind].calls;
}

/* Records into this descriptor; -1 ends it. */
void shim_record(int fd) {
    pthread_mutex_lock(&mutex);
    record_fd = fd;
    pthread_mutex_unlock(&mutex);
}

/* A note of the caller's among the events. */
void shim_note(char kind, const void *bytes, size_t length) {
    const int recorded = begin(1);
    if (recorded) record_event(kind, 0, 0, bytes, length);
    end(recorded);
}
