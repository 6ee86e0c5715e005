/* Sends without objects: from the bytes that a connection brought to messages for the append, and from there to the answers.
 *
 * A caller takes groups in turn: rmq_send_take prepares as many single sends as come one behind the other, or one batch; the caller
 * appends s->puts; rmq_send_settle writes the answers of those that are stored. Everything that is not plain ends it, and is left
 * where it lies: a frame that is not taken has left no trace. So no refusal is ever written here.
 *
 * What is plain: SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE to a topic of the table and a queue that it has, with a body, with
 * properties as in send_properties.h (a single one has a UNIQ_KEY), no flags but those of a compressed body, within all limits.
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

static const rmq_request_kind rmq_send_kind = {
    .codes = {RMQ_SEND_MESSAGE_V2, RMQ_SEND_BATCH_MESSAGE},
    .field_count = RMQ_SEND_FIELDS,
    .text_field = RMQ_SEND_PROPERTIES,
    .letters = 1,
};

/* Why a group ends, and what comes behind it. */
enum {
    RMQ_SEND_MORE = RMQ_FRAME_MORE, /* less than a frame is left */
    RMQ_SEND_PYTHON = RMQ_FRAME_WHOLE, /* a whole frame that is not plain */
    RMQ_SEND_BROKEN = RMQ_FRAME_BROKEN, /* no frame */
    RMQ_SEND_AGAIN = 3, /* nothing: the group is full, or one of another kind comes */
};

/* What stands behind a literal part of an answer. */
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

/* The header of an answer, as JSON. */
typedef struct rmq_send_answer {
    rmq_send_part parts[RMQ_SEND_MOST_PARTS];
    size_t count;
} rmq_send_answer;

/* Which answer a send gets. */
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
    rmq_slice added; /* properties that each single message gets, encoded */
    rmq_send_answer answers[RMQ_ANSWER_KINDS];
    uint8_t store_host[RMQ_HOST_V6_SIZE];
    int store_host_v6;
    int waits; /* disk or followers are waited for: a message that does not wait is not plain */
    /* Set for the bytes of one connection. */
    uint8_t born_host[RMQ_HOST_V6_SIZE];
    int born_host_v6;

    rmq_send_topics topics;
    /* The group. */
    rmq_put *puts;
    rmq_send_frame *frames; /* of single sends one a put; of a batch one */
    size_t count; /* of puts */
    int whole; /* it is a batch */
    int64_t total; /* bytes of its records */
    uint8_t *scratch;
    size_t scratch_used;
    /* The answers so far, frame by frame, and how many; the caller empties them. */
    uint8_t *out;
    size_t out_len, out_room, answer_count;
    size_t reserved; /* most bytes of the answers to the group */
    int64_t end_phy_offset; /* behind the last record that is told of */
} rmq_send;

int rmq_send_init(rmq_send *s); /* -1 without memory. All is zero but what it makes. */
void rmq_send_destroy(rmq_send *s);

/* Prepares the next group of bytes[at], ... below n for the log; answers why it ends: RMQ_SEND_MORE, ... -1: no memory for answers. */
int rmq_send_take(rmq_send *s, const rmq_log *log, const uint8_t *bytes, size_t at, size_t n);

/* Writes the answers to the first `done` puts of the group, whose status is final, and counts them. Answers where the frames end that
 * are stored, `at` when there is none. The first that is not stored ends it: it and all behind it are left. */
size_t rmq_send_settle(rmq_send *s, size_t at, size_t done);

#endif
