/* Frames of RocketMQ's protocol for broker_load.c: requests with a header of JSON, as the Java client writes them, and what an
 * answer must say. */
#ifndef BENCH_LOAD_FRAMES_H
#define BENCH_LOAD_FRAMES_H

#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    BODY = 128,
    SEND = 310,
    SEND_BATCH = 320,
    PULL = 11,
    FRAME_HEAD = 8,     /* the length of the frame, and that of its header */
    HEADER_MOST = 1024, /* of a request of ours; a topic has at most 127 characters */
    RECORD_HEAD = 20,   /* of a message in a batch, up to its body */
    TOPIC_MOST = 127,
};

/* What all requests of a run have in common. */
typedef struct load {
    int code;
    const char *topic;
    uint32_t queues;
    uint32_t count; /* messages in a request, or in the answer to a pull */
    int64_t max_queue_offset;
    uint8_t *body;
    uint32_t body_size, record_size;
} load;

/* What a request asked for, and its answer is checked against. */
typedef struct asked {
    uint32_t opaque, queue_id;
    int64_t queue_offset;
    uint64_t sent_ns; /* 0: no request is in this slot */
} asked;

static const char UNIQ_KEY[] = "FD0000000000000000000000000000027D673094";
static const char PROPERTIES[] = "KEYS\001k%08X\002UNIQ_KEY\001%s%08X%08X\002WAIT\001true\002TAGS\001TagA";
static const char ESCAPED[] =
    "KEYS\\u0001k%08X\\u0002UNIQ_KEY\\u0001%s%08X%08X\\u0002WAIT\\u0001true\\u0002TAGS\\u0001TagA";

static inline void put32(uint8_t *to, uint32_t value) {
    value = htonl(value);
    memcpy(to, &value, sizeof value);
}

static inline uint32_t get32(const uint8_t *from) {
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return ntohl(value);
}

static inline uint64_t wall_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Make the body of a send, or all records of a batch: they differ in their keys, which write_batch_keys writes. */
static inline void make_body(load *all) {
    char properties[256];
    const size_t length = (size_t)snprintf(properties, sizeof properties, PROPERTIES, 0, UNIQ_KEY, 0, 0);
    all->record_size = (uint32_t)(RECORD_HEAD + BODY + 2 + length);
    all->body_size = all->code == SEND ? BODY : all->code == SEND_BATCH ? all->record_size * all->count : 0;
    all->body = calloc(1, all->body_size + 1);
    if (all->body == NULL) abort();
    if (all->code == SEND) memset(all->body, 'x', BODY);
    if (all->code != SEND_BATCH) return;
    for (uint32_t i = 0; i < all->count; i++) {
        uint8_t *record = all->body + (size_t)i * all->record_size;
        put32(record, all->record_size);
        put32(record + 16, BODY);
        memset(record + RECORD_HEAD, 'x', BODY);
        record[RECORD_HEAD + BODY] = (uint8_t)(length >> 8);
        record[RECORD_HEAD + BODY + 1] = (uint8_t)length;
        memcpy(record + RECORD_HEAD + BODY + 2, properties, length);
    }
}

static inline void write_hex(uint8_t *to, uint32_t value) {
    for (int shift = 28; shift >= 0; shift -= 4) *to++ = (uint8_t) "0123456789ABCDEF"[value >> shift & 15];
}

/* Give each record of a batch keys that no other message of the run has. */
static inline void write_batch_keys(const load *all, uint8_t *body, uint32_t connection, uint32_t opaque) {
    const size_t key = RECORD_HEAD + BODY + 2 + strlen("KEYS\001k");
    const size_t uniq = key + 8 + strlen("\002UNIQ_KEY\001") + sizeof UNIQ_KEY - 1;
    for (uint32_t i = 0; i < all->count; i++) {
        uint8_t *record = body + (size_t)i * all->record_size;
        write_hex(record + key, opaque * all->count + i);
        write_hex(record + uniq, connection);
        write_hex(record + uniq + 8, opaque * all->count + i);
    }
}

