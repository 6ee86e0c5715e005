/* IndexFile: 40-byte header, a table of 4-byte hash slots, 20-byte entries.
 *
 * Entry 0 is never used: index 0 ends a chain. A slot holds the newest entry of its chain, each entry the one
 * before it, so in a sound file the indexes along a chain descend. Walks use that: a step that does not descend
 * ends the chain, so damage cannot make a walk loop.
 */
#ifndef RMQ_INDEX_FILE_H
#define RMQ_INDEX_FILE_H

#include "be.h"
#include "layout.h"
#include <stddef.h>

enum {
    RMQ_IDX_E_SHORT = -1, /* fewer bytes than required */
    RMQ_IDX_E_SLOTS = -2, /* no slots, or a slot array of another length */
};

typedef struct rmq_index_header {
    int64_t begin_timestamp, end_timestamp; /* milliseconds */
    int64_t begin_phy_offset, end_phy_offset;
    int32_t hash_slot_count; /* slots in use */
    int32_t index_count;     /* next free entry; 0 before the first put, which counts as 1 */
} rmq_index_header;

/* 0 or RMQ_IDX_E_SHORT. */
int rmq_index_header_decode(const uint8_t *buf, size_t len, rmq_index_header *out);
int rmq_index_header_encode(const rmq_index_header *header, uint8_t *out, size_t room);

typedef struct rmq_index_entry {
    int64_t phy_offset;
    int32_t key_hash;
    int32_t time_diff; /* seconds after the file's begin_timestamp */
    int32_t prev_index;
} rmq_index_entry;

/* p must be readable for RMQ_IDX_ENTRY_SIZE bytes. */
static inline rmq_index_entry rmq_index_entry_load(const uint8_t *p) {
    rmq_index_entry e = {rmq_load_i64(p + RMQ_IDX_ENTRY_PHYOFFSET), rmq_load_i32(p + RMQ_IDX_ENTRY_KEYHASH),
                         rmq_load_i32(p + RMQ_IDX_ENTRY_TIMEDIFF), rmq_load_i32(p + RMQ_IDX_ENTRY_PREVINDEX)};
    return e;
}

static inline void rmq_index_entry_store(uint8_t *p, rmq_index_entry e) {
    rmq_store_i32(p + RMQ_IDX_ENTRY_KEYHASH, e.key_hash);
    rmq_store_i64(p + RMQ_IDX_ENTRY_PHYOFFSET, e.phy_offset);
    rmq_store_i32(p + RMQ_IDX_ENTRY_TIMEDIFF, e.time_diff);
    rmq_store_i32(p + RMQ_IDX_ENTRY_PREVINDEX, e.prev_index);
}

/* The hash of "topic#key" in UTF-8, never negative (IndexFile#indexKeyHashMethod). */
int32_t rmq_index_hash(const uint8_t *topic, size_t topic_len, const uint8_t *key, size_t key_len);

/* ---- chain walk ------------------------------------------------------------------------------ */

/* How a walk stopped. */
enum {
    RMQ_WALK_END = 0,    /* the chain ended, or passed below begin_ms */
    RMQ_WALK_WINDOW = 1, /* entry next_index lies outside the window: read it and continue */
    RMQ_WALK_FULL = 2,   /* `out` is full: continue with more room */
    RMQ_WALK_BROKEN = 3, /* the PREVINDEX of entry broken_index does not descend; the chain ends there */
    RMQ_WALK_STEPS = 4,  /* visited the number of entries that `steps` allowed */
};

typedef struct rmq_index_walk {
    int64_t begin_timestamp; /* of the file's header */
    int64_t begin_ms, end_ms; /* hits lie between them, both included */
    int32_t key_hash;
    int32_t next_index;   /* in: the slot's value; out: where to continue */
    int32_t index_count;  /* of the file's header: entries 1 .. index_count - 1 are in use */
    int32_t broken_index; /* set with RMQ_WALK_BROKEN */
    int64_t steps;        /* entries that may still be visited; counted down */
} rmq_index_walk;

/* Whether a file with these times can hold hits of a query for begin_ms to end_ms (IndexFile#isTimeMatched). */
static inline int rmq_index_time_matched(int64_t begin_timestamp, int64_t end_timestamp, int64_t begin_ms,
                                         int64_t end_ms) {
    return (begin_ms < begin_timestamp && end_ms > end_timestamp) ||
           (begin_ms >= begin_timestamp && begin_ms <= end_timestamp) ||
           (end_ms >= begin_timestamp && end_ms <= end_timestamp);
}

/* Follows the chain from next_index through a window that starts at entry first_index: [window, window + len).
 * Offsets of matching entries go to out, newest first; *hits is their number, at most room. */
int rmq_index_chain_walk(rmq_index_walk *walk, const uint8_t *window, size_t len, int32_t first_index, int64_t *out,
                         size_t room, size_t *hits);

/* ---- check of a whole file ------------------------------------------------------------------- */

/* Which field a finding is about. */
enum {
    RMQ_IDX_FIELD_KEYHASH = 1,
    RMQ_IDX_FIELD_PHYOFFSET = 2,
    RMQ_IDX_FIELD_TIMEDIFF = 3,
    RMQ_IDX_FIELD_PREVINDEX = 4,
    RMQ_IDX_FIELD_SLOT = 5,
};

typedef struct rmq_index_finding {
    int64_t index; /* of the entry, or of the slot */
    int64_t expected, found;
    int32_t field;
} rmq_index_finding;

/* The caller owns `heads`, one int32 per slot, zeroed before the first call: the newest entry of each chain so far. */
typedef struct rmq_index_check {
    int32_t *heads;
    size_t slots;
    int64_t next_index;      /* the first entry of the next chunk; starts at 1 */
    int64_t last_phy_offset; /* of the entry before; starts at INT64_MIN */
    int64_t used_slots;      /* to compare with HASHSLOTCOUNT at the end; starts at 0 */
} rmq_index_check;

/* Checks the whole entries of the next chunk [buf, buf + len): hash and time not negative, offsets that never
 * decrease, PREVINDEX the newest entry of the same slot. Returns the number of findings, the first `room` of them in
 * out, or RMQ_IDX_E_SLOTS. */
int64_t rmq_index_check_entries(rmq_index_check *check, const uint8_t *buf, size_t len, rmq_index_finding *out,
                                size_t room);

/* Compares slots first_slot, first_slot + 1, ... in [buf, buf + len) with the heads. Returns as above; RMQ_IDX_E_SLOTS
 * if they exceed the last slot. */
int64_t rmq_index_check_slots(const rmq_index_check *check, const uint8_t *buf, size_t len, size_t first_slot,
                              rmq_index_finding *out, size_t room);

#endif
