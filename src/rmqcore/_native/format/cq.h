/* ConsumeQueue entries: 20 bytes, PHYSICALOFFSET long, SIZE int, TAGSCODE long. */
#ifndef RMQ_CQ_H
#define RMQ_CQ_H

#include "be.h"
#include "layout.h"

typedef struct rmq_cq_entry {
    int64_t phy_offset;
    int32_t msg_size;
    int64_t tags_code;
} rmq_cq_entry;

/* Whether a record of this SYSFLAG has entries in queues and a queue offset of its own: a record of no transaction, or of a
 * committed transaction (COMMIT); PREPARED and ROLLBACK share the tested bit. INNER_BATCH makes no difference, as in Java:
 * the topic decides on the kind of queue (CommitLogDispatcherBuildConsumeQueue#dispatch). */
static inline int rmq_has_queue_entry(int32_t sys_flag) { return (sys_flag & RMQ_SYS_TRANSACTION_PREPARED) == 0; }

/* p must be readable for RMQ_CQ_STORE_UNIT_SIZE bytes. */
static inline rmq_cq_entry rmq_cq_load(const uint8_t *p) {
    rmq_cq_entry e = {rmq_load_i64(p + RMQ_CQ_PHYSICALOFFSET), rmq_load_i32(p + RMQ_CQ_SIZE),
                      rmq_load_i64(p + RMQ_CQ_TAGSCODE)};
    return e;
}

static inline void rmq_cq_store(uint8_t *p, rmq_cq_entry e) {
    rmq_store_i64(p + RMQ_CQ_PHYSICALOFFSET, e.phy_offset);
    rmq_store_i32(p + RMQ_CQ_SIZE, e.msg_size);
    rmq_store_i64(p + RMQ_CQ_TAGSCODE, e.tags_code);
}

/* ConsumeQueue#recover: whether this is an entry; fillers are. */
static inline int rmq_cq_is_valid(rmq_cq_entry e) { return e.phy_offset >= 0 && e.msg_size > 0; }

/* The entry that fills the room before a queue's first message; it has no record. */
#define RMQ_CQ_FILLER ((rmq_cq_entry){0, RMQ_CQ_FILLER_SIZE, 0})

static inline int rmq_cq_is_filler(rmq_cq_entry e) {
    return e.phy_offset == 0 && e.msg_size == RMQ_CQ_FILLER_SIZE && e.tags_code == 0;
}

#endif
