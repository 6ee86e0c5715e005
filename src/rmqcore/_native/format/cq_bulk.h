/* ConsumeQueue entries in bulk. */
#ifndef RMQ_CQ_BULK_H
#define RMQ_CQ_BULK_H

#include "cq.h"
#include <stddef.h>

enum { RMQ_CQ_E_ROOM = -1 /* the output has no room for that many entries */ };

/* Entries of [buf, buf + len) before the first invalid one; bytes of a last, partial entry do not count. */
size_t rmq_cq_valid_prefix(const uint8_t *buf, size_t len);

/* Like rmq_cq_valid_prefix, and stops as well at the first entry that starts at or after phy_offset
 * (ConsumeQueue#truncateDirtyLogicFiles). */
size_t rmq_cq_prefix_below(const uint8_t *buf, size_t len, int64_t phy_offset);

/* Entries before the first without a message in the log, which ends at log_end, or not behind the entry before it.
 * *last_end: in: the end of the message before the first entry; out: the end of the last counted message. */
size_t rmq_cq_rising_prefix(const uint8_t *buf, size_t len, int64_t log_end, int64_t *last_end);

/* Columns of equal length, in the host's byte order. */
typedef struct rmq_cq_columns {
    const int64_t *phy_offset;
    const int32_t *msg_size;
    const int64_t *tags_code;
} rmq_cq_columns;

/* Writes count entries to out. Returns the bytes written, or RMQ_CQ_E_ROOM (and nothing is written). */
int64_t rmq_cq_pack(const rmq_cq_columns *columns, size_t count, uint8_t *out, size_t room);

#endif
