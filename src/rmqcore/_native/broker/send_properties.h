/* The properties that are stored as received: none of them redirects the message or is added by the broker, and none occurs
 * twice.
 */
#ifndef RMQ_SEND_PROPERTIES_H
#define RMQ_SEND_PROPERTIES_H

#include "format/properties.h"

typedef struct rmq_plain_props {
    rmq_slice uniq_key; /* p NULL: missing */
    int waits; /* no property says that the producer does not wait for the disk */
} rmq_plain_props;

/* 1: the properties are plain, well-formed UTF-8, and only pairs; the last 0x02 may be missing. 0: left to Python. */
int rmq_props_plain(const uint8_t *props, size_t len, rmq_plain_props *out);

#endif
