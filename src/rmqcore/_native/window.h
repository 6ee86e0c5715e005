/* One step of a scan: the record at a position of a window of CommitLog bytes.
 *
 * All sinks (views, columns) walk with rmq_window_step, so there is one answer to "is this a record".
 */
#ifndef RMQ_WINDOW_H
#define RMQ_WINDOW_H

#include "record.h"

typedef struct rmq_window {
    const uint8_t *buf;
    size_t len;           /* readable bytes */
    int64_t phy_offset;   /* CommitLog offset of buf[0] */
    int64_t end_offset;   /* CommitLog offset just past the file (or the whole input); records never cross it */
    int check_place;      /* require PHYSICALOFFSET == phy_offset + pos */
    int check_crc;        /* require BODYCRC */
    int64_t trusted;      /* the record at this CommitLog offset is taken without BODYCRC; -1: none */
} rmq_window;

/* The record's size > 0 with *rec filled, or RMQ_R_BLANK, or RMQ_E_*. RMQ_E_SHORT means "more bytes of the file are
 * needed at pos": a record that would leave the file is RMQ_E_TOTALSIZE instead. pos <= len. */
int32_t rmq_window_step(const rmq_window *w, size_t pos, rmq_record *rec);

#endif
