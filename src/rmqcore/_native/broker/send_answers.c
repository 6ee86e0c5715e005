#include "broker/send.h"
#include "format/text.h"

static uint8_t *put_digits(uint8_t *out, uint64_t value) {
    uint8_t digits[20];
    int at = sizeof digits;
    do {
        digits[--at] = (uint8_t)('0' + value % 10);
        value /= 10;
    } while (value);
    memcpy(out, digits + at, sizeof digits - (size_t)at);
    return out + (sizeof digits - (size_t)at);
}

static uint8_t *put_number(uint8_t *out, int64_t value) {
    if (value < 0) {
        *out++ = '-';
        return put_digits(out, 0 - (uint64_t)value);
    }
    return put_digits(out, (uint64_t)value);
}

/* The offset message ids, joined by commas. */
static uint8_t *put_ids(uint8_t *out, const rmq_put *puts, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const rmq_message *msg = &puts[i].msg;
        if (i > 0) *out++ = ',';
        out += rmq_msg_id_text(msg->store_host, msg->store_host_v6, msg->phy_offset, (char *)out);
    }
    return out;
}

static uint8_t *put_hole(uint8_t *out, int hole, const rmq_send_frame *frame, const rmq_put *puts, size_t count) {
    switch (hole) {
        case RMQ_HOLE_MSG_ID:
            return put_ids(out, puts, count);
        case RMQ_HOLE_QUEUE_ID:
            return put_number(out, puts->msg.queue_id);
        case RMQ_HOLE_QUEUE_OFFSET:
            return put_number(out, puts->msg.queue_offset);
        case RMQ_HOLE_TRANSACTION_ID:
            memcpy(out, frame->uniq_key.p, frame->uniq_key.len);
            return out + frame->uniq_key.len;
        case RMQ_HOLE_OPAQUE:
            return put_number(out, frame->opaque);
        default:
            return out;
    }
}

/* The room suffices: rmq_send_take has reserved it. */
static void put_answer(rmq_send *s, const rmq_send_answer *answer, const rmq_send_frame *frame, const rmq_put *puts,
                       size_t count) {
    uint8_t *begin = s->out + s->out_len, *out = begin + 8;
    for (size_t i = 0; i < answer->count; i++) {
        const rmq_send_part *part = &answer->parts[i];
        memcpy(out, part->text.p, part->text.len);
        out = put_hole(out + part->text.len, part->hole, frame, puts, count);
    }
    const int32_t header_len = (int32_t)(out - begin - 8);
    rmq_store_i32(begin, 4 + header_len);
    rmq_store_i32(begin + 4, header_len);
    s->out_len += 8 + (size_t)header_len;
    s->answer_count++;
}

static void settle_frame(rmq_send *s, const rmq_send_frame *frame, int kind, const rmq_put *puts, size_t count,
                         int64_t bytes) {
    const rmq_put *last = &puts[count - 1];
    frame->topic->counts.sends++;
    frame->topic->counts.messages += (int64_t)count;
    frame->topic->counts.bytes += bytes;
    s->end_phy_offset = last->msg.phy_offset + last->msg_size;
    if (!frame->oneway) put_answer(s, &s->answers[kind], frame, puts, count);
}

size_t rmq_send_settle(rmq_send *s, size_t at, size_t done) {
    if (s->whole) {
        const rmq_send_frame *frame = s->frames;
        if (done < s->count || s->puts[0].status != RMQ_PUT_OK) return at;
        const int kind = frame->uniq_key.p != NULL ? RMQ_ANSWER_BATCH_WITH_ID : RMQ_ANSWER_BATCH;
        settle_frame(s, frame, kind, s->puts, s->count, s->total);
        return frame->end;
    }
    for (size_t i = 0; i < done && s->puts[i].status == RMQ_PUT_OK; i++) {
        settle_frame(s, &s->frames[i], RMQ_ANSWER_SINGLE, &s->puts[i], 1, s->puts[i].msg_size);
        at = s->frames[i].end;
    }
    return at;
}
