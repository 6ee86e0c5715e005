#include "format/message_batch.h"
#include "format/be.h"

static int64_t refuse(rmq_batch_fault *fault, int64_t code, int64_t pos, int64_t found, int64_t expected) {
    *fault = (rmq_batch_fault){pos, found, expected};
    return code;
}

int64_t rmq_message_batch_next(const uint8_t *buf, size_t left, int check_size, rmq_batch_message *out,
                               rmq_batch_fault *fault) {
    if (left < RMQ_BATCH_MIN_SIZE) return refuse(fault, RMQ_B_E_SHORT, 0, (int64_t)left, RMQ_BATCH_MIN_SIZE);
    const int32_t total = rmq_load_i32(buf + RMQ_BATCH_TOTALSIZE);
    int64_t room = (int64_t)left;
    if (check_size) {
        if (total < RMQ_BATCH_MIN_SIZE || total > room)
            return refuse(fault, RMQ_B_E_TOTALSIZE, RMQ_BATCH_TOTALSIZE, total, room);
        room = total;
    }
    room -= RMQ_BATCH_MIN_SIZE;
    const int32_t body_len = rmq_load_i32(buf + RMQ_BATCH_BODYLENGTH);
    if (body_len < 0 || body_len > room) return refuse(fault, RMQ_B_E_BODYLENGTH, RMQ_BATCH_BODYLENGTH, body_len, room);
    room -= body_len;
    const uint8_t *behind = buf + RMQ_BATCH_BODY + body_len;
    const int32_t props_len = rmq_load_i16(behind);
    if (props_len < 0 || props_len > room)
        return refuse(fault, RMQ_B_E_PROPERTIESLENGTH, behind - buf, props_len, room);
    if (check_size && props_len != room) {
        return refuse(fault, RMQ_B_E_LENGTHS, RMQ_BATCH_TOTALSIZE, total, total - room + props_len);
    }
    out->flag = rmq_load_i32(buf + RMQ_BATCH_FLAG);
    out->body = buf + RMQ_BATCH_BODY;
    out->body_len = (uint32_t)body_len;
    out->props = behind + 2;
    out->props_len = (uint32_t)props_len;
    return RMQ_BATCH_MIN_SIZE + (int64_t)body_len + props_len;
}

void rmq_message_batch_write(const rmq_batch_message *message, uint8_t *out) {
    rmq_store_i32(out + RMQ_BATCH_TOTALSIZE, (int32_t)rmq_message_batch_size(message));
    rmq_store_i32(out + RMQ_BATCH_MAGIC, 0);
    rmq_store_i32(out + RMQ_BATCH_BODYCRC, 0);
    rmq_store_i32(out + RMQ_BATCH_FLAG, message->flag);
    rmq_store_i32(out + RMQ_BATCH_BODYLENGTH, (int32_t)message->body_len);
    uint8_t *behind = out + RMQ_BATCH_BODY + message->body_len;
    if (message->body_len) memcpy(out + RMQ_BATCH_BODY, message->body, message->body_len);
    rmq_store_i16(behind, (int16_t)message->props_len);
    if (message->props_len) memcpy(behind + 2, message->props, message->props_len);
}
