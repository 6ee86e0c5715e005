#include "window.h"

static int32_t refuse(rmq_record *rec, int32_t code, int64_t found, int64_t expected) {
    rec->found = found;
    rec->expected = expected;
    return code;
}

int32_t rmq_window_step(const rmq_window *w, size_t pos, rmq_record *rec) {
    const size_t left = w->len - pos;
    const int64_t at = w->phy_offset + (int64_t)pos;
    const int32_t size = rmq_record_parse(w->buf + pos, left, rec);
    if (size == RMQ_E_SHORT) {
        const int64_t left_in_file = w->end_offset - at;
        const int64_t needed = rec->msg_size ? (int64_t)rec->msg_size : RMQ_BLANK_MIN_SIZE;
        if (needed <= left_in_file) return RMQ_E_SHORT;
        /* For a header that does not fit, found = what is left; for a record, its TOTALSIZE and the most it may be. */
        if (rec->msg_size == 0) return refuse(rec, RMQ_E_SHORT_FILE, left_in_file, RMQ_BLANK_MIN_SIZE);
        return refuse(rec, RMQ_E_PAST_FILE, rec->msg_size, left_in_file);
    }
    if (size == RMQ_R_BLANK) {
        const int64_t left_in_file = w->end_offset - at;
        if (rec->msg_size == left_in_file) return RMQ_R_BLANK;
        return refuse(rec, RMQ_E_BLANKSIZE, rec->msg_size, left_in_file);
    }
    if (size <= 0) return size;
    if (w->check_place && rmq_rec_phy_offset(rec) != at) {
        return refuse(rec, RMQ_E_PHYSICALOFFSET, rmq_rec_phy_offset(rec), at);
    }
    if (w->check_crc && w->trusted != at) {
        const int32_t bad = rmq_record_check_body_crc(rec);
        if (bad) return bad;
    }
    return size;
}
