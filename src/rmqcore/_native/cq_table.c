/* preadv2, fdatasync and syncfs */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "cq_table.h"
#include "cq.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

enum {
    UNIT = RMQ_CQ_STORE_UNIT_SIZE,
    PAGE = 4096, /* of Java's flush rule, whatever the machine has */
    CHUNK = 256, /* queues that are allocated together */
    CHUNKS = 1 << 16,
    PATH_ROOM = 4096 + 512,
    FILLER_BLOCK = 512,
    FLUSH_AT_ONCE = 256, /* queues */
};

typedef struct slot {
    uint64_t key; /* topic and queue id */
    rmq_cq *queue;
} slot;

struct rmq_cq_table {
    char *root;
    int64_t file_size, most_queue_offset;
    rmq_cq **chunks; /* CHUNKS of them, so that neither they nor the queues ever move */
    int32_t count;
    slot *slots;
    uint32_t mask; /* slots - 1; at most half of them are used */
    char **topics;
    int32_t topic_count, topic_room;
    uint64_t batch;
    rmq_cq **row_queues; /* of the rows of a batch; NULL: no entry */
    int64_t row_room;
    rmq_cq **touched;
    int64_t touched_count, touched_room;
    uint8_t *arena; /* entries of a batch, queue after queue */
    int64_t arena_room;
    rmq_cq_counts counts;
    rmq_cq_fds fds;
    char put_failed[PATH_ROOM], flush_failed[PATH_ROOM];
};

/* ---- queues and topics ------------------------------------------------------------------------- */

rmq_cq_table *rmq_cq_table_new(const char *root, int64_t file_size, int32_t open_files) {
    rmq_cq_table *t = calloc(1, sizeof *t);
    if (t == NULL) return NULL;
    t->file_size = file_size;
    t->most_queue_offset = (INT64_MAX - 2 * file_size) / UNIT;
    t->mask = 255;
    t->root = strdup(root);
    t->chunks = calloc(CHUNKS, sizeof *t->chunks);
    t->slots = calloc(t->mask + 1, sizeof *t->slots);
    if (t->root && t->chunks && t->slots && rmq_cq_fds_init(&t->fds, open_files) == 0) return t;
    rmq_cq_table_free(t);
    return NULL;
}

void rmq_cq_table_free(rmq_cq_table *t) {
    if (t == NULL) return;
    rmq_cq_fds_free(&t->fds);
    for (int32_t i = 0; i < t->topic_count; i++) free(t->topics[i]);
    for (int32_t i = 0; t->chunks && i < CHUNKS && t->chunks[i]; i++) free(t->chunks[i]);
    free(t->topics);
    free(t->chunks);
    free(t->slots);
    free(t->row_queues);
    free(t->touched);
    free(t->arena);
    free(t->root);
    free(t);
}

/* Room for `wanted` items of `size` bytes, at least doubled. 0, or -1 without memory. */
static int make_room(void **items, int64_t *room, int64_t wanted, size_t size) {
    if (wanted <= *room) return 0;
    const int64_t more = wanted > 2 * *room ? wanted : 2 * *room;
    void *grown = realloc(*items, (size_t)more * size);
    if (grown == NULL) return -1;
    *items = grown;
    *room = more;
    return 0;
}

int32_t rmq_cq_topic_add(rmq_cq_table *t, const char *name) {
    int64_t room = t->topic_room;
    void *items = t->topics;
    if (t->topic_count == INT32_MAX || make_room(&items, &room, t->topic_count + 1, sizeof *t->topics)) return -1;
    t->topics = items;
    t->topic_room = room > INT32_MAX ? INT32_MAX : (int32_t)room;
    t->topics[t->topic_count] = strdup(name);
    return t->topics[t->topic_count] ? t->topic_count++ : -1;
}

static inline uint64_t key_of(int32_t topic, int32_t queue_id) {
    return (uint64_t)(uint32_t)topic << 32 | (uint32_t)queue_id;
}

static inline uint32_t slot_of(const rmq_cq_table *t, uint64_t key) {
    return (uint32_t)(key * UINT64_C(0x9E3779B97F4A7C15) >> 32) & t->mask;
}

