/* A mapped IndexFile: one writer puts keys into it while any number of readers walk its chains.
 *
 * Order of the stores of one key: entry, then slot (release), and the header in the file once a batch. A reader loads the slot
 * first (acquire), so whatever it then follows is complete. A process that dies in between leaves entries and slots that the
 * header does not count; recovery keeps only files that were full and synced.
 */
#ifndef RMQ_INDEX_PUT_H
#define RMQ_INDEX_PUT_H

#include "format/index_file.h"

/* One file. It is filled before threads share it; afterwards one thread puts, any thread searches. */
typedef struct rmq_index_map {
    uint8_t *base;    /* NULL: not mapped yet. Else 40 + 4 * slots + 20 * capacity bytes, 4-byte aligned */
    uint32_t slots;   /* at least 1 */
    int32_t capacity; /* at least 2; entry 0 is never used */
    int32_t ready;    /* entries below may be stored to: their blocks exist, and those of header and slots */
    int32_t visible;  /* the newest entry that a reader may follow */
    rmq_index_header header; /* index_count is at least 1 */
} rmq_index_map;

/* Sets header and visible from the file's content; index_count is limited to 1..capacity. */
void rmq_index_map_init(rmq_index_map *map, uint32_t slots, int32_t capacity, const rmq_index_header *header);

/* Rows of a batch: row i has the hashes [offsets[i], offsets[i + 1]). Offsets ascend. */
typedef struct rmq_index_rows {
    const int64_t *phy_offsets, *store_timestamps;
    const int32_t *hashes, *offsets;
    int64_t rows;
} rmq_index_rows;

/* Where a put continues: key `key` of row `row`. */
typedef struct rmq_index_place {
    int64_t row;
    int32_t key;
} rmq_index_place;

enum {
    RMQ_PUT_DONE = 0, /* all rows are in */
    RMQ_PUT_FULL = 1, /* the file is full and has a next message: continue from *at in the next file */
    RMQ_PUT_ROOM = 2, /* no ready entry: raise `ready`, then continue from *at */
};

/* Puts keys from *at on, as IndexService#buildIndex and IndexFile#putKey do: any next message, even without keys, finds a full
 * file full. The caller leaves out keys that are in already. */
int rmq_index_put(rmq_index_map *map, const rmq_index_rows *rows, rmq_index_place *at);

/* Lets entries below `ready` be stored to. Any thread: the writer sees it at its next put. */
void rmq_index_allow(rmq_index_map *map, int32_t ready);

/* Writes the header to the file's first 40 bytes. */
void rmq_index_put_header(const rmq_index_map *map);

/* Hashes of the newest entries, newest first, as long as they are of `phy_offset`; at most `room`. Returns their number. */
int32_t rmq_index_tail(const rmq_index_map *map, int64_t phy_offset, int32_t *out, int32_t room);

/* ---- search over files ----------------------------------------------------------------------- */

typedef struct rmq_index_search {
    rmq_index_map *const *maps; /* oldest first */
    size_t left;                /* files still to be searched: at the start all of them */
    int64_t begin_ms, end_ms;   /* both included */
    int32_t key_hash;
    int walking;      /* 0 at the start */
    size_t most;      /* hits wanted */
    int64_t *out;     /* newest first */
    size_t room;      /* of out */
    size_t hits;      /* 0 at the start */
    rmq_index_walk walk;
} rmq_index_search;

enum {
    RMQ_SEARCH_END = 0,   /* all hits are in out */
    RMQ_SEARCH_MAP = 1,   /* maps[left - 1] has to be mapped: then continue */
    RMQ_SEARCH_ROOM = 2,  /* out is full, but more are wanted: enlarge it, then continue */
    RMQ_SEARCH_STEPS = 3, /* the allowed steps are used up: continue */
    RMQ_SEARCH_FILE_STEPS = 8, /* cost of opening a file's chain, in steps along a chain */
};

/* Continues a search, newest file first, as IndexService#queryOffset does. */
int rmq_index_search_run(rmq_index_search *search, int64_t steps);

/* Prefetches the slot of a hash, if the file is mapped. */
void rmq_index_ask(const rmq_index_map *map, int32_t key_hash);

/* Sorts ascending. */
void rmq_index_sort(int64_t *offsets, size_t count);

#endif
