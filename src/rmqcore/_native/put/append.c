#include "put/append.h"
#include "format/cq.h"
#include "format/properties.h"
#include "put/next_queue_offsets.h"
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum {
    RECORD_OVER_BODY = 64 * 1024, /* a record may be this much larger than maxMessageSize */
    PREFETCH_MOST = 2048,
    PREFETCH_SHORT = 1024,
    PREFETCH_DISTANCE = 1536,
    MAX_TOPIC_LENGTH = 255,
};

static const uint64_t EACH = UINT64_C(0x0101010101010101);

struct rmq_log {
    pthread_mutex_t mutex;
    rmq_log_limits limits;
    int for_old_version; /* the log is written for a version of RocketMQ that cannot read every record */
    rmq_queue_offsets *queues;
    uint8_t *base; /* of the file that is appended to */
    int64_t file_from_offset;
    int64_t wrote;     /* end of the last record; stored with release order, readers see whole records below it */
    int64_t allocated; /* the file has room up to here */
    int64_t store_timestamp;
    uint8_t *next_base; /* NULL: no next file */
    int64_t next_from_offset, next_allocated;
    int stopped;
};

rmq_log *rmq_log_new(const rmq_log_limits *limits) {
    rmq_log *log = calloc(1, sizeof *log);
    if (log == NULL) return NULL;
    log->queues = rmq_queue_offsets_new();
    if (log->queues == NULL || pthread_mutex_init(&log->mutex, NULL) != 0) {
        rmq_queue_offsets_free(log->queues);
        free(log);
        return NULL;
    }
    log->limits = *limits;
    log->for_old_version = limits->most_topic_bytes != 0 || limits->ipv4_hosts_only;
    return log;
}

void rmq_log_free(rmq_log *log) {
    if (log == NULL) return;
    rmq_queue_offsets_free(log->queues);
    pthread_mutex_destroy(&log->mutex);
    free(log);
}

int rmq_log_try_lock(rmq_log *log) { return pthread_mutex_trylock(&log->mutex) == 0; }
void rmq_log_lock(rmq_log *log) { pthread_mutex_lock(&log->mutex); }
void rmq_log_unlock(rmq_log *log) { pthread_mutex_unlock(&log->mutex); }

static void publish(rmq_log *log, int64_t wrote) { __atomic_store_n(&log->wrote, wrote, __ATOMIC_RELEASE); }

void rmq_log_set_file(rmq_log *log, uint8_t *base, int64_t file_from_offset, int64_t wrote, int64_t allocated) {
    log->base = base;
    __atomic_store_n(&log->file_from_offset, file_from_offset, __ATOMIC_RELAXED);
    __atomic_store_n(&log->allocated, allocated, __ATOMIC_RELAXED);
    publish(log, wrote);
}

void rmq_log_set_next(rmq_log *log, uint8_t *base, int64_t file_from_offset, int64_t allocated) {
    log->next_from_offset = file_from_offset;
    log->next_allocated = allocated;
    __atomic_store_n(&log->next_base, base, __ATOMIC_RELEASE);
}

void rmq_log_set_allocated(rmq_log *log, int64_t allocated) {
    if (log->next_base != NULL && allocated > log->next_from_offset) {
        log->next_allocated = allocated;
        return;
    }
    /* If a roll came between the allocation and this call, `allocated` belongs to the file before. */
    if (allocated > log->allocated) __atomic_store_n(&log->allocated, allocated, __ATOMIC_RELAXED);
}

int64_t rmq_log_room_end(const rmq_log *log, int64_t file_from_offset) {
    if (log->stopped) return INT64_MAX;
    if (log->base != NULL && file_from_offset == log->file_from_offset) return log->allocated;
    return log->next_base != NULL && file_from_offset == log->next_from_offset ? log->next_allocated : INT64_MAX;
}

int64_t rmq_log_max_message_size(const rmq_log *log) { return log->limits.max_message_size; }

void rmq_log_stop(rmq_log *log) { log->stopped = 1; }

int64_t rmq_log_wrote(const rmq_log *log) { return __atomic_load_n(&log->wrote, __ATOMIC_ACQUIRE); }
int64_t rmq_log_file_from_offset(const rmq_log *log) {
    return __atomic_load_n(&log->file_from_offset, __ATOMIC_RELAXED);
}
int64_t rmq_log_allocated(const rmq_log *log) { return __atomic_load_n(&log->allocated, __ATOMIC_RELAXED); }
int rmq_log_has_next(const rmq_log *log) { return __atomic_load_n(&log->next_base, __ATOMIC_ACQUIRE) != NULL; }

