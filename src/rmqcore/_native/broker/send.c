#include "broker/send.h"
#include "broker/send_properties.h"
#include "format/message_batch.h"
#include "format/text.h"
#include <stdlib.h>

enum {
    PLAIN_SYS_FLAGS = RMQ_SYS_COMPRESSED | RMQ_SYS_COMPRESSION_TYPE_MASK,
    MAX_UNIQ_KEY_LEN = 255,
    NUMBERS_ROOM = 64, /* of a response: queue id, queue offset, opaque, the frame's words */
};

int rmq_send_init(rmq_send *s) {
    memset(s, 0, sizeof *s);
    s->added.p = (const uint8_t *)"";
    s->puts = malloc(RMQ_SEND_MOST_PUTS * sizeof *s->puts);
    s->frames = malloc(RMQ_SEND_MOST_PUTS * sizeof *s->frames);
    s->scratch = malloc(RMQ_SEND_SCRATCH);
    if (rmq_send_topics_init(&s->topics) == 0 && s->puts != NULL && s->frames != NULL && s->scratch != NULL) return 0;
    rmq_send_destroy(s);
    return -1;
}

void rmq_send_destroy(rmq_send *s) {
    rmq_send_topics_destroy(&s->topics);
    free(s->puts);
    free(s->frames);
    free(s->scratch);
    free(s->out);
    memset(s, 0, sizeof *s);
}

/* ---- room for the answers, before anything is appended ------------------------------------------------- */

static int make_room(rmq_send *s, const rmq_send_answer *answer, size_t ids, size_t uniq_key_len) {
    size_t need = NUMBERS_ROOM + uniq_key_len + ids * (RMQ_MSG_ID_V6_LEN + 1);
    for (size_t i = 0; i < answer->count; i++) need += answer->parts[i].text.len;
    s->reserved += need;
    if (s->out_room - s->out_len >= s->reserved) return 0;
    const size_t room = 2 * (s->out_len + s->reserved);
    uint8_t *out = realloc(s->out, room);
    if (out == NULL) return -1;
    s->out = out;
    s->out_room = room;
    return 0;
}

/* ---- one frame ------------------------------------------------------------------------------------------ */

typedef struct request {
    rmq_request_header header;
    int32_t queue_id, sys_flag, flag, reconsume_times;
    int64_t born_timestamp;
    int is_batch;
    rmq_send_topic *topic;
    const uint8_t *body;
    size_t body_len;
} request;

/* An optional field whose text must be a number. */
static int is_number_if_any(const rmq_request_header *header, int field, int32_t *out) {
    *out = 0;
    return !rmq_request_has(header, field) || rmq_request_int32(header->fields[field], out);
}

static int read_fields(rmq_send *s, request *r) {
    const rmq_request_header *h = &r->header;
    int32_t ignored;
    if ((h->present & RMQ_SEND_REQUIRED) != RMQ_SEND_REQUIRED) return 0;
    if (h->flag != 0 && h->flag != RMQ_FLAG_ONEWAY) return 0;
    r->topic = rmq_send_topics_find(&s->topics, h->fields[RMQ_SEND_TOPIC].p, h->fields[RMQ_SEND_TOPIC].len);
    if (r->topic == NULL) return 0;
    r->is_batch = rmq_request_has(h, RMQ_SEND_BATCH) && rmq_slice_is(h->fields[RMQ_SEND_BATCH], "true", 4);
    if (rmq_request_has(h, RMQ_SEND_BATCH) && !r->is_batch && !rmq_slice_is(h->fields[RMQ_SEND_BATCH], "false", 5))
        return 0;
    if (r->is_batch != (h->code == RMQ_SEND_BATCH_MESSAGE)) return 0;
    return rmq_request_int32(h->fields[RMQ_SEND_DEFAULT_TOPIC_QUEUE_NUMS], &ignored) &&
           rmq_request_int32(h->fields[RMQ_SEND_QUEUE_ID], &r->queue_id) && r->queue_id >= 0 &&
           r->queue_id < r->topic->queue_nums && rmq_request_int32(h->fields[RMQ_SEND_SYS_FLAG], &r->sys_flag) &&
           !(r->sys_flag & ~PLAIN_SYS_FLAGS) &&
           rmq_request_int64(h->fields[RMQ_SEND_BORN_TIMESTAMP], &r->born_timestamp) &&
           rmq_request_int32(h->fields[RMQ_SEND_FLAG], &r->flag) &&
           is_number_if_any(h, RMQ_SEND_RECONSUME_TIMES, &r->reconsume_times) &&
           is_number_if_any(h, RMQ_SEND_MAX_RECONSUME_TIMES, &ignored);
}

