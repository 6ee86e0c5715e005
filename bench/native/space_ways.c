/* Ways to give a log its pages: records are copied into mapped files, one file after the other, while a second thread makes
 * room ahead and a third one syncs what was written. Each call is timed.
 *
 * space_ways WAY DIR BYTES FILE_SIZE BYTES_PER_SECOND (0: as fast as it goes)
 *
 * Prints: way, seconds, bytes, calls, then of a call the median, p99.9, p99.99 and worst (ns), the number and the sum (ns) of
 * calls above 1 ms, then user and system seconds of the writer, of the thread that works ahead, and of the one that syncs. The
 * files are deleted when all is written: memory of an early one would be given to a late one. */
#define _GNU_SOURCE /* RUSAGE_THREAD */
#include "call_times.h"
#include "files/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    RECORD = 1153, /* 1 KiB of body, tags and keys */
    CHUNK = 1 << 16,
    MOST_FILES = 64,
    CALLER_AHEAD = 1 << 20, /* as rmqcore/engine/log/log_space.py has it; blocks and pages ahead too */
    BLOCKS_STEP = 64 << 20,
    PAGES_STEP = 2 << 20,
    PAGES_AHEAD = 64 << 20,
    SYNC_MS = 500, /* as flushIntervalCommitLog */
    SLEEP_NS = 200000, /* a call that is due later than that is slept for, in part */
};

typedef struct way {
    const char *name;
    int mapped; /* else 64 KiB at a time by write */
    int zeros; /* pages come by pwrites of zeros; the writer stays below them */
    int populate; /* pages are made writable ahead */
    int at_random; /* faults bring single pages, not large folios */
    int forget; /* the sync takes the pages out of the page table first */
    int synced;
} way;

static const way ways[] = {
    {.name = "populate", .mapped = 1, .populate = 1, .synced = 1},
    {.name = "zeros", .mapped = 1, .zeros = 1, .synced = 1},
    {.name = "zeros+populate", .mapped = 1, .zeros = 1, .populate = 1, .synced = 1},
    {.name = "zeros+populate+forget", .mapped = 1, .zeros = 1, .populate = 1, .forget = 1, .synced = 1},
    {.name = "populate+forget", .mapped = 1, .populate = 1, .forget = 1, .synced = 1},
    {.name = "random", .mapped = 1, .at_random = 1, .synced = 1},
    {.name = "random+populate", .mapped = 1, .at_random = 1, .populate = 1, .synced = 1},
    {.name = "writes", .mapped = 0},
    {.name = "writes+sync", .mapped = 0, .synced = 1},
};

typedef struct cpu {
    double user, system;
} cpu;

static const way *chosen;
static const char *folder;
static int64_t total, file_size;
static uint8_t *bases[MOST_FILES];
static int fds[MOST_FILES];
static int files; /* that exist; under room_lock */
static int64_t blocks, pages; /* log offsets up to which they are there; under room_lock */
static _Atomic int64_t ready, wrote,
    alarm_at; /* the writer may store below ready; it rings once it is behind alarm_at */
static _Atomic int stopping;
static pthread_mutex_t room_lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t bell;
static call_times times;
static cpu ahead_cpu, sync_cpu;

static void check(int code, const char *what) {
    if (code == 0) return;
    fprintf(stderr, "space_ways: %s: %s\n", what, strerror(-code));
    exit(1);
}

static void file_path(char *path, size_t size, int number) { snprintf(path, size, "%s/%020d", folder, number); }

