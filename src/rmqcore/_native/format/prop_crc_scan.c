#include "format/prop_crc_scan.h"

int64_t rmq_prop_crc_scan(const uint8_t *buf, size_t len, int required, rmq_prop_crc_failure *out, size_t room,
                          int64_t *checked) {
    int64_t failures = 0;
    size_t pos = 0;
    *checked = 0;
    while (pos < len) {
        rmq_record rec;
        const int32_t size = rmq_record_parse(buf + pos, len - pos, &rec);
        if (size < RMQ_REC_MIN_SIZE_V1) break;
        const int has = rmq_record_has_prop_crc(&rec);
        if (has || required) {
            *checked += has;
            if (rmq_record_check_prop_crc(&rec)) {
                if ((uint64_t)failures < room) {
                    const rmq_prop_crc_failure failure = {pos, rec.expected, rec.found};
                    out[failures] = failure;
                }
                failures++;
            }
        }
        pos += (size_t)size;
    }
    return failures;
}
