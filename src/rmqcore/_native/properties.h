/* The properties string: name 0x01 value 0x02, repeated. Parser corners are those of MessageDecoder#string2messageProperties:
 * a pair without 0x01, with an empty name or an empty value is skipped, a value may hold 0x01, the last 0x02 may be missing,
 * the last duplicate wins. Working on bytes is the same as on UTF-16 units: 0x01 and 0x02 are never part of a longer
 * sequence.
 */
#ifndef RMQ_PROPERTIES_H
#define RMQ_PROPERTIES_H

#include <stddef.h>
#include <stdint.h>

typedef struct rmq_slice {
    const uint8_t *p; /* NULL: absent */
    uint32_t len;
} rmq_slice;

typedef struct rmq_prop {
    rmq_slice name, value;
} rmq_prop;

/* Steps through the pairs in stored order, duplicates included: set pos = 0, call until it answers 0. Reads only
 * [props, props + len). */
int rmq_props_next(const uint8_t *props, size_t len, size_t *pos, rmq_prop *out);

/* The properties the engine itself looks at, last duplicate each. */
typedef struct rmq_known_props {
    rmq_slice tags, keys, uniq_key, delay, inner_multi_dispatch, inner_multi_queue_offset;
} rmq_known_props;

/* Notes one pair; a later pair of the same name replaces it. */
void rmq_props_note(rmq_known_props *known, const rmq_prop *prop);

void rmq_props_known(const uint8_t *props, size_t len, rmq_known_props *out);

/* Steps through the tokens of a KEYS value (split on single spaces, empty ones skipped). */
int rmq_keys_next(rmq_slice keys, size_t *pos, rmq_slice *token);

#endif
