/* Pull requests as received: PULL_MESSAGE and LITE_PULL_MESSAGE, which have the same fields. Python makes the response. */
#ifndef RMQ_PULL_H
#define RMQ_PULL_H

#include "broker/request.h"

enum { RMQ_PULL_MESSAGE = 11, RMQ_LITE_PULL_MESSAGE = 361 };

typedef struct rmq_pull {
    int32_t opaque, queue_id, max_msg_nums, sys_flag;
    int64_t queue_offset, commit_offset, suspend_timeout_ms, sub_version;
    rmq_slice group, topic;
    rmq_slice subscription, expression_type; /* p NULL: missing */
    size_t end; /* behind the frame, from the start of the bytes */
} rmq_pull;

/* Read the frame at `at`. 1: a pull request that expects a response, with all required fields, each of its type.
 * 0: another request, or not plain, or the frame is incomplete or broken. */
int rmq_pull_read(const uint8_t *bytes, size_t at, size_t n, rmq_pull *out);

#endif