static inline slot *find_slot(const rmq_cq_table *t, uint64_t key) {
    uint32_t at = slot_of(t, key);
    while (t->slots[at].queue && t->slots[at].key != key) at = (at + 1) & t->mask;
    return &t->slots[at];
}

rmq_cq *rmq_cq_find(rmq_cq_table *t, int32_t topic, int32_t queue_id) {
    return find_slot(t, key_of(topic, queue_id))->queue;
}

static int grow_slots(rmq_cq_table *t) {
    if (t->mask >= 1U << 30) return -1;
    slot *old = t->slots;
    const uint32_t old_mask = t->mask;
    slot *slots = calloc((size_t)old_mask * 2 + 2, sizeof *slots);
    if (slots == NULL) return -1;
    t->slots = slots;
    t->mask = old_mask * 2 + 1;
    for (uint32_t i = 0; i <= old_mask; i++) {
        if (old[i].queue) *find_slot(t, old[i].key) = old[i];
    }
    free(old);
    return 0;
}

rmq_cq *rmq_cq_find_or_add(rmq_cq_table *t, int32_t topic, int32_t queue_id) {
    const uint64_t key = key_of(topic, queue_id);
    slot *found = find_slot(t, key);
    if (found->queue) return found->queue;
    if (t->count == CHUNK * CHUNKS) return NULL;
    if ((uint32_t)t->count >= t->mask / 2) {
        if (grow_slots(t)) return NULL;
        found = find_slot(t, key);
    }
    rmq_cq **chunk = &t->chunks[t->count / CHUNK];
    if (*chunk == NULL) {
        rmq_cq *made = calloc(CHUNK, sizeof *made);
        if (made == NULL) return NULL;
        __atomic_store_n(chunk, made, __ATOMIC_RELEASE);
    }
    rmq_cq *queue = *chunk + t->count % CHUNK;
    queue->topic = topic;
    queue->queue_id = queue_id;
    queue->first_file = queue->last_file = queue->max_phy = -1;
    for (int k = 0; k < RMQ_CQ_OPEN_FILES; k++) queue->open.places[k] = -1;
    found->key = key;
    found->queue = queue;
    __atomic_store_n(&t->count, t->count + 1, __ATOMIC_RELEASE);
    return queue;
}

int32_t rmq_cq_count(const rmq_cq_table *t) { return __atomic_load_n(&t->count, __ATOMIC_ACQUIRE); }

rmq_cq *rmq_cq_at(const rmq_cq_table *t, int32_t number) {
    return __atomic_load_n(&t->chunks[number / CHUNK], __ATOMIC_ACQUIRE) + number % CHUNK;
}

rmq_cq_counts rmq_cq_counted(const rmq_cq_table *t) { return t->counts; }
const char *rmq_cq_put_failed_path(const rmq_cq_table *t) { return t->put_failed; }
const char *rmq_cq_flush_failed_path(const rmq_cq_table *t) { return t->flush_failed; }

int32_t rmq_cq_open_count(rmq_cq_table *t) {
    pthread_mutex_lock(&t->fds.lock);
    const int32_t count = t->fds.open_count;
    pthread_mutex_unlock(&t->fds.lock);
    return count;
}

static inline void publish(int64_t *field, int64_t value) { __atomic_store_n(field, value, __ATOMIC_RELEASE); }

void rmq_cq_set(rmq_cq_table *t, rmq_cq *q, int64_t first_file, int64_t last_file, int64_t end, int64_t max_phy) {
    publish(&q->end, end);
    publish(&q->first_file, first_file);
    publish(&q->last_file, last_file);
    publish(&q->max_phy, max_phy);
    /* What a process that died has written may not be on disk: the file that was written last is synced once more. */
    q->flushed = last_file < 0 ? 0 : last_file;
    if (last_file < 0) __atomic_store_n(&q->new_names, 0, __ATOMIC_RELEASE); /* its directory may be gone too */
    rmq_cq_fds_forget(&t->fds, &q->open, last_file + 1, INT64_MAX);
}

void rmq_cq_set_min(rmq_cq *q, int64_t min) { publish(&q->min, min); }