void rmq_log_state(const rmq_log *log, int64_t *wrote, int64_t *store_timestamp) {
    *wrote = log->wrote;
    *store_timestamp = log->store_timestamp;
}

int64_t *rmq_log_queue_offset(rmq_log *log, const uint8_t *topic, size_t topic_len, int32_t queue_id) {
    return rmq_queue_offsets_at(log->queues, topic, topic_len, queue_id);
}

int rmq_log_close_topic(rmq_log *log, const uint8_t *topic, size_t topic_len) {
    return rmq_queue_offsets_close(log->queues, topic, topic_len);
}

int64_t rmq_now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t rmq_props_separators(const uint8_t *props, int64_t len) {
    int64_t ones = 0, twos = 0;
    while (len > 0) {
        uint8_t copy[64] = {0};
        if (len < 64) memcpy(copy, props, (size_t)len);
        const rmq_props_masks m = rmq_props_masks64(len < 64 ? copy : props, 1);
        ones += __builtin_popcountll(m.ones);
        twos += __builtin_popcountll(m.twos);
        props += 64;
        len -= 64;
    }
    return ones << 32 | twos;
}

/* Eight bytes at once: the borrow of a zero byte shows in its top bit. */
static inline int has_slash_or_zero(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, sizeof v);
    const uint64_t slashes = v ^ (EACH * '/');
    return ((((v - EACH) & ~v) | ((slashes - EACH) & ~slashes)) & (EACH << 7)) != 0;
}

int rmq_topic_is_legal(const uint8_t *topic, size_t length) {
    if (length == 0 || length > MAX_TOPIC_LENGTH) return 0;
    if (topic[0] == '.' && (length == 1 || (length == 2 && topic[1] == '.'))) return 0;
    if (length < 8) {
        for (size_t i = 0; i < length; i++) {
            if (topic[i] == '/' || topic[i] == '\0') return 0;
        }
        return 1;
    }
    /* Eight bytes at a time; the last eight may overlap those before them. */
    for (size_t i = 0;; i = i + 16 > length ? length - 8 : i + 8) {
        if (has_slash_or_zero(topic + i)) return 0;
        if (i + 8 == length) return 1;
    }
}

/* The first limit that a message breaks, with the value found and the value allowed; *size becomes its bytes in the
 * log. */
static inline int broken_limit(const rmq_log *log, const rmq_message *msg, int64_t *size, int64_t *found,
                               int64_t *most) {
    *found = (int64_t)msg->topic_len;
    *most = MAX_TOPIC_LENGTH;
    if (!rmq_topic_is_legal(msg->topic, msg->topic_len)) {
        return *found == 0 || *found > *most ? RMQ_LIMIT_TOPIC_LENGTH : RMQ_LIMIT_TOPIC_NAME;
    }
    *most = INT32_MAX;
    if (msg->queue_id < 0) return RMQ_LIMIT_QUEUE_ID;
    if (msg->sys_flag & RMQ_SYS_INNER_BATCH) return RMQ_LIMIT_INNER_BATCH;
    if (log->for_old_version) {
        *most = log->limits.most_topic_bytes;
        if (*most != 0 && *found > *most) return RMQ_LIMIT_V2;
        if (log->limits.ipv4_hosts_only && (msg->born_host_v6 || msg->store_host_v6)) return RMQ_LIMIT_IPV6;
    }
    *size = rmq_record_encoded_size(msg);
    *found = (int64_t)msg->props_len;
    *most = RMQ_MAX_PROPERTIES_LEN;
    if (*size == RMQ_E_PROPERTIESLENGTH) return RMQ_LIMIT_PROPERTIES;
    *found = (int64_t)msg->body_len;
    *most = log->limits.max_message_size;
    if (*size < 0 || *found > *most) return RMQ_LIMIT_BODY;
    *found = *size;
    *most = log->limits.max_message_size + RECORD_OVER_BODY;
    if (*size > *most) return RMQ_LIMIT_RECORD;
    *most = log->limits.file_size - RMQ_BLANK_MIN_SIZE;
    return *size > *most ? RMQ_LIMIT_FILE : RMQ_LIMIT_NONE;
}

