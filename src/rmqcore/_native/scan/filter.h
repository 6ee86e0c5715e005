/* The conditions of a scan, tested in C before any column is built; conditions that are not set accept every record. */
#ifndef RMQ_FILTER_H
#define RMQ_FILTER_H

#include "format/properties.h"
#include "format/record.h"
#include "format/text.h"

/* A set of texts as an open-addressing table: slots hold index + 1 into items, 0 is empty; mask + 1 slots, a power of two
 * larger than count. The memory belongs to the caller. */
typedef struct rmq_text_set {
    const rmq_slice *items;
    const uint32_t *slots;
    uint32_t mask;
    int active; /* 0: not a condition */
} rmq_text_set;

/* Fills slots (mask + 1 of them, zeroed by the caller) from count items. */
void rmq_text_set_build(uint32_t *slots, uint32_t mask, const rmq_slice *items, uint32_t count);

int rmq_text_set_has(const rmq_text_set *set, rmq_slice text);

typedef struct rmq_filter {
    rmq_text_set topics;
    rmq_text_set tags; /* whole TAGS values */
    rmq_text_set keys; /* a word of KEYS, or UNIQ_KEY */
    const int32_t *queue_ids;
    int64_t queue_id_count; /* -1: not a condition */
    int64_t since_ms, until_ms; /* store timestamp, until exclusive; INT64_MAX: no limit */
    int64_t start_phy_offset, end_phy_offset; /* end exclusive */
} rmq_filter;

/* Conditions on header fields and topic. phy_offset is where the record lies. */
int rmq_filter_accepts(const rmq_filter *f, const rmq_record *rec, int64_t phy_offset);

static inline int rmq_filter_needs_properties(const rmq_filter *f) { return f->tags.active || f->keys.active; }

/* Conditions on properties. */
int rmq_filter_accepts_properties(const rmq_filter *f, const rmq_known_props *known);

#endif
