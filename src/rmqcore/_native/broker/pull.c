#include "broker/pull.h"

enum {
    CONSUMER_GROUP,
    TOPIC,
    QUEUE_ID,
    QUEUE_OFFSET,
    MAX_MSG_NUMS,
    SYS_FLAG,
    COMMIT_OFFSET,
    SUSPEND_TIMEOUT_MILLIS,
    SUB_VERSION,
    SUBSCRIPTION,
    EXPRESSION_TYPE,
    MAX_MSG_BYTES,
    REQUEST_SOURCE,
    FIELDS,
    REQUIRED = (1 << (SUB_VERSION + 1)) - 1,
};

static int field_of(rmq_slice name) {
    switch (name.len) {
        case 5:
            return rmq_slice_is(name, "topic", 5) ? TOPIC : FIELDS;
        case 7:
            return rmq_slice_is(name, "queueId", 7) ? QUEUE_ID : rmq_slice_is(name, "sysFlag", 7) ? SYS_FLAG : FIELDS;
        case 10:
            return rmq_slice_is(name, "maxMsgNums", 10)   ? MAX_MSG_NUMS
                   : rmq_slice_is(name, "subVersion", 10) ? SUB_VERSION
                                                          : FIELDS;
        case 11:
            return rmq_slice_is(name, "queueOffset", 11)   ? QUEUE_OFFSET
                   : rmq_slice_is(name, "maxMsgBytes", 11) ? MAX_MSG_BYTES
                                                           : FIELDS;
        case 12:
            return rmq_slice_is(name, "commitOffset", 12)   ? COMMIT_OFFSET
                   : rmq_slice_is(name, "subscription", 12) ? SUBSCRIPTION
                                                            : FIELDS;
        case 13:
            return rmq_slice_is(name, "consumerGroup", 13)   ? CONSUMER_GROUP
                   : rmq_slice_is(name, "requestSource", 13) ? REQUEST_SOURCE
                                                             : FIELDS;
        case 14:
            return rmq_slice_is(name, "expressionType", 14) ? EXPRESSION_TYPE : FIELDS;
        case 20:
            return rmq_slice_is(name, "suspendTimeoutMillis", 20) ? SUSPEND_TIMEOUT_MILLIS : FIELDS;
        default:
            return FIELDS;
    }
}

static const rmq_request_kind pull_kind = {
    .codes = {RMQ_PULL_MESSAGE, RMQ_LITE_PULL_MESSAGE},
    .field_count = FIELDS,
    .text_field = -1,
    .field_of = field_of,
};

/* A field that is not used; if it is present, its text must be a number. */
static int is_number_if_any(const rmq_request_header *header, int field) {
    int32_t ignored;
    return !rmq_request_has(header, field) || rmq_request_int32(header->fields[field], &ignored);
}

static rmq_slice text_if_any(const rmq_request_header *header, int field) {
    static const rmq_slice none = {0};
    return rmq_request_has(header, field) ? header->fields[field] : none;
}

int rmq_pull_read(const uint8_t *bytes, size_t at, size_t n, rmq_pull *out) {
    rmq_request_frame frame;
    rmq_request_header header;
    const rmq_slice *fields = header.fields;
    if (rmq_request_measure(bytes, at, n, &frame) != RMQ_FRAME_WHOLE) return 0;
    if (!rmq_request_read(&frame, &pull_kind, &header) || header.flag != 0) return 0;
    if ((header.present & REQUIRED) != REQUIRED) return 0;
    out->opaque = header.opaque;
    out->group = fields[CONSUMER_GROUP];
    out->topic = fields[TOPIC];
    out->subscription = text_if_any(&header, SUBSCRIPTION);
    out->expression_type = text_if_any(&header, EXPRESSION_TYPE);
    out->end = frame.end;
    return rmq_request_int32(fields[QUEUE_ID], &out->queue_id) &&
           rmq_request_int64(fields[QUEUE_OFFSET], &out->queue_offset) &&
           rmq_request_int32(fields[MAX_MSG_NUMS], &out->max_msg_nums) &&
           rmq_request_int32(fields[SYS_FLAG], &out->sys_flag) &&
           rmq_request_int64(fields[COMMIT_OFFSET], &out->commit_offset) &&
           rmq_request_int64(fields[SUSPEND_TIMEOUT_MILLIS], &out->suspend_timeout_ms) &&
           rmq_request_int64(fields[SUB_VERSION], &out->sub_version) && is_number_if_any(&header, MAX_MSG_BYTES) &&
           is_number_if_any(&header, REQUEST_SOURCE);
}