void rmq_put_check(const rmq_log *log, rmq_put *put) {
    int64_t size, found, most;
    put->msg.append_prop_crc = log->limits.append_prop_crc;
    put->msg_size = 0;
    const int limit = broken_limit(log, &put->msg, &size, &found, &most);
    if (limit != RMQ_LIMIT_NONE) {
        put->status = limit == RMQ_LIMIT_PROPERTIES ? RMQ_PUT_PROPERTIES_SIZE_EXCEEDED : RMQ_PUT_MESSAGE_ILLEGAL;
        return;
    }
    put->msg_size = (int32_t)size;
    put->status = RMQ_PUT_WAITING;
}

void rmq_put_check_record(rmq_put *put, int append_prop_crc) {
    put->msg.append_prop_crc = append_prop_crc;
    const int64_t size = rmq_record_encoded_size(&put->msg);
    put->msg_size = size < 0 ? 0 : (int32_t)size;
    put->status = size < 0 ? RMQ_PUT_MESSAGE_ILLEGAL : RMQ_PUT_WAITING;
}

int rmq_put_limit(const rmq_log *log, const rmq_put *put, int64_t *found, int64_t *most) {
    int64_t size;
    const int limit = broken_limit(log, &put->msg, &size, found, most);
    if (limit == RMQ_LIMIT_QUEUE_ID) *found = put->given_queue_id;
    return limit;
}

/* Makes sure that `size` bytes and a BLANK fit at `wrote`, rolling to the next file if they do not. */
static int make_room(rmq_log *log, int64_t size) {
    if (log->stopped) return RMQ_A_STOPPED;
    const int64_t left = log->file_from_offset + log->limits.file_size - log->wrote;
    if (log->base == NULL || size + RMQ_BLANK_MIN_SIZE > left) {
        if (log->next_base == NULL) return RMQ_A_NEED_FILE;
        if (log->next_from_offset + size + RMQ_BLANK_MIN_SIZE > log->next_allocated) return RMQ_A_NEED_SPACE;
        if (log->base != NULL) {
            if (log->wrote + RMQ_BLANK_MIN_SIZE > log->allocated) return RMQ_A_NEED_SPACE;
            uint8_t *blank = log->base + (log->wrote - log->file_from_offset);
            rmq_store_i32(blank + RMQ_REC_TOTALSIZE, (int32_t)left);
            __atomic_thread_fence(__ATOMIC_RELEASE);
            rmq_store_i32(blank + RMQ_REC_MAGIC, RMQ_MAGIC_BLANK);
        }
        rmq_log_set_file(log, log->next_base, log->next_from_offset, log->next_from_offset, log->next_allocated);
        __atomic_store_n(&log->next_base, NULL, __ATOMIC_RELEASE);
        return RMQ_A_DONE;
    }
    return log->wrote + size + RMQ_BLANK_MIN_SIZE > log->allocated ? RMQ_A_NEED_SPACE : RMQ_A_DONE;
}

/* Prefetches the cache lines of a later record for writing: 30 % less time for records of 1 KiB. With short records the
 * lines of the very next record would come too late, so those of a record further ahead are prefetched. */
static void prefetch_ahead(const uint8_t *end, int64_t size) {
    const int64_t most = size + 64 < PREFETCH_MOST ? size + 64 : PREFETCH_MOST;
    if (size < PREFETCH_SHORT) end += PREFETCH_DISTANCE;
    for (int64_t i = 0; i < most; i += 64) __builtin_prefetch(end + i, 1);
}

/* Writes one record at `at`, which has room. */
static void write_record(rmq_log *log, rmq_put *put, int64_t at, int64_t now_ms) {
    put->msg.phy_offset = at;
    put->msg.store_timestamp = now_ms;
    if (put->born_now) put->msg.born_timestamp = now_ms;
    rmq_record_write(&put->msg, put->msg_size, log->base + (at - log->file_from_offset));
    put->status = RMQ_PUT_OK;
}

