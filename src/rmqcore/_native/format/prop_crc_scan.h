/* The appended property CRC of every record in a run of sound records. */
#ifndef RMQ_PROP_CRC_SCAN_H
#define RMQ_PROP_CRC_SCAN_H

#include "format/record.h"

typedef struct rmq_prop_crc_failure {
    size_t pos;              /* of the record in the buffer */
    int64_t expected, found; /* as rmq_record_check_prop_crc leaves them */
} rmq_prop_crc_failure;

/* Checks the records of [buf, buf + len), which follow each other without a gap, whose properties end in a __CRC32# area; with `required`
 * a record without one fails (found -1, expected 0). Returns the number of failures, the first `room` of them in out, and in
 * *checked the number of records with the area. Ends early at bytes that are not a record. */
int64_t rmq_prop_crc_scan(const uint8_t *buf, size_t len, int required, rmq_prop_crc_failure *out, size_t room,
                          int64_t *checked);

#endif