static void fill(const rmq_send *s, const request *r, rmq_put *put, rmq_slice props) {
    rmq_message *msg = &put->msg;
    msg->topic = r->topic->name;
    msg->topic_len = r->topic->name_len;
    msg->props = props.p;
    msg->props_len = props.len;
    msg->queue_id = r->queue_id;
    msg->sys_flag = r->sys_flag;
    msg->reconsume_times = r->reconsume_times;
    msg->prepared_transaction_offset = 0;
    msg->born_timestamp = r->born_timestamp;
    msg->born_host_v6 = s->born_host_v6;
    msg->store_host_v6 = s->store_host_v6;
    memcpy(msg->born_host, s->born_host, sizeof msg->born_host);
    memcpy(msg->store_host, s->store_host, sizeof msg->store_host);
    put->born_now = 0;
}

/* The properties, with `room` bytes to spare behind them in the scratch; p NULL: no room, or not a JSON text. */
static rmq_slice read_properties(rmq_send *s, const rmq_request_header *header, size_t room) {
    rmq_slice text = {s->scratch + s->scratch_used, 0};
    if (!rmq_request_has(header, RMQ_SEND_PROPERTIES)) return text;
    const rmq_slice found = header->fields[RMQ_SEND_PROPERTIES];
    uint8_t *out = s->scratch + s->scratch_used;
    int64_t len = found.len;
    text.p = NULL;
    if (found.len + room > RMQ_SEND_SCRATCH - s->scratch_used) return text;
    if (header->escaped) {
        len = rmq_request_unescape(found, out);
        if (len < 0) return text;
    } else {
        memcpy(out, found.p, found.len);
    }
    text.p = out;
    text.len = (uint32_t)len;
    return text;
}

/* A unique key is copied into the response: it must not contain a character that JSON escapes. */
static int is_plain_id(rmq_slice id) {
    if (id.len > MAX_UNIQ_KEY_LEN) return 0;
    for (uint32_t i = 0; i < id.len; i++) {
        if (id.p[i] < 0x20 || id.p[i] > 0x7E || id.p[i] == '"' || id.p[i] == '\\') return 0;
    }
    return 1;
}

static int add_frame(rmq_send *s, const request *r, rmq_slice uniq_key, size_t end, int kind, size_t ids) {
    rmq_send_frame *frame = &s->frames[r->is_batch ? 0 : s->count];
    frame->end = end;
    frame->opaque = r->header.opaque;
    frame->oneway = r->header.flag == RMQ_FLAG_ONEWAY;
    frame->uniq_key = uniq_key;
    frame->topic = r->topic;
    return frame->oneway ? 0 : make_room(s, &s->answers[kind], ids, uniq_key.len);
}

/* 1: prepared. 0: not plain. -1: out of memory. */
static int prepare_single(rmq_send *s, const rmq_log *log, const request *r, size_t end) {
    rmq_put *put = &s->puts[s->count];
    rmq_plain_props plain;
    rmq_slice props = read_properties(s, &r->header, s->added.len + 1);
    if (r->body_len == 0 || props.p == NULL || !rmq_props_plain(props.p, props.len, &plain)) return 0;
    if (plain.uniq_key.p == NULL || !is_plain_id(plain.uniq_key) || (s->waits && !plain.waits)) return 0;
    uint8_t *out = s->scratch + s->scratch_used + props.len;
    if (out[-1] != RMQ_PROPERTY_SEPARATOR) *out++ = RMQ_PROPERTY_SEPARATOR;
    memcpy(out, s->added.p, s->added.len);
    out += s->added.len;
    props.len = (uint32_t)(out - props.p);
    fill(s, r, put, props);
    put->msg.flag = r->flag;
    put->msg.body = r->body;
    put->msg.body_len = r->body_len;
    rmq_put_check(log, put);
    if (put->status != RMQ_PUT_WAITING) return 0;
    if (add_frame(s, r, plain.uniq_key, end, RMQ_ANSWER_SINGLE, 1) != 0) return -1;
    s->scratch_used += props.len;
    s->total += put->msg_size;
    s->count++;
    return 1;
}