int rmq_log_append(rmq_log *log, rmq_put *puts, size_t count, int64_t now_ms, size_t *done) {
    rmq_queue_recent recent;
    const int several = count - *done > 1;
    if (several) memset(&recent, 0, sizeof recent);
    if (now_ms == RMQ_NO_CLOCK) now_ms = rmq_now_ms();
    for (; *done < count; ++*done) {
        rmq_put *put = &puts[*done];
        if (put->status != RMQ_PUT_WAITING) continue;
        const int code = make_room(log, put->msg_size);
        if (code) return code;
        int64_t *next = NULL;
        put->msg.queue_offset = 0;
        if (rmq_has_queue_entry(put->msg.sys_flag)) {
            const rmq_message *msg = &put->msg;
            next = several ? rmq_queue_offsets_again(log->queues, &recent, msg->topic, msg->topic_len, msg->queue_id)
                           : rmq_queue_offsets_at(log->queues, msg->topic, msg->topic_len, msg->queue_id);
            if (next == NULL) {
                put->status = RMQ_PUT_UNKNOWN_ERROR;
                continue;
            }
            if (*next == RMQ_QUEUE_CLOSED) {
                put->status = RMQ_PUT_BATCH_TOPIC;
                continue;
            }
            put->msg.queue_offset = (*next)++;
        }
        const int64_t at = log->wrote;
        write_record(log, put, at, now_ms);
        log->store_timestamp = now_ms;
        publish(log, at + put->msg_size);
        prefetch_ahead(log->base + (at + put->msg_size - log->file_from_offset), put->msg_size);
    }
    return RMQ_A_DONE;
}

static void settle(rmq_put *puts, size_t count, int32_t status) {
    for (size_t i = 0; i < count; i++) puts[i].status = status;
}

int rmq_log_append_batch(rmq_log *log, rmq_put *puts, size_t count, int64_t now_ms) {
    int64_t total = 0;
    for (size_t i = 0; i < count; i++) total += puts[i].msg_size;
    if (count == 0 || total + RMQ_BLANK_MIN_SIZE > log->limits.file_size) {
        settle(puts, count, RMQ_PUT_MESSAGE_ILLEGAL);
        return RMQ_A_DONE;
    }
    const int code = make_room(log, total);
    if (code) return code;
    int64_t *next = rmq_queue_offsets_at(log->queues, puts[0].msg.topic, puts[0].msg.topic_len, puts[0].msg.queue_id);
    if (next == NULL) {
        settle(puts, count, RMQ_PUT_UNKNOWN_ERROR);
        return RMQ_A_DONE;
    }
    if (*next == RMQ_QUEUE_CLOSED) {
        settle(puts, count, RMQ_PUT_BATCH_TOPIC);
        return RMQ_A_DONE;
    }
    if (now_ms == RMQ_NO_CLOCK) now_ms = rmq_now_ms();
    int64_t at = log->wrote;
    for (size_t i = 0; i < count; i++) {
        puts[i].msg.queue_offset = *next + (int64_t)i;
        write_record(log, &puts[i], at, now_ms);
        at += puts[i].msg_size;
    }
    *next += (int64_t)count;
    log->store_timestamp = now_ms;
    publish(log, at);
    return RMQ_A_DONE;
}

int rmq_log_append_raw(rmq_log *log, const uint8_t *bytes, int64_t size, int64_t at, int64_t store_timestamp) {
    if (log->stopped) return RMQ_A_STOPPED;
    if (at != log->wrote) return RMQ_A_ELSEWHERE;
    if (log->base == NULL) { /* the first file of all, which holds at least one record and a BLANK */
        const int code = make_room(log, size);
        if (code) return code;
        if (at != log->wrote) return RMQ_A_ELSEWHERE;
    }
    const int64_t left = log->file_from_offset + log->limits.file_size - at;
    const int ends_file = size == left;
    if (!ends_file && size + RMQ_BLANK_MIN_SIZE > left) return RMQ_A_ELSEWHERE;
    if (ends_file && log->next_base == NULL) return RMQ_A_NEED_FILE;
    if (at + size + (ends_file ? 0 : RMQ_BLANK_MIN_SIZE) > log->allocated) return RMQ_A_NEED_SPACE;
    uint8_t *to = log->base + (at - log->file_from_offset);
    /* The first MAGIC last, as always: a process that dies in between leaves nothing that a recovery accepts as a
     * record. */
    memcpy(to, bytes, RMQ_REC_MAGIC);
    memcpy(to + RMQ_BLANK_MIN_SIZE, bytes + RMQ_BLANK_MIN_SIZE, (size_t)(size - RMQ_BLANK_MIN_SIZE));
    __atomic_thread_fence(__ATOMIC_RELEASE);
    memcpy(to + RMQ_REC_MAGIC, bytes + RMQ_REC_MAGIC, RMQ_BLANK_MIN_SIZE - RMQ_REC_MAGIC);
    if (ends_file) {
        rmq_log_set_file(log, log->next_base, log->next_from_offset, log->next_from_offset, log->next_allocated);
        __atomic_store_n(&log->next_base, NULL, __ATOMIC_RELEASE);
        return RMQ_A_DONE;
    }
    log->store_timestamp = store_timestamp;
    publish(log, at + size);
    return RMQ_A_DONE;
}
