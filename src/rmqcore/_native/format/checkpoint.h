/* The checkpoint file: six longs at the start of 4096 bytes, the rest is zero. */
#ifndef RMQ_CHECKPOINT_H
#define RMQ_CHECKPOINT_H

#include "format/be.h"
#include "format/layout.h"
#include <stddef.h>

enum { RMQ_CKP_E_SHORT = -1 /* fewer than RMQ_CKP_USED_SIZE bytes */ };

typedef struct rmq_checkpoint {
    int64_t physic_msg_timestamp, logics_msg_timestamp, index_msg_timestamp; /* milliseconds */
    int64_t master_flushed_offset, confirm_phy_offset, logics_physical_offset; /* CommitLog bytes */
} rmq_checkpoint;

/* Reads [buf, buf + RMQ_CKP_USED_SIZE). 0 or RMQ_CKP_E_SHORT. */
int rmq_checkpoint_decode(const uint8_t *buf, size_t len, rmq_checkpoint *out);

/* Writes the longs to [out, out + RMQ_CKP_USED_SIZE). 0 or RMQ_CKP_E_SHORT. */
int rmq_checkpoint_encode(const rmq_checkpoint *checkpoint, uint8_t *out, size_t room);

#endif
