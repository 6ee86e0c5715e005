#include "format/checkpoint.h"

int rmq_checkpoint_decode(const uint8_t *buf, size_t len, rmq_checkpoint *out) {
    if (len < RMQ_CKP_USED_SIZE) return RMQ_CKP_E_SHORT;
    out->physic_msg_timestamp = rmq_load_i64(buf + RMQ_CKP_PHYSICMSGTIMESTAMP);
    out->logics_msg_timestamp = rmq_load_i64(buf + RMQ_CKP_LOGICSMSGTIMESTAMP);
    out->index_msg_timestamp = rmq_load_i64(buf + RMQ_CKP_INDEXMSGTIMESTAMP);
    out->master_flushed_offset = rmq_load_i64(buf + RMQ_CKP_MASTERFLUSHEDOFFSET);
    out->confirm_phy_offset = rmq_load_i64(buf + RMQ_CKP_CONFIRMPHYOFFSET);
    out->logics_physical_offset = rmq_load_i64(buf + RMQ_CKP_LOGICSPHYSICALOFFSET);
    return 0;
}

int rmq_checkpoint_encode(const rmq_checkpoint *checkpoint, uint8_t *out, size_t room) {
    if (room < RMQ_CKP_USED_SIZE) return RMQ_CKP_E_SHORT;
    rmq_store_i64(out + RMQ_CKP_PHYSICMSGTIMESTAMP, checkpoint->physic_msg_timestamp);
    rmq_store_i64(out + RMQ_CKP_LOGICSMSGTIMESTAMP, checkpoint->logics_msg_timestamp);
    rmq_store_i64(out + RMQ_CKP_INDEXMSGTIMESTAMP, checkpoint->index_msg_timestamp);
    rmq_store_i64(out + RMQ_CKP_MASTERFLUSHEDOFFSET, checkpoint->master_flushed_offset);
    rmq_store_i64(out + RMQ_CKP_CONFIRMPHYOFFSET, checkpoint->confirm_phy_offset);
    rmq_store_i64(out + RMQ_CKP_LOGICSPHYSICALOFFSET, checkpoint->logics_physical_offset);
    return 0;
}
