/* The properties string: name 0x01 value 0x02, repeated. Corners as in MessageDecoder#string2messageProperties: a pair
 * without 0x01, with an empty name or an empty value is skipped, a value may hold 0x01, the last 0x02 may be missing,
 * the last duplicate wins. Working on bytes is the same as on UTF-16 units: 0x01 and 0x02 are never part of a longer
 * sequence.
 */
#ifndef RMQ_PROPERTIES_H
#define RMQ_PROPERTIES_H

#include "layout.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct rmq_slice {
    const uint8_t *p; /* NULL: absent */
    uint32_t len;
} rmq_slice;

typedef struct rmq_prop {
    rmq_slice name, value;
} rmq_prop;

/* 64 bytes at a time: one bit a byte for 0x01, for 0x02 and for bytes >= 0x80. */
typedef struct rmq_props_masks {
    uint64_t ones, twos, high;
} rmq_props_masks;

/* p must be readable for 64 bytes. */
rmq_props_masks rmq_props_masks64(const uint8_t *p);

/* Steps through the pairs in stored order, duplicates included. */
typedef struct rmq_props_iter {
    const uint8_t *begin, *end; /* the string */
    const uint8_t *before;      /* first byte known to be readable, <= begin */
    const uint8_t *block;       /* what the masks are of */
    const uint8_t *name;        /* start of the open pair */
    const uint8_t *split;       /* its first 0x01, or NULL */
    uint64_t ones, twos;        /* separators of the block not yet visited */
    uint64_t high;              /* non-zero once a byte >= 0x80 was in a visited block */
} rmq_props_iter;

/* Reads only [props - before, props + len): a record has at least 88 bytes in front of its properties, which lets the last
 * block be loaded whole; a bare string passes before = 0. */
void rmq_props_begin(rmq_props_iter *it, const uint8_t *props, size_t len, size_t before);

/* 1 and the next pair, or 0 at the end. */
int rmq_props_next(rmq_props_iter *it, rmq_prop *out);

/* The properties the engine itself looks at, last duplicate each. */
typedef struct rmq_known_props {
    rmq_slice tags, keys, uniq_key, delay, inner_multi_dispatch, inner_multi_queue_offset;
} rmq_known_props;

/* Notes one pair; a later pair of the same name replaces it. */
void rmq_props_note(rmq_known_props *known, const rmq_prop *prop);

void rmq_props_known(const uint8_t *props, size_t len, size_t before, rmq_known_props *out);

/* Steps through the words of a KEYS value (split on single spaces, empty ones skipped); start with pos = 0. */
int rmq_keys_next(rmq_slice keys, size_t *pos, rmq_slice *word);

#endif