void rmq_cq_set_first_file(rmq_cq_table *t, rmq_cq *q, int64_t first_file) {
    publish(&q->first_file, first_file);
    rmq_cq_fds_forget(&t->fds, &q->open, 0, first_file);
}

void rmq_cq_close(rmq_cq_table *t, rmq_cq *q) { rmq_cq_fds_forget(&t->fds, &q->open, 0, INT64_MAX); }

/* ---- files ------------------------------------------------------------------------------------- */

/* The path of a file (>= 0), or of a directory: -1 the queue's, -2 the topic's, -3 the root. 0 or -ENAMETOOLONG. */
static int make_path(const rmq_cq_table *t, const rmq_cq *q, int64_t file, char *out) {
    const char *topic = t->topics[q->topic];
    int n;
    if (file >= 0) n = snprintf(out, PATH_ROOM, "%s/%s/%d/%020lld", t->root, topic, q->queue_id, (long long)file);
    else if (file == -1) n = snprintf(out, PATH_ROOM, "%s/%s/%d", t->root, topic, q->queue_id);
    else if (file == -2) n = snprintf(out, PATH_ROOM, "%s/%s", t->root, topic);
    else n = snprintf(out, PATH_ROOM, "%s", t->root);
    return n < 0 || n >= PATH_ROOM ? -ENAMETOOLONG : 0;
}

static int retry_open(const char *path, int flags) {
    int fd;
    do fd = open(path, flags | O_CLOEXEC, 0644);
    while (fd < 0 && errno == EINTR);
    return fd < 0 ? -errno : fd;
}

/* Makes the missing directories above a queue's files; the flags of those that are new go to *made. */
static int make_directories(const rmq_cq_table *t, const rmq_cq *q, uint32_t *made) {
    static const uint32_t flags[] = {RMQ_CQ_NEW_ROOT, RMQ_CQ_NEW_TOPIC, RMQ_CQ_NEW_QUEUE};
    char path[PATH_ROOM];
    for (int level = 0; level < 3; level++) {
        const int code = make_path(t, q, level - 3, path);
        if (code < 0) return code;
        if (mkdir(path, 0755) == 0) *made |= flags[level];
        else if (errno != EEXIST) return -errno;
    }
    return 0;
}

/* Opens a file of the queue for writing, pinned; a new one is created with its full size, sparse. */
static int open_to_write(rmq_cq_table *t, rmq_cq *q, int64_t file, int create, const char *path, int32_t *place) {
    if (!create) {
        const int found = rmq_cq_fds_find(&t->fds, &q->open, file, place);
        if (found >= 0) return found;
    }
    uint32_t made = create ? RMQ_CQ_NEW_FILE : 0;
    int fd = retry_open(path, O_RDWR | (create ? O_CREAT : 0));
    if (fd == -ENOENT && create) {
        const int code = make_directories(t, q, &made);
        if (code < 0) return code;
        fd = retry_open(path, O_RDWR | O_CREAT);
    }
    if (fd < 0) return fd;
    if (create) {
        if (ftruncate(fd, t->file_size) < 0) {
            const int code = -errno;
            unlink(path); /* no file of another size is left: Java refuses a directory that holds one */
            close(fd);
            return code;
        }
        __atomic_fetch_or(&q->new_names, made, __ATOMIC_ACQ_REL);
    }
    return rmq_cq_fds_add(&t->fds, &q->open, file, fd, place);
}

static int open_to_read(rmq_cq_table *t, rmq_cq *q, int64_t file, int nowait, int32_t *place) {
    char path[PATH_ROOM];
    const int found = rmq_cq_fds_find(&t->fds, &q->open, file, place);
    if (found >= 0) return found;
    if (nowait) return -EAGAIN;
    const int code = make_path(t, q, file, path);
    if (code < 0) return code;
    int fd = retry_open(path, O_RDWR);
    if (fd == -EACCES || fd == -EROFS || fd == -EPERM) fd = retry_open(path, O_RDONLY);
    return fd < 0 ? fd : rmq_cq_fds_add(&t->fds, &q->open, file, fd, place);
}

