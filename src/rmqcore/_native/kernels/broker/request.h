/* The header of a request that brings messages, as far as it is plain. Whatever else a header may be is left to Python, which says
 * what is wrong with it: so a reader here never refuses, it only does not take. What it takes, Python reads in the same way.
 */
#ifndef RMQ_SEND_HEADER_H
#define RMQ_SEND_HEADER_H

#include "format/properties.h"

enum {
    RMQ_SEND_MESSAGE_V2 = 310,
    RMQ_SEND_BATCH_MESSAGE = 320,
    RMQ_FLAG_ONEWAY = 2,
};

/* The fields by the letters that they have for names. */
enum {
    RMQ_SEND_PRODUCER_GROUP,
    RMQ_SEND_TOPIC,
    RMQ_SEND_DEFAULT_TOPIC,
    RMQ_SEND_DEFAULT_TOPIC_QUEUE_NUMS,
    RMQ_SEND_QUEUE_ID,
    RMQ_SEND_SYS_FLAG,
    RMQ_SEND_BORN_TIMESTAMP,
    RMQ_SEND_FLAG,
    RMQ_SEND_PROPERTIES,
    RMQ_SEND_RECONSUME_TIMES,
    RMQ_SEND_UNIT_MODE,
    RMQ_SEND_MAX_RECONSUME_TIMES,
    RMQ_SEND_BATCH,
    RMQ_SEND_BNAME,
    RMQ_SEND_FIELDS,
    RMQ_SEND_REQUIRED = (1 << (RMQ_SEND_FLAG + 1)) - 1,
};

typedef struct rmq_send_header {
    int32_t code, opaque, flag;
    uint32_t present; /* a bit for each field that is there */
    rmq_slice fields[RMQ_SEND_FIELDS]; /* where it lies in the header */
    int properties_escaped; /* as a text of JSON */
} rmq_send_header;

static inline int rmq_send_has(const rmq_send_header *header, int field) { return header->present >> field & 1; }

/* Read a header of n bytes. 1: it is one of the two requests, and plain. 0: it is left to Python. */
int rmq_send_read_json(const uint8_t *bytes, size_t n, rmq_send_header *out);
int rmq_send_read_binary(const uint8_t *bytes, size_t n, rmq_send_header *out);

/* Writes what a text of JSON stands for; out has room for text.len bytes. Answers how many there are, -1 for an escape that is
 * none, or that is half of a surrogate pair. */
int64_t rmq_send_unescape(rmq_slice text, uint8_t *out);

/* A number in decimal digits; 0 when the text is none, or not in the range. */
int rmq_send_int32(rmq_slice text, int32_t *out);
int rmq_send_int64(rmq_slice text, int64_t *out);

#endif
