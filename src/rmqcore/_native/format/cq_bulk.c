#include "format/cq_bulk.h"

size_t rmq_cq_valid_prefix(const uint8_t *buf, size_t len) {
    size_t n = len / RMQ_CQ_STORE_UNIT_SIZE;
    for (size_t i = 0; i < n; i++) {
        if (!rmq_cq_is_valid(rmq_cq_load(buf + i * RMQ_CQ_STORE_UNIT_SIZE))) return i;
    }
    return n;
}

size_t rmq_cq_prefix_below(const uint8_t *buf, size_t len, int64_t phy_offset) {
    size_t n = len / RMQ_CQ_STORE_UNIT_SIZE;
    for (size_t i = 0; i < n; i++) {
        rmq_cq_entry e = rmq_cq_load(buf + i * RMQ_CQ_STORE_UNIT_SIZE);
        if (!rmq_cq_is_valid(e) || e.phy_offset >= phy_offset) return i;
    }
    return n;
}

size_t rmq_cq_rising_prefix(const uint8_t *buf, size_t len, int64_t log_end, int64_t *last_end) {
    const size_t n = len / RMQ_CQ_STORE_UNIT_SIZE;
    for (size_t i = 0; i < n; i++) {
        const rmq_cq_entry e = rmq_cq_load(buf + i * RMQ_CQ_STORE_UNIT_SIZE);
        if (!rmq_cq_is_valid(e) || (e.phy_offset == 0 && e.msg_size == RMQ_CQ_FILLER_SIZE)) return i;
        if (e.phy_offset < *last_end || e.phy_offset > log_end || e.msg_size > log_end - e.phy_offset) return i;
        *last_end = e.phy_offset + e.msg_size;
    }
    return n;
}

int64_t rmq_cq_pack(const rmq_cq_columns *columns, size_t count, uint8_t *out, size_t room) {
    if (count > room / RMQ_CQ_STORE_UNIT_SIZE) return RMQ_CQ_E_ROOM;
    for (size_t i = 0; i < count; i++) {
        rmq_cq_entry e = {columns->phy_offset[i], columns->msg_size[i], columns->tags_code[i]};
        rmq_cq_store(out + i * RMQ_CQ_STORE_UNIT_SIZE, e);
    }
    return (int64_t)(count * RMQ_CQ_STORE_UNIT_SIZE);
}