static int write_all(int fd, const uint8_t *bytes, int64_t count, int64_t pos) {
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

static int write_fillers(int fd, int64_t count) {
    uint8_t block[FILLER_BLOCK * UNIT];
    const rmq_cq_entry filler = {0, RMQ_CQ_FILLER_SIZE, 0};
    for (int i = 0; i < FILLER_BLOCK; i++) rmq_cq_store(block + i * UNIT, filler);
    for (int64_t pos = 0; pos < count; pos += (int64_t)sizeof block) {
        const int64_t step = count - pos < (int64_t)sizeof block ? count - pos : (int64_t)sizeof block;
        const int code = write_all(fd, block, step, pos);
        if (code < 0) return code;
    }
    return 0;
}

/* ---- putting ----------------------------------------------------------------------------------- */

static int begin(rmq_cq_table *t, rmq_cq *q) {
    void *items = t->touched;
    if (make_room(&items, &t->touched_room, t->touched_count + 1, sizeof *t->touched)) return -1;
    t->touched = items;
    t->touched[t->touched_count++] = q;
    q->batch = t->batch;
    q->new_first = q->first_file;
    q->new_last = q->last_file;
    q->new_end = q->end;
    q->new_max_phy = q->max_phy;
    q->fillers = 0;
    q->entries = 0;
    q->begins = 0;
    return 0;
}

static inline int64_t end_of_message(int64_t phy_offset, int32_t msg_size) {
    int64_t end;
    return __builtin_add_overflow(phy_offset, (int64_t)msg_size, &end) ? INT64_MAX : end;
}

/* ConsumeQueue#putMessagePositionInfo without the writing: 1 when the row gets an entry at new_end. */
static inline int stage(rmq_cq_table *t, rmq_cq *q, int64_t phy_offset, int32_t msg_size, int64_t queue_offset) {
    const int64_t size = t->file_size;
    const int64_t end_phy = end_of_message(phy_offset, msg_size);
    if (end_phy <= q->new_max_phy) {
        t->counts.repeats++;
        return 0;
    }
    const int is_offset = queue_offset >= 0 && queue_offset <= t->most_queue_offset;
    const int64_t want = is_offset ? queue_offset * UNIT : queue_offset < 0 ? -1 : INT64_MAX;
    if (q->new_last < 0) {
        if (!is_offset) {
            t->counts.refused++;
            return 0;
        }
        q->new_first = q->new_last = want - want % size;
        q->fillers = want % size;
        q->new_end = want;
        q->begins = 1;
    } else if (q->new_end == q->new_first && want > q->new_end && want < q->new_end + size) {
        /* Its only file is empty: a crash fell between its creation and the first entry, whose place is this. (Java appends it at
         * the file's start, under a wrong offset.) */
        q->fillers = want - q->new_end;
        q->new_end = want;
        q->begins = 1;
    } else if (queue_offset != 0 && want < q->new_end) {
        t->counts.repeats++;
        return 0;
    } else if (q->new_end == q->new_last + size) {
        if (q->new_last > INT64_MAX - 3 * size) {
            t->counts.refused++;
            return 0;
        }
        q->new_last += size;
    }
    /* Offset 0 is appended wherever the end is, others behind a gap as well. */
    if (queue_offset != 0 && want != q->new_end) t->counts.gaps++;
    q->new_max_phy = end_phy;
    q->new_end += UNIT;
    q->entries++;
    return 1;
}

/* Chooses the queue of each row. 0 or -ENOMEM. */
static int route(rmq_cq_table *t, const rmq_cq_rows *rows, int64_t from_phy_offset, const int32_t *topic_of,
                 int32_t topic_count) {
    void *items = t->row_queues;
    if (make_room(&items, &t->row_room, rows->count, sizeof *t->row_queues)) return -ENOMEM;
    t->row_queues = items;
    t->touched_count = 0;
    t->batch++;
    for (int64_t i = 0; i < rows->count; i++) {
        t->row_queues[i] = NULL;
        if (rows->phy_offset[i] < from_phy_offset || rows->sys_flag[i] & RMQ_SYS_TRANSACTION_PREPARED) continue;
        const int32_t topic_id = rows->topic_id[i];
        const int32_t topic = topic_id >= 0 && topic_id < topic_count ? topic_of[topic_id] : -1;
        if (topic < 0 || rows->queue_id[i] < 0 || rows->phy_offset[i] < 0 || rows->msg_size[i] <= 0) {
            t->counts.refused++;
            continue;
        }
        rmq_cq *q = rmq_cq_find_or_add(t, topic, rows->queue_id[i]);
        if (q == NULL || (q->batch != t->batch && begin(t, q))) return -ENOMEM;
        if (stage(t, q, rows->phy_offset[i], rows->msg_size[i], rows->queue_offset[i])) t->row_queues[i] = q;
    }
    return 0;
}

/* Lays the entries out, queue after queue. 0 or -ENOMEM. */
static int pack(rmq_cq_table *t, const rmq_cq_rows *rows) {
    int64_t bytes = 0;
    void *items = t->arena;
    for (int64_t i = 0; i < t->touched_count; i++) bytes += t->touched[i]->entries * UNIT;
    if (make_room(&items, &t->arena_room, bytes, 1)) return -ENOMEM;
    t->arena = items;
    uint8_t *at = t->arena;
    for (int64_t i = 0; i < t->touched_count; i++) {
        t->touched[i]->cursor = at;
        at += t->touched[i]->entries * UNIT;
    }
    for (int64_t i = 0; i < rows->count; i++) {
        rmq_cq *q = t->row_queues[i];
        if (q == NULL) continue;
        const rmq_cq_entry entry = {rows->phy_offset[i], rows->msg_size[i], rows->tags_code[i]};
        rmq_cq_store(q->cursor, entry);
        q->cursor += UNIT;
    }
    return 0;
}

/* Writes the staged entries of one queue and counts them file by file. */
static int write_queue(rmq_cq_table *t, rmq_cq *q) {
    const int64_t size = t->file_size;
    const uint8_t *bytes = q->cursor - q->entries * UNIT;
    int64_t pos = q->new_end - q->entries * UNIT; /* of the next entry in the queue */
    int64_t file = q->last_file < 0 ? q->new_first : q->last_file;
    for (;; file += size) {
        const int create = file > q->last_file;
        const int64_t stop = q->new_end < file + size ? q->new_end : file + size;
        const int64_t count = stop - pos;
        if (count > 0) { /* else the last file is full */
            int32_t place;
            int code = make_path(t, q, file, t->put_failed);
            if (code < 0) return code;
            const int fd = open_to_write(t, q, file, create, t->put_failed, &place);
            if (fd < 0) return fd;
            if (q->begins && file == q->new_first) code = write_fillers(fd, q->fillers);
            if (code == 0) code = write_all(fd, bytes, count, pos - file);
            rmq_cq_fds_unpin(&t->fds, place, fd);
            if (code < 0 && create) { /* nothing of it counts: the next attempt finds things as they were */
                rmq_cq_fds_forget(&t->fds, &q->open, file, file + 1);
                unlink(t->put_failed);
            }
            if (code < 0) return code;
            if (q->begins && file == q->new_first) {
                q->flushed = file;
                if (pos > 0) publish(&q->min, pos);
                publish(&q->first_file, file);
            }
            publish(&q->last_file, file);
            bytes += count;
            pos += count;
            const rmq_cq_entry last = rmq_cq_load(bytes - UNIT);
            publish(&q->max_phy, end_of_message(last.phy_offset, last.msg_size));
            publish(&q->end, pos);
        }
        if (file == q->new_last) return 0;
    }
}

int rmq_cq_put(rmq_cq_table *t, const rmq_cq_rows *rows, int64_t from_phy_offset, const int32_t *topic_of,
               int32_t topic_count) {
    t->put_failed[0] = 0;
    int code = route(t, rows, from_phy_offset, topic_of, topic_count);
    if (code == 0) code = pack(t, rows);
    for (int64_t i = 0; code == 0 && i < t->touched_count; i++) {
        if (t->touched[i]->entries > 0) code = write_queue(t, t->touched[i]);
    }
    return code;
}

/* ---- reading ----------------------------------------------------------------------------------- */

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
    const int fd = open_to_read(t, q, file, nowait, &place);
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

/* ---- flushing ---------------------------------------------------------------------------------- */

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
    int code = make_path(t, q, file, t->flush_failed);
    if (code < 0) return code;
    const int fd = open_to_read(t, q, file, 0, &place);
    if (fd == -ENOENT && file < rmq_cq_first_file(q)) return 0; /* deleted meanwhile */
    if (fd < 0) return fd;
    code = sync_fd(fd);
    rmq_cq_fds_unpin(&t->fds, place, fd);
    return code;
}

