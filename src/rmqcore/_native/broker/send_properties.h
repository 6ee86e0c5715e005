/* Which properties are stored as they came: none of them leads a message elsewhere, is one that the broker adds, or stands there
 * twice.
 */
#ifndef RMQ_SEND_PROPERTIES_H
#define RMQ_SEND_PROPERTIES_H

#include "format/properties.h"

typedef struct rmq_plain_props {
    rmq_slice uniq_key; /* p NULL: there is none */
    int waits; /* nothing says that nobody waits for the disk */
} rmq_plain_props;

/* 1: the properties are plain, of well-formed UTF-8, and nothing but pairs; the last 0x02 may be missing. 0: Python looks at them. */
int rmq_props_plain(const uint8_t *props, size_t len, rmq_plain_props *out);

#endif