/* Reads the message at *pos of a batch's image. Moves *pos behind it. */
static int prepare_of_batch(rmq_send *s, const rmq_log *log, const request *r, size_t *pos) {
    rmq_put *put = &s->puts[s->count];
    rmq_plain_props plain;
    rmq_batch_message message;
    rmq_batch_fault fault;
    if (s->count == RMQ_SEND_MOST_PUTS) return 0;
    const int64_t size = rmq_message_batch_next(r->body + *pos, r->body_len - *pos, 0, &message, &fault);
    if (size < 0) return 0;
    rmq_slice props = {message.props, message.props_len};
    if (!rmq_props_plain(props.p, props.len, &plain)) return 0;
    *pos += (size_t)size;
    if (props.len > 0 && props.p[props.len - 1] != RMQ_PROPERTY_SEPARATOR) {
        if ((size_t)props.len + 1 > RMQ_SEND_SCRATCH - s->scratch_used) return 0;
        uint8_t *copy = s->scratch + s->scratch_used;
        memcpy(copy, props.p, props.len);
        copy[props.len] = RMQ_PROPERTY_SEPARATOR;
        props.p = copy;
        s->scratch_used += ++props.len;
    }
    fill(s, r, put, props);
    put->msg.flag = message.flag;
    put->msg.body = message.body;
    put->msg.body_len = message.body_len;
    rmq_put_check(log, put);
    if (put->status != RMQ_PUT_WAITING) return 0;
    s->total += put->msg_size;
    s->count++;
    return 1;
}

/* As prepare_single; the group is empty before, and after a 0. */
static int prepare_batch(rmq_send *s, const rmq_log *log, const request *r, size_t end) {
    rmq_plain_props plain;
    const rmq_slice props = read_properties(s, &r->header, 0);
    if (props.p == NULL || !rmq_props_plain(props.p, props.len, &plain)) return 0;
    const int has_id = plain.uniq_key.p != NULL;
    if ((has_id && !is_plain_id(plain.uniq_key)) || (s->waits && !plain.waits)) return 0;
    s->scratch_used += props.len;
    int64_t image = 0; /* bounded as for single messages: each with a last separator */
    for (size_t pos = 0; pos < r->body_len;) {
        if (!prepare_of_batch(s, log, r, &pos)) return 0;
        const rmq_message *msg = &s->puts[s->count - 1].msg;
        image += RMQ_BATCH_MIN_SIZE + (int64_t)msg->body_len + (int64_t)msg->props_len;
    }
    if (s->count == 0 || image > rmq_log_max_message_size(log)) return 0;
    s->whole = 1;
    const int kind = has_id ? RMQ_ANSWER_BATCH_WITH_ID : RMQ_ANSWER_BATCH;
    return add_frame(s, r, plain.uniq_key, end, kind, s->count) == 0 ? 1 : -1;
}

/* ---- the group ------------------------------------------------------------------------------------------ */

static void begin_group(rmq_send *s) {
    s->count = s->scratch_used = s->reserved = 0;
    s->total = 0;
    s->whole = 0;
}

static int read_request(rmq_send *s, const rmq_request_frame *frame, request *r) {
    r->body = frame->body;
    r->body_len = frame->body_len;
    return rmq_request_read(frame, &rmq_send_kind, &r->header) && read_fields(s, r);
}

int rmq_send_take(rmq_send *s, const rmq_log *log, const uint8_t *bytes, size_t at, size_t n) {
    begin_group(s);
    for (;;) {
        request r;
        rmq_request_frame frame;
        const int came = rmq_request_measure(bytes, at, n, &frame);
        if (came != RMQ_FRAME_WHOLE) return came;
        if (!read_request(s, &frame, &r)) return RMQ_SEND_PYTHON;
        if (r.is_batch && s->count > 0) return RMQ_SEND_AGAIN;
        const int added = r.is_batch ? prepare_batch(s, log, &r, frame.end) : prepare_single(s, log, &r, frame.end);
        if (added < 0) return -1;
        if (added == 0) {
            if (r.is_batch) begin_group(s);
            /* With an empty scratch the send may be plain after all. */
            return s->scratch_used > 0 ? RMQ_SEND_AGAIN : RMQ_SEND_PYTHON;
        }
        at = frame.end;
        if (r.is_batch || s->count == RMQ_SEND_MOST_PUTS) return RMQ_SEND_AGAIN;
    }
}
