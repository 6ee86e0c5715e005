/* ConsumeQueue entries: prefixes end where an entry-by-entry look says, and packing gives the bytes back. */
#include "format/cq_bulk.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int64_t limit;
    uint8_t control[8];
    take_control(&data, &size, control, sizeof control);
    limit = rmq_load_i64(control);
    const size_t count = size / RMQ_CQ_STORE_UNIT_SIZE;
    size_t valid = 0, below = 0;
    while (valid < count && rmq_cq_is_valid(rmq_cq_load(data + valid * RMQ_CQ_STORE_UNIT_SIZE))) valid++;
    while (below < valid && rmq_cq_load(data + below * RMQ_CQ_STORE_UNIT_SIZE).phy_offset < limit) below++;
    CHECK(rmq_cq_valid_prefix(data, size) == valid);
    CHECK(rmq_cq_prefix_below(data, size, limit) == below);
    int64_t end = 0;
    const size_t rising = rmq_cq_rising_prefix(data, size, limit, &end);
    CHECK(rising <= valid && end >= 0 && (rising == 0 || end <= limit));

    int64_t *phy_offset = malloc(count * sizeof *phy_offset + 1), *tags_code = malloc(count * sizeof *tags_code + 1);
    int32_t *msg_size = malloc(count * sizeof *msg_size + 1);
    uint8_t *out = malloc(count * RMQ_CQ_STORE_UNIT_SIZE + 1);
    CHECK(phy_offset && tags_code && msg_size && out);
    for (size_t i = 0; i < count; i++) {
        const rmq_cq_entry e = rmq_cq_load(data + i * RMQ_CQ_STORE_UNIT_SIZE);
        phy_offset[i] = e.phy_offset, msg_size[i] = e.msg_size, tags_code[i] = e.tags_code;
        if (rmq_cq_is_filler(e)) CHECK(rmq_cq_is_valid(e));
        uint8_t one[RMQ_CQ_STORE_UNIT_SIZE];
        rmq_cq_store(one, e);
        CHECK(memcmp(one, data + i * RMQ_CQ_STORE_UNIT_SIZE, sizeof one) == 0);
    }
    const rmq_cq_columns columns = {phy_offset, msg_size, tags_code};
    const size_t bytes = count * RMQ_CQ_STORE_UNIT_SIZE;
    if (count) CHECK(rmq_cq_pack(&columns, count, out, bytes - 1) == RMQ_CQ_E_ROOM);
    CHECK(rmq_cq_pack(&columns, count, out, bytes) == (int64_t)bytes);
    CHECK(bytes == 0 || memcmp(out, data, bytes) == 0);
    free(phy_offset);
    free(tags_code);
    free(msg_size);
    free(out);
    return 0;
}
