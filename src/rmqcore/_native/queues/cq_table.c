/* Queues and topics of the table: adding and finding them, and setting where a queue begins and ends. */
#include "queues/cq_table_private.h"

#include <stdlib.h>
#include <string.h>

enum {
    CHUNK = 256, /* queues that are allocated together */
    CHUNKS = 1 << 16,
};

rmq_cq_table *rmq_cq_table_new(const char *root, int64_t file_size, int32_t open_files) {
    rmq_cq_table *t = calloc(1, sizeof *t);
    if (t == NULL) return NULL;
    if (pthread_mutex_init(&t->writer, NULL) != 0) {
        free(t);
        return NULL;
    }
    t->file_size = file_size;
    t->most_queue_offset = rmq_cq_most_queue_offset(file_size);
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
    pthread_mutex_destroy(&t->writer);
    free(t);
}

int rmq_cq_make_room(void **items, int64_t *room, int64_t wanted, size_t size) {
    if (wanted <= *room) return 0;
    const int64_t more = wanted > 2 * *room ? wanted : 2 * *room;
    void *grown = realloc(*items, (size_t)more * size);
    if (grown == NULL) return -1;
    *items = grown;
    *room = more;
    return 0;
}

static int32_t add_topic(rmq_cq_table *t, const char *name) {
    int64_t room = t->topic_room;
    void *items = t->topics;
    if (t->topic_count == INT32_MAX || rmq_cq_make_room(&items, &room, t->topic_count + 1, sizeof *t->topics))
        return -1;
    t->topics = items;
    t->topic_room = room > INT32_MAX ? INT32_MAX : (int32_t)room;
    t->topics[t->topic_count] = strdup(name);
    return t->topics[t->topic_count] ? t->topic_count++ : -1;
}

int32_t rmq_cq_topic_add(rmq_cq_table *t, const char *name) {
    lock_writer(t);
    const int32_t number = add_topic(t, name);
    unlock_writer(t);
    return number;
}

int64_t rmq_cq_room(const char *topic, int64_t begin, int64_t end, int64_t to) {
    static const char light[] = "%LMQ%"; /* MixAll#LMQ_PREFIX */
    int64_t from = end, least = RMQ_REC_MIN_SIZE_V1;
    if (strncmp(topic, light, sizeof light - 1) == 0) {
        from = begin;
        least = (int64_t)strlen(topic) + 3; /* "NAME," and "0," */
    }
    if (from < 0) from = 0;
    return to > from ? (to - from) / least : 0;
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

rmq_cq *rmq_cq_find_or_add_held(rmq_cq_table *t, int32_t topic, int32_t queue_id) {
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
    queue->topic_name = t->topics[topic];
    queue->queue_id = queue_id;
    queue->first_file = queue->last_file = queue->max_phy = queue->ahead_pos = -1;
    for (int k = 0; k < RMQ_CQ_OPEN_FILES; k++) queue->open.places[k] = -1;
    found->key = key;
    found->queue = queue;
    __atomic_store_n(&t->count, t->count + 1, __ATOMIC_RELEASE);
    return queue;
}

rmq_cq *rmq_cq_find_or_add(rmq_cq_table *t, int32_t topic, int32_t queue_id) {
    lock_writer(t);
    rmq_cq *queue = rmq_cq_find_or_add_held(t, topic, queue_id);
    unlock_writer(t);
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

void rmq_cq_set(rmq_cq_table *t, rmq_cq *q, int64_t first_file, int64_t last_file, int64_t end, int64_t max_phy) {
    lock_writer(t);
    publish(&q->end, end);
    publish(&q->first_file, first_file);
    publish(&q->last_file, last_file);
    publish(&q->max_phy, max_phy);
    /* A process that died may have left bytes only in the page cache: the last file is synced once more. */
    q->flushed = last_file < 0 ? 0 : last_file;
    if (last_file < 0)
        __atomic_store_n(&q->new_names, 0, __ATOMIC_RELEASE); /* its directory may have been deleted too */
    rmq_cq_fds_forget(&t->fds, &q->open, last_file + 1, INT64_MAX);
    unlock_writer(t);
}

void rmq_cq_set_min(rmq_cq_table *t, rmq_cq *q, int64_t min) {
    lock_writer(t);
    publish(&q->min, min);
    unlock_writer(t);
}

void rmq_cq_set_first_file(rmq_cq_table *t, rmq_cq *q, int64_t first_file) {
    lock_writer(t);
    publish(&q->first_file, first_file);
    rmq_cq_fds_forget(&t->fds, &q->open, 0, first_file);
    unlock_writer(t);
}

void rmq_cq_close(rmq_cq_table *t, rmq_cq *q) { rmq_cq_fds_forget(&t->fds, &q->open, 0, INT64_MAX); }
