/* One step of a scan: the record at a position of a window of CommitLog bytes.
 *
 * All sinks (views, columns) walk with rmq_window_step, so one function decides what a record is.
 */
#ifndef RMQ_WINDOW_H
#define RMQ_WINDOW_H

#include "format/record.h"

typedef struct rmq_window {
    const uint8_t *buf;
    size_t len;           /* readable bytes */
    int64_t phy_offset;   /* CommitLog offset of buf[0] */
    int64_t end_offset;   /* CommitLog offset just past the file (or the whole input); records never cross it */
    int check_place;      /* require PHYSICALOFFSET == phy_offset + pos */
    int check_crc;        /* require BODYCRC */
    int64_t trusted;      /* the record at this CommitLog offset is accepted without BODYCRC; -1: none */
} rmq_window;

/* The record's size > 0 with *rec filled, or RMQ_R_BLANK, or RMQ_E_*. RMQ_E_SHORT means "more bytes of the file are
 * needed at pos": a record that would leave the file is RMQ_E_TOTALSIZE instead. pos <= len. */
static inline int32_t rmq_window_step(const rmq_window *w, size_t pos, rmq_record *rec) {
    const size_t left = w->len - pos;
    const int64_t at = w->phy_offset + (int64_t)pos;
    const int32_t size = rmq_record_parse(w->buf + pos, left, rec);
    if (size == RMQ_E_SHORT) {
        const int64_t left_in_file = w->end_offset - at;
        const int64_t needed = rec->msg_size ? (int64_t)rec->msg_size : RMQ_BLANK_MIN_SIZE;
        if (needed <= left_in_file) return RMQ_E_SHORT;
        /* For a header that does not fit, found = the bytes left; for a record, its TOTALSIZE and the greatest allowed.
         * */
        if (rec->msg_size == 0) return rmq_record_refuse(rec, RMQ_E_SHORT_FILE, left_in_file, RMQ_BLANK_MIN_SIZE);
        return rmq_record_refuse(rec, RMQ_E_PAST_FILE, rec->msg_size, left_in_file);
    }
    if (size == RMQ_R_BLANK) {
        const int64_t left_in_file = w->end_offset - at;
        if (rec->msg_size == left_in_file) return RMQ_R_BLANK;
        return rmq_record_refuse(rec, RMQ_E_BLANKSIZE, rec->msg_size, left_in_file);
    }
    if (size <= 0) return size;
    if (w->check_place && rmq_rec_phy_offset(rec) != at) {
        return rmq_record_refuse(rec, RMQ_E_PHYSICALOFFSET, rmq_rec_phy_offset(rec), at);
    }
    if (w->check_crc && w->trusted != at) {
        const int32_t bad = rmq_record_check_body_crc(rec);
        if (bad) return bad;
    }
    return size;
}

#endif
