/* The body of a producer's batch: messages one after the other, each as
 *
 *   TOTALSIZE int, MAGICCODE int (0), BODYCRC int (0), FLAG int, BODYLENGTH int, body, PROPERTIESLENGTH short, properties
 *
 * big-endian. A broker makes a record of each; a stored batch (INNER_BATCH) has the same bytes as its body.
 * Source: RocketMQ 5.5.0 MessageDecoder#encodeMessage, #decodeMessage, MessageExtEncoder#encode(MessageExtBatch).
 */
#ifndef RMQ_MESSAGE_BATCH_H
#define RMQ_MESSAGE_BATCH_H

#include <stddef.h>
#include <stdint.h>

enum {
    RMQ_BATCH_TOTALSIZE = 0,
    RMQ_BATCH_MAGIC = RMQ_BATCH_TOTALSIZE + 4,
    RMQ_BATCH_BODYCRC = RMQ_BATCH_MAGIC + 4,
    RMQ_BATCH_FLAG = RMQ_BATCH_BODYCRC + 4,
    RMQ_BATCH_BODYLENGTH = RMQ_BATCH_FLAG + 4,
    RMQ_BATCH_BODY = RMQ_BATCH_BODYLENGTH + 4,
    RMQ_BATCH_MIN_SIZE = RMQ_BATCH_BODY + 2, /* of a message without body and properties */
};

/* What is wrong with a message. The codes are stable: the extension names them. */
enum {
    RMQ_B_E_SHORT = -1,            /* fewer bytes than the smallest message */
    RMQ_B_E_TOTALSIZE = -2,        /* below the smallest message, or past the end */
    RMQ_B_E_BODYLENGTH = -3,       /* negative, or past the end */
    RMQ_B_E_PROPERTIESLENGTH = -4, /* negative, or past the end */
    RMQ_B_E_LENGTHS = -5,          /* the lengths do not add up to TOTALSIZE */
};

typedef struct rmq_batch_message {
    int32_t flag;
    const uint8_t *body, *props;
    uint32_t body_len, props_len;
} rmq_batch_message;

/* Place of the field behind the message's first byte, its value, and the greatest allowed value (RMQ_B_E_SHORT,
 * RMQ_B_E_LENGTHS: the required value). */
typedef struct rmq_batch_fault {
    int64_t pos, found, expected;
} rmq_batch_fault;

/* Reads the message at buf[0..left). Returns its bytes, at least RMQ_BATCH_MIN_SIZE, or a code with *fault. `check_size`:
 * TOTALSIZE must be the sum by the other lengths; Java's readers skip it. */
int64_t rmq_message_batch_next(const uint8_t *buf, size_t left, int check_size, rmq_batch_message *out,
                               rmq_batch_fault *fault);

/* Bytes of a message. Its properties have at most 32,767. */
static inline int64_t rmq_message_batch_size(const rmq_batch_message *message) {
    return RMQ_BATCH_MIN_SIZE + (int64_t)message->body_len + (int64_t)message->props_len;
}

/* Writes a message of rmq_message_batch_size() bytes, at most INT32_MAX, to out. */
void rmq_message_batch_write(const rmq_batch_message *message, uint8_t *out);

#endif
