/* Sends without Python objects: from the bytes received on a connection to messages for the append, and to the responses.
 *
 * A caller processes group after group: rmq_send_take prepares consecutive single sends, or one batch; the caller appends
 * s->puts; rmq_send_settle writes the responses of the stored ones. A frame that is not plain ends the group, and is left in
 * the bytes without a trace. So error responses are never written here.
 *
 * Plain are SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE to a topic of the table and one of its queues, with a body, with
 * properties as in send_properties.h (a single send has a UNIQ_KEY), only flags of a compressed body, within all limits.
 */
#ifndef RMQ_SEND_H
#define RMQ_SEND_H

#include "broker/request.h"
#include "broker/send_topics.h"
#include "put/append.h"

enum {
    RMQ_SEND_MOST_PUTS = 4096, /* of a group; a longer batch is not plain */
    RMQ_SEND_SCRATCH = 1 << 20, /* bytes of the properties of a group */
    RMQ_SEND_MOST_PARTS = 16,
};

enum { RMQ_SEND_MESSAGE_V2 = 310, RMQ_SEND_BATCH_MESSAGE = 320 };

/* The fields, by their one-letter names. */
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

static const rmq_request_kind rmq_send_kind = {
    .codes = {RMQ_SEND_MESSAGE_V2, RMQ_SEND_BATCH_MESSAGE},
    .field_count = RMQ_SEND_FIELDS,
    .text_field = RMQ_SEND_PROPERTIES,
    .letters = 1,
};

/* Why a group ends, and what the next frame is. */
enum {
    RMQ_SEND_MORE = RMQ_FRAME_MORE, /* the next frame is incomplete */
    RMQ_SEND_PYTHON = RMQ_FRAME_WHOLE, /* a whole frame that is not plain */
    RMQ_SEND_BROKEN = RMQ_FRAME_BROKEN, /* the next bytes are not a frame */
    RMQ_SEND_AGAIN = 3, /* the group is full, or a frame of the other kind follows */
};

/* The value behind a literal part of a response. */
enum {
    RMQ_HOLE_NONE,
    RMQ_HOLE_MSG_ID,
    RMQ_HOLE_QUEUE_ID,
    RMQ_HOLE_QUEUE_OFFSET,
    RMQ_HOLE_TRANSACTION_ID,
    RMQ_HOLE_OPAQUE,
    RMQ_HOLE_KINDS,
};

typedef struct rmq_send_part {
    rmq_slice text;
    int hole;
} rmq_send_part;

/* The header of a response, as JSON. */
typedef struct rmq_send_answer {
    rmq_send_part parts[RMQ_SEND_MOST_PARTS];
    size_t count;
} rmq_send_answer;

/* The kind of response to a send. */
enum { RMQ_ANSWER_SINGLE, RMQ_ANSWER_BATCH, RMQ_ANSWER_BATCH_WITH_ID, RMQ_ANSWER_KINDS };

/* One frame of a group. */
typedef struct rmq_send_frame {
    size_t end; /* behind the frame, from the start of the bytes */
    int32_t opaque;
    int oneway;
    rmq_slice uniq_key;
    rmq_send_topic *topic;
} rmq_send_frame;

typedef struct rmq_send {
    /* Set once; what they point to belongs to the caller. */
    rmq_slice added; /* properties that are added to each single message, encoded */
    rmq_send_answer answers[RMQ_ANSWER_KINDS];
    uint8_t store_host[RMQ_HOST_V6_SIZE];
    int store_host_v6;
    int waits; /* sends wait for disk or followers: a message that does not wait is not plain */
    /* Set for the bytes of one connection. */
    uint8_t born_host[RMQ_HOST_V6_SIZE];
    int born_host_v6;

    rmq_send_topics topics;
    /* The group. */
    rmq_put *puts;
    rmq_send_frame *frames; /* one for each put of single sends; one of a batch */
    size_t count; /* of puts */
    int whole; /* the group is a batch */
    int64_t total; /* bytes of its records */
    uint8_t *scratch;
    size_t scratch_used;
    /* The responses so far, frame by frame, and their number; the caller empties them. */
    uint8_t *out;
    size_t out_len, out_room, answer_count;
    size_t reserved; /* most bytes of the responses to the group */
    int64_t end_phy_offset; /* behind the last record of a written response */
} rmq_send;

int rmq_send_init(rmq_send *s); /* -1 without memory. Fields that it does not allocate are zero. */
void rmq_send_destroy(rmq_send *s);

/* Prepares the next group of bytes[at..n) for the log. Returns why it ends: RMQ_SEND_MORE, ... -1: no memory for responses. */
int rmq_send_take(rmq_send *s, const rmq_log *log, const uint8_t *bytes, size_t at, size_t n);

/* Writes the responses to the first `done` puts of the group, whose status is final, and counts them. Returns where the stored
 * frames end, `at` if none is stored. It stops at the first frame that is not stored: it and all behind it are left. */
size_t rmq_send_settle(rmq_send *s, size_t at, size_t done);

#endif