static cpu thread_cpu(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return (cpu){(double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec * 1e-6,
                 (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec * 1e-6};
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t end_of_file(int64_t at) { return (at / file_size + 1) * file_size; }

/* ---- room; the caller holds room_lock */

static void make_file(void) {
    char path[4096];
    if (files == MOST_FILES) check(-EFBIG, "files");
    file_path(path, sizeof path, files);
    fds[files] = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fds[files] < 0) check(-errno, path);
    if (chosen->mapped) {
        int64_t found;
        if (ftruncate(fds[files], file_size) < 0 || fsync(fds[files]) < 0) check(-errno, path);
        close(fds[files]);
        check(rmq_map_file(path, (size_t)file_size, 1, &bases[files], &fds[files], &found), path);
        if (chosen->at_random) rmq_read_at_random(bases[files], (size_t)file_size);
    }
    files++;
}

static void give_blocks(int64_t end) {
    while (blocks < end) {
        const int64_t number = blocks / file_size, start = number * file_size;
        const int64_t to = least(least(end, blocks + BLOCKS_STEP), start + file_size);
        while (files <= number) make_file();
        check(rmq_allocate(fds[number], blocks - start, to - start), "allocate");
        blocks = to;
    }
    if (!chosen->zeros) atomic_store(&ready, blocks);
}

static void populate(int64_t begin, int64_t end) {
    const int64_t number = begin / file_size, start = number * file_size;
    check(rmq_populate(bases[number], (size_t)(begin - start), (size_t)(end - start)), "populate");
}

/* Pages of one file, below `blocks`. */
static void give_zeros(int64_t begin, int64_t end) {
    const int64_t number = begin / file_size, start = number * file_size;
    check(rmq_write_zeros(fds[number], begin - start, end - start), "zeros");
    if (chosen->populate) populate(begin, end);
    pages = end;
    atomic_store(&ready, end);
}

/* What a put does that finds no room. */
static void make_room(int64_t end) {
    pthread_mutex_lock(&room_lock);
    if (atomic_load(&ready) < end) {
        const int64_t to = least(end + CALLER_AHEAD, end_of_file(end - 1));
        const int64_t from = chosen->zeros ? pages : blocks;
        give_blocks(to);
        for (int64_t at = from; at < to;) {
            const int64_t next = least(to, end_of_file(at));
            if (chosen->zeros) give_zeros(at, next);
            else if (chosen->populate) populate(at, next);
            at = next;
        }
    }
    pthread_mutex_unlock(&room_lock);
}

/* ---- the threads beside the writer */

/* One step; answers whether there was one. */
static int step_ahead(void) {
    pthread_mutex_lock(&room_lock);
    const int64_t at = atomic_load(&wrote), near = least(at + PAGES_AHEAD, total);
    const int64_t far = least(end_of_file(at) + file_size, (total + file_size - 1) / file_size * file_size);
    atomic_store(&alarm_at, at + PAGES_AHEAD / 2);
    int64_t begin = pages > at ? pages : at;
    if (chosen->zeros) begin = pages;
    const int64_t end = least(least(near, blocks), least(begin + PAGES_STEP, end_of_file(begin)));
    const int wants_pages = (chosen->zeros || chosen->populate) && end > begin;
    const int64_t more_blocks = least(far, blocks + BLOCKS_STEP);
    int did = 1;
    if (blocks < near || (!wants_pages && blocks < more_blocks)) {
        give_blocks(more_blocks);
        pthread_mutex_unlock(&room_lock);
    } else if (wants_pages && chosen->zeros) {
        give_zeros(begin, end); /* under the lock: zeros behind the writer would be the end of its records */
        pthread_mutex_unlock(&room_lock);
    } else if (wants_pages) {
        pages = end;
        pthread_mutex_unlock(&room_lock);
        populate(begin, end);
    } else {
        did = 0;
        pthread_mutex_unlock(&room_lock);
    }
    return did;
}

static void *work_ahead(void *unused) {
    (void)unused;
    while (!atomic_load(&stopping))
        if (!step_ahead()) sem_wait(&bell);
    ahead_cpu = thread_cpu();
    return NULL;
}

static void *sync_behind(void *unused) {
    (void)unused;
    int64_t flushed = 0;
    while (!atomic_load(&stopping)) {
        for (int waited = 0; waited < SYNC_MS && !atomic_load(&stopping); waited += 10) usleep(10000);
        const int64_t end = atomic_load(&wrote);
        while (flushed < end) {
            const int64_t number = flushed / file_size, start = number * file_size;
            const int64_t to = least(end, start + file_size);
            if (chosen->forget) rmq_forget_pages(bases[number], (size_t)(flushed - start), (size_t)(to - start));
            if (chosen->mapped)
                check(rmq_flush(bases[number], (size_t)(flushed - start), (size_t)(to - start)), "flush");
            else if (fdatasync(fds[number]) < 0) check(-errno, "fdatasync");
            flushed = to;
        }
    }
    sync_cpu = thread_cpu();
    return NULL;
}

/* ---- the writer */

static void write_all(int fd, const uint8_t *from, size_t size) {
    while (size > 0) {
        const ssize_t done = write(fd, from, size);
        if (done < 0 && errno != EINTR) check(-errno, "write");
        if (done > 0) from += done, size -= (size_t)done;
    }
}

/* One record, or one chunk; answers the log offset behind it. A file that has no room for it is closed. */
static int64_t put(int64_t at, const uint8_t *bytes, int64_t size) {
    if (at + size > end_of_file(at)) at = end_of_file(at);
    const int64_t number = at / file_size;
    if (chosen->mapped) {
        if (at + size > atomic_load_explicit(&ready, memory_order_acquire)) make_room(at + size);
        memcpy(bases[number] + (at - number * file_size), bytes, (size_t)size);
    } else {
        if (number == files) make_file();
        write_all(fds[number], bytes, (size_t)size);
    }
    atomic_store_explicit(&wrote, at + size, memory_order_release);
    if (at + size >= atomic_load_explicit(&alarm_at, memory_order_relaxed)) {
        atomic_store_explicit(&alarm_at, INT64_MAX, memory_order_relaxed);
        sem_post(&bell);
    }
    return at + size;
}

static double write_log(int64_t per_second) {
    static uint8_t bytes[CHUNK];
    const int64_t size = chosen->mapped ? RECORD : CHUNK;
    memset(bytes, 'x', sizeof bytes);
    const uint64_t began = now_ns();
    uint64_t before = began;
    int64_t done = 0;
    for (int64_t at = 0; at + size <= total; done += size) {
        if (per_second > 0) {
            const uint64_t due = began + (uint64_t)((double)done * 1e9 / (double)per_second);
            while ((before = now_ns()) < due)
                if (due - before > SLEEP_NS) usleep(SLEEP_NS / 2000);
        }
        at = put(at, bytes, size);
        const uint64_t after = now_ns();
        note_call(&times, after - before);
        before = after;
    }
    return (double)(before - began) * 1e-9;
}

static void delete_files(void) {
    char path[4096];
    for (int i = 0; i < files; i++) {
        if (chosen->mapped) rmq_unmap(bases[i], (size_t)file_size);
        close(fds[i]);
        file_path(path, sizeof path, i);
        unlink(path);
    }
}

int main(int argc, char **argv) {
    if (argc != 6) return fprintf(stderr, "space_ways WAY DIR BYTES FILE_SIZE BYTES_PER_SECOND\n"), 64;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        if (strcmp(ways[i].name, argv[1]) == 0) chosen = &ways[i];
    folder = argv[2];
    total = atoll(argv[3]);
    file_size = atoll(argv[4]);
    if (chosen == NULL || total < CHUNK || file_size < BLOCKS_STEP) return 64;
    pthread_t ahead, sync;
    sem_init(&bell, 0, 0);
    atomic_store(&alarm_at, INT64_MAX);
    if (chosen->mapped) {
        make_room(RECORD); /* an open makes the first file, no put does */
        pthread_create(&ahead, NULL, work_ahead, NULL);
    }
    if (chosen->synced) pthread_create(&sync, NULL, sync_behind, NULL);
    const double seconds = write_log(atoll(argv[5]));
    const cpu own = thread_cpu();
    atomic_store(&stopping, 1);
    sem_post(&bell);
    if (chosen->mapped) pthread_join(ahead, NULL);
    if (chosen->synced) pthread_join(sync, NULL);
    delete_files();
    printf("%s %.6f %lld %llu %llu %llu %llu %llu %llu %llu %.3f %.3f %.3f %.3f %.3f %.3f\n", chosen->name, seconds,
           (long long)atomic_load(&wrote), (unsigned long long)times.calls,
           (unsigned long long)call_percentile(&times, 0.5), (unsigned long long)call_percentile(&times, 0.999),
           (unsigned long long)call_percentile(&times, 0.9999), (unsigned long long)times.worst,
           (unsigned long long)times.stalls, (unsigned long long)times.stalled_ns, own.user, own.system, ahead_cpu.user,
           ahead_cpu.system, sync_cpu.user, sync_cpu.system);
    return 0;
}
