/* Pulls as they came: PULL_MESSAGE and LITE_PULL_MESSAGE, which have the same fields. What is answered is Python's business. */
#ifndef RMQ_PULL_H
#define RMQ_PULL_H

#include "broker/request.h"

enum { RMQ_PULL_MESSAGE = 11, RMQ_LITE_PULL_MESSAGE = 361 };

typedef struct rmq_pull {
    int32_t opaque, queue_id, max_msg_nums, sys_flag;
    int64_t queue_offset, commit_offset, suspend_timeout_ms, sub_version;
    rmq_slice group, topic;
    rmq_slice subscription, expression_type; /* p NULL: it has none */
    size_t end; /* behind the frame, from the start of the bytes */
} rmq_pull;

/* Read the frame at `at`. 1: it is such a request, wants an answer, and has all fields that it must have, each with its type.
 * 0: it is none, or not plain, or less than a frame is left, or no frame. */
int rmq_pull_read(const uint8_t *bytes, size_t at, size_t n, rmq_pull *out);

#endif
