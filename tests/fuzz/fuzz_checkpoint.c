/* The checkpoint: six longs in, the same bytes out, whatever they are. */
#include "format/checkpoint.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    rmq_checkpoint c;
    memset(&c, 0, sizeof c);
    const int code = rmq_checkpoint_decode(data, size, &c);
    CHECK(code == (size < RMQ_CKP_USED_SIZE ? RMQ_CKP_E_SHORT : 0));
    if (code) return 0;
    CHECK(c.physic_msg_timestamp == rmq_load_i64(data) && c.logics_physical_offset == rmq_load_i64(data + 40));
    uint8_t *out = malloc(RMQ_CKP_USED_SIZE);
    CHECK(out != NULL);
    CHECK(rmq_checkpoint_encode(&c, out, RMQ_CKP_USED_SIZE - 1) == RMQ_CKP_E_SHORT);
    CHECK(rmq_checkpoint_encode(&c, out, RMQ_CKP_USED_SIZE) == 0);
    CHECK(memcmp(out, data, RMQ_CKP_USED_SIZE) == 0);
    free(out);
    return 0;
}
