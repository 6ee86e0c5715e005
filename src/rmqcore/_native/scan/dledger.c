#include "scan/dledger.h"

int32_t rmq_dledger_step(const uint8_t *buf, size_t left, int64_t at, int64_t left_in_file, rmq_record *rec) {
    rec->at = NULL;
    rec->msg_size = 0;
    if (left_in_file < RMQ_BLANK_MIN_SIZE) {
        return rmq_record_refuse(rec, RMQ_E_SHORT_FILE, left_in_file, RMQ_BLANK_MIN_SIZE);
    }
    if (left < RMQ_BLANK_MIN_SIZE) return rmq_record_refuse(rec, RMQ_E_SHORT, (int64_t)left, RMQ_BLANK_MIN_SIZE);
    const int32_t magic = rmq_load_i32(buf);
    const int64_t size = rmq_load_i32(buf + RMQ_DLEDGER_SIZE);
    if (magic == RMQ_DLEDGER_END) {
        return size == left_in_file ? RMQ_R_BLANK : rmq_record_refuse(rec, RMQ_E_DLEDGER_END, size, left_in_file);
    }
    if (magic != RMQ_DLEDGER_ENTRY && magic != RMQ_DLEDGER_NOOP) {
        return rmq_record_refuse(rec, RMQ_E_DLEDGER_MAGIC, magic, RMQ_DLEDGER_ENTRY);
    }
    if (left_in_file < RMQ_DLEDGER_HEAD) return rmq_record_refuse(rec, RMQ_E_DLEDGER_PAST, size, left_in_file);
    if (left < RMQ_DLEDGER_HEAD) return rmq_record_refuse(rec, RMQ_E_SHORT, (int64_t)left, RMQ_DLEDGER_HEAD);
    /* Lengths are compared in 64 bits. */
    const int64_t body_len = rmq_load_i32(buf + RMQ_DLEDGER_BODYLEN);
    const int64_t least = magic == RMQ_DLEDGER_NOOP ? 0 : 1;
    if (body_len < least || size != RMQ_DLEDGER_HEAD + body_len || (magic == RMQ_DLEDGER_NOOP && body_len > 0)) {
        const int64_t expected = magic == RMQ_DLEDGER_NOOP ? 0 : body_len < least ? least : body_len;
        return rmq_record_refuse(rec, RMQ_E_DLEDGER_SIZE, size, RMQ_DLEDGER_HEAD + expected);
    }
    if (size > left_in_file) return rmq_record_refuse(rec, RMQ_E_DLEDGER_PAST, size, left_in_file);
    const int64_t pos = rmq_load_i64(buf + RMQ_DLEDGER_POS);
    if (pos != at) return rmq_record_refuse(rec, RMQ_E_DLEDGER_POS, pos, at);
    if (magic == RMQ_DLEDGER_NOOP) return RMQ_DLEDGER_HEAD;
    rec->msg_size = (uint32_t)body_len;
    const int64_t needed = left_in_file < RMQ_DLEDGER_NEED ? left_in_file : RMQ_DLEDGER_NEED;
    if ((int64_t)left < needed) return rmq_record_refuse(rec, RMQ_E_SHORT, (int64_t)left, needed);
    if (needed < RMQ_DLEDGER_NEED) return RMQ_DLEDGER_HEAD;
    const int64_t total = rmq_load_i32(buf + RMQ_DLEDGER_HEAD + RMQ_REC_TOTALSIZE);
    return total == body_len ? RMQ_DLEDGER_HEAD : rmq_record_refuse(rec, RMQ_E_DLEDGER_BODY, body_len, total);
}
