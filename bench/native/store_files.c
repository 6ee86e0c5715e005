/* Queue files, index files and the small helpers of make_store.c (store format sections "ConsumeQueue", "IndexFile").
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "make_store.h"

void make_dir(const char *path) {
    if (mkdir(path, 0755) != 0 && errno != EEXIST) die(path);
}

int create_file(const char *dir, const char *name, size_t size) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || ftruncate(fd, (off_t)size) != 0) die(path);
    return fd;
}

void write_at(int fd, const uint8_t *from, size_t len, size_t pos) {
    while (len > 0) {
        ssize_t n = pwrite(fd, from, len, (off_t)pos);
        if (n <= 0) die("pwrite");
        from += n;
        len -= (size_t)n;
        pos += (size_t)n;
    }
}

void queue_open(queue_writer *queue, const char *root, const char *topic, int queue_id) {
    memset(queue, 0, sizeof *queue);
    snprintf(queue->dir, sizeof queue->dir, "%s/consumequeue/%s", root, topic);
    make_dir(queue->dir);
    snprintf(queue->dir, sizeof queue->dir, "%s/consumequeue/%s/%d", root, topic, queue_id);
    make_dir(queue->dir);
}

static void queue_write_file(queue_writer *queue) {
    char name[24];
    snprintf(name, sizeof name, "%020lld", (long long)queue->file_from_offset);
    int fd = create_file(queue->dir, name, QUEUE_FILE_SIZE);
    write_at(fd, queue->entries, queue->len, 0);
    close(fd);
    queue->file_from_offset += QUEUE_FILE_SIZE;
    queue->len = 0;
}

void queue_put(queue_writer *queue, rmq_cq_entry entry) {
    if (queue->len == QUEUE_FILE_SIZE) queue_write_file(queue);
    if (queue->len == queue->room) {
        queue->room = queue->room == 0 ? 4096 * RMQ_CQ_STORE_UNIT_SIZE : 2 * queue->room;
        queue->entries = realloc(queue->entries, queue->room);
        if (queue->entries == NULL) die("memory");
    }
    rmq_cq_store(queue->entries + queue->len, entry);
    queue->len += RMQ_CQ_STORE_UNIT_SIZE;
    queue->count++;
}

void queue_close(queue_writer *queue) {
    if (queue->len > 0) queue_write_file(queue);
    free(queue->entries);
}

static const size_t INDEX_ENTRIES_AT = RMQ_IDX_HEADER_SIZE + (size_t)RMQ_IDX_SLOT_SIZE * RMQ_IDX_DEFAULT_SLOTS;
static const size_t INDEX_FILE_SIZE = RMQ_IDX_HEADER_SIZE + (size_t)RMQ_IDX_SLOT_SIZE * RMQ_IDX_DEFAULT_SLOTS +
                                      (size_t)RMQ_IDX_ENTRY_SIZE * RMQ_IDX_DEFAULT_ENTRIES;

void index_open(index_writer *index, const char *root) {
    memset(index, 0, sizeof *index);
    snprintf(index->dir, sizeof index->dir, "%s/index", root);
    make_dir(index->dir);
}

/* Java names a file by the local time at which it is made; here its first message's time names it, in UTC. */
static void index_next_file(index_writer *index, int64_t now_ms) {
    time_t seconds = (time_t)(now_ms / 1000);
    struct tm tm;
    char name[40];
    size_t n = strftime(name, sizeof name, "%Y%m%d%H%M%S", gmtime_r(&seconds, &tm));
    snprintf(name + n, sizeof name - n, "%03d", (int)(now_ms % 1000));
    int fd = create_file(index->dir, name, INDEX_FILE_SIZE);
    index->map = mmap(NULL, INDEX_FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (index->map == MAP_FAILED) die("mmap");
    madvise(index->map, INDEX_FILE_SIZE, MADV_RANDOM); /* no read-around for a store into a hole */
    close(fd);
    index->count = 1;
    index->used_slots = 0;
    index->begin_timestamp = index->end_timestamp; /* the first entry counts its time from here, then replaces it */
    index->begin_phy_offset = index->end_phy_offset;
}

void index_close(index_writer *index) {
    if (index->map == NULL) return;
    rmq_store_i64(index->map + RMQ_IDX_BEGINTIMESTAMP, index->begin_timestamp);
    rmq_store_i64(index->map + RMQ_IDX_ENDTIMESTAMP, index->end_timestamp);
    rmq_store_i64(index->map + RMQ_IDX_BEGINPHYOFFSET, index->begin_phy_offset);
    rmq_store_i64(index->map + RMQ_IDX_ENDPHYOFFSET, index->end_phy_offset);
    rmq_store_i32(index->map + RMQ_IDX_HASHSLOTCOUNT, index->used_slots);
    rmq_store_i32(index->map + RMQ_IDX_INDEXCOUNT, index->count);
    munmap(index->map, INDEX_FILE_SIZE);
    index->map = NULL;
}

void index_put(index_writer *index, int32_t key_hash, int64_t phy_offset, int64_t store_timestamp) {
    if (index->map != NULL && index->count >= RMQ_IDX_DEFAULT_ENTRIES) {
        index->full_until_ms = index->end_timestamp;
        index_close(index);
    }
    if (index->map == NULL) index_next_file(index, store_timestamp);
    uint8_t *slot = index->map + RMQ_IDX_HEADER_SIZE + (size_t)(key_hash % RMQ_IDX_DEFAULT_SLOTS) * RMQ_IDX_SLOT_SIZE;
    uint8_t *entry = index->map + INDEX_ENTRIES_AT + (size_t)index->count * RMQ_IDX_ENTRY_SIZE;
    int32_t head = rmq_load_i32(slot);
    int64_t seconds = index->begin_timestamp > 0 ? (store_timestamp - index->begin_timestamp) / 1000 : 0;
    rmq_store_i32(entry + RMQ_IDX_ENTRY_KEYHASH, key_hash);
    rmq_store_i64(entry + RMQ_IDX_ENTRY_PHYOFFSET, phy_offset);
    rmq_store_i32(entry + RMQ_IDX_ENTRY_TIMEDIFF, (int32_t)seconds);
    rmq_store_i32(entry + RMQ_IDX_ENTRY_PREVINDEX, head);
    rmq_store_i32(slot, index->count);
    if (index->count == 1) {
        index->begin_timestamp = store_timestamp;
        index->begin_phy_offset = phy_offset;
    }
    index->used_slots += head == 0;
    index->count++;
    index->end_timestamp = store_timestamp;
    index->end_phy_offset = phy_offset;
}