static int sync_directory(const char *path) {
    const int fd = retry_open(path, O_RDONLY | O_DIRECTORY);
    if (fd < 0) return fd;
    const int code = fsync(fd) == 0 ? 0 : -errno;
    close(fd);
    return code;
}

/* The directories that have new names in them, from the innermost on. */
static int sync_names(rmq_cq_table *t, rmq_cq *q, uint32_t names) {
    static const struct {
        uint32_t name;
        int64_t directory;
    } levels[] = {{RMQ_CQ_NEW_FILE, -1}, {RMQ_CQ_NEW_QUEUE, -2}, {RMQ_CQ_NEW_TOPIC, -3}, {RMQ_CQ_NEW_ROOT, -3}};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        if (!(names & levels[i].name)) continue;
        int code = make_path(t, q, levels[i].directory, t->flush_failed);
        if (code == 0 && levels[i].name == RMQ_CQ_NEW_ROOT) {
            char *slash = strrchr(t->flush_failed, '/');
            if (slash) slash[slash == t->flush_failed] = 0;
        }
        if (code == 0) code = sync_directory(t->flush_failed);
        if (code < 0) return code;
    }
    return 0;
}

int rmq_cq_flush(rmq_cq_table *t, rmq_cq *q, int32_t least_pages) {
    const int64_t end = rmq_cq_end(q), size = t->file_size;
    int code = 0;
    if (q->flushed < end && rmq_cq_last_file(q) >= 0) {
        int64_t file = q->flushed - q->flushed % size;
        const int64_t waiting = (end - file) / PAGE - (q->flushed - file) / PAGE;
        if (end >= file + size || waiting >= least_pages) {
            for (; code == 0 && file < end; file += size) code = sync_file(t, q, file);
            if (code == 0) q->flushed = end;
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
/* Before Linux 5.8 syncfs keeps the failure of a write to itself. */
static int syncfs_tells_failures(void) {
    struct utsname system;
    int major = 0, minor = 0;
    if (uname(&system) != 0 || sscanf(system.release, "%d.%d", &major, &minor) != 2) return 0;
    return major > 5 || (major == 5 && minor >= 8);
}

static int sync_filesystem(rmq_cq_table *t) {
    snprintf(t->flush_failed, sizeof t->flush_failed, "%s", t->root);
    const int fd = retry_open(t->root, O_RDONLY | O_DIRECTORY);
    if (fd < 0) return fd;
    const int code = syncfs(fd) == 0 ? 0 : -errno;
    close(fd);
    return code;
}

int rmq_cq_flush_at_once(rmq_cq_table *t) {
    const int32_t count = rmq_cq_count(t);
    int32_t waiting = 0;
    for (int32_t i = 0; i < count; i++) waiting += rmq_cq_at(t, i)->flushed < rmq_cq_end(rmq_cq_at(t, i));
    if (waiting < FLUSH_AT_ONCE || !syncfs_tells_failures()) return 0;
    struct noted {
        int64_t end;
        uint32_t names;
    } *noted = malloc((size_t)count * sizeof *noted);
    if (noted == NULL) return 0;
    /* What is put meanwhile waits for the next time. */
    for (int32_t i = 0; i < count; i++) {
        rmq_cq *q = rmq_cq_at(t, i);
        noted[i].end = rmq_cq_end(q);
        noted[i].names = __atomic_exchange_n(&q->new_names, 0, __ATOMIC_ACQ_REL);
    }
    const int code = sync_filesystem(t);
    for (int32_t i = 0; i < count; i++) {
        rmq_cq *q = rmq_cq_at(t, i);
        if (code == 0) q->flushed = noted[i].end;
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