/* Write the request that `what` describes; answer its bytes. There are HEADER_MOST + body_size bytes of room. */
static inline size_t write_request(const load *all, const asked *what, uint32_t connection, uint8_t *out) {
    char *header = (char *)out + FRAME_HEAD;
    int length;
    if (all->code == PULL) {
        length = snprintf(header, HEADER_MOST,
            "{\"code\":11,\"extFields\":{\"queueId\":\"%u\",\"maxMsgNums\":\"%u\",\"sysFlag\":\"4\","
            "\"suspendTimeoutMillis\":\"20000\",\"commitOffset\":\"0\",\"topic\":\"%s\",\"queueOffset\":\"%lld\","
            "\"expressionType\":\"TAG\",\"subVersion\":\"0\",\"consumerGroup\":\"bench_c\",\"subscription\":\"*\","
            "\"maxMsgBytes\":\"2147483647\"},\"flag\":0,\"language\":\"JAVA\",\"opaque\":%u,"
            "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}",
            what->queue_id, all->count, all->topic, (long long)what->queue_offset, what->opaque);
    } else {
        char properties[256] = "";
        if (all->code == SEND)
            snprintf(properties, sizeof properties, ESCAPED, what->opaque, UNIQ_KEY, connection, what->opaque);
        length = snprintf(header, HEADER_MOST,
            "{\"code\":%d,\"extFields\":{\"a\":\"bench_p\",\"b\":\"%s\",\"c\":\"TBW102\",\"d\":\"8\",\"e\":\"%u\","
            "\"f\":\"0\",\"g\":\"%llu\",\"h\":\"0\",\"i\":\"%s\",\"j\":\"0\",\"k\":\"false\",\"m\":\"%s\"},\"flag\":0,"
            "\"language\":\"JAVA\",\"opaque\":%u,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}",
            all->code, all->topic, what->queue_id, (unsigned long long)wall_ms(), properties,
            all->code == SEND_BATCH ? "true" : "false", what->opaque);
    }
    put32(out, (uint32_t)length + 4 + all->body_size);
    put32(out + 4, (uint32_t)length);
    memcpy(header + length, all->body, all->body_size);
    if (all->code == SEND_BATCH) write_batch_keys(all, (uint8_t *)header + length, connection, what->opaque);
    return FRAME_HEAD + (size_t)length + all->body_size;
}

/* The number behind a name in a header of JSON, with or without quotes; -1 where there is none. */
static inline int64_t number_of(const uint8_t *header, size_t length, const char *name) {
    const size_t name_length = strlen(name);
    const uint8_t *at = memmem(header, length, name, name_length);
    if (at == NULL) return -1;
    at += name_length;
    const uint8_t *end = header + length;
    if (at < end && *at == '"') at++;
    if (at == end || *at < '0' || *at > '9') return -1;
    int64_t value = 0;
    while (at < end && *at >= '0' && *at <= '9' && value < INT64_MAX / 16) value = value * 10 + (*at++ - '0');
    return value;
}

/* How many whole records with the right body an answer to a pull has; -1 where something else is in it. */
static inline int64_t records_of(const uint8_t *body, size_t size, const asked *what) {
    int64_t count = 0;
    for (size_t at = 0; at < size; count++) {
        if (size - at < 92) return -1;
        const uint8_t *record = body + at;
        const uint32_t total = get32(record);
        if (total < 92 || total > size - at || get32(record + 4) != 0xDAA320A7) return -1;
        const uint64_t queue_offset = (uint64_t)get32(record + 20) << 32 | get32(record + 24);
        if (get32(record + 12) != what->queue_id || queue_offset != (uint64_t)(what->queue_offset + count)) return -1;
        if (get32(record + 84) != BODY || record[88] != 'x') return -1; /* hosts of IPv4 */
        at += total;
    }
    return count;
}

/* Whether an answer says that all was done that was asked for. */
static inline int is_right(const load *all, const asked *what, const uint8_t *header, size_t length, const uint8_t *body,
    size_t size) {
    if (number_of(header, length, "\"code\":") != 0) return 0;
    if (all->code != PULL)
        return number_of(header, length, "\"queueId\":") == what->queue_id &&
            number_of(header, length, "\"queueOffset\":") >= 0;
    return number_of(header, length, "\"nextBeginOffset\":") == what->queue_offset + all->count &&
        records_of(body, size, what) == all->count;
}

#endif
