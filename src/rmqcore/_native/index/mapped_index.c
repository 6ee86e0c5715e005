#include "index/mapped_index.h"
#include <stdlib.h>

#define INLINE static inline __attribute__((always_inline))

enum {
    /* Slots are hit at random: asking for one 32 keys early was measured 3 times faster than not asking, 4 early no faster. */
    PREFETCH_KEYS = 32,
};

/* Fields that a reader may load while the writer stores them. */
#define PUBLISH(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELAXED)
#define OBSERVE(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)

INLINE uint8_t *slot_at(const rmq_index_map *map, uint32_t slot) {
    return map->base + RMQ_IDX_HEADER_SIZE + (size_t)slot * RMQ_IDX_SLOT_SIZE;
}

INLINE uint8_t *entries_of(const rmq_index_map *map, uint32_t slots) {
    return map->base + RMQ_IDX_HEADER_SIZE + (size_t)slots * RMQ_IDX_SLOT_SIZE;
}

/* A slot lies at a multiple of 4, so the wider pointer is aligned; only an atomic access orders it after its entry. */
INLINE int32_t slot_load(const uint8_t *p) {
    const uint32_t v = __atomic_load_n((const uint32_t *)(const void *)p, __ATOMIC_ACQUIRE);
    return (int32_t)RMQ_SWAP32(v);
}

INLINE void slot_store(uint8_t *p, int32_t value) {
    const uint32_t v = RMQ_SWAP32((uint32_t)value);
    __atomic_store_n((uint32_t *)(void *)p, v, __ATOMIC_RELEASE);
}

/* The newest entry that may be followed: Java compares with "above indexCount", and skips a file without entries. */
static int32_t visible_of(const rmq_index_map *map, int32_t index_count) {
    if (index_count <= 1) return 0;
    return index_count < map->capacity ? index_count : map->capacity - 1;
}

void rmq_index_map_init(rmq_index_map *map, uint32_t slots, int32_t capacity, const rmq_index_header *header) {
    map->base = NULL;
    map->slots = slots;
    map->capacity = capacity;
    map->ready = 0;
    map->header = *header;
    if (map->header.index_count < 1) map->header.index_count = 1;
    if (map->header.index_count > capacity) map->header.index_count = capacity;
    map->visible = visible_of(map, map->header.index_count);
}

/* Seconds after begin_timestamp, in Java's wrapping arithmetic. */
INLINE int32_t time_diff(int64_t store_timestamp, int64_t begin_timestamp) {
    if (begin_timestamp <= 0) return 0;
    const int64_t seconds = (int64_t)((uint64_t)store_timestamp - (uint64_t)begin_timestamp) / 1000;
    if (seconds < 0) return 0;
    return seconds > INT32_MAX ? INT32_MAX : (int32_t)seconds;
}

/* `slots` is map->slots, once more so that the usual number is a constant and the division a multiplication. */
INLINE int put_rows(rmq_index_map *map, const rmq_index_rows *rows, rmq_index_place *at, const uint32_t slots) {
    const int32_t *const hashes = rows->hashes;
    const int64_t keys = rows->offsets[rows->rows];
    uint8_t *const entries = entries_of(map, slots);
    const int32_t ready = __atomic_load_n(&map->ready, __ATOMIC_ACQUIRE);
    const int32_t end = ready < map->capacity ? ready : map->capacity;
    rmq_index_header h = map->header;
    const int32_t count_before = h.index_count;
    int code = RMQ_PUT_DONE;

    /* Stored before any slot that leads there. No slot leads to entries that the batch does not fill. */
    const int64_t to_come = keys - rows->offsets[at->row < rows->rows ? at->row : rows->rows];
    const int64_t last = h.index_count - 1 + to_come < end ? h.index_count - 1 + to_come : end - 1;
    if (last > map->visible) PUBLISH(map->visible, (int32_t)last);

    for (; at->row < rows->rows; at->row++, at->key = 0) {
        const int64_t phy_offset = rows->phy_offsets[at->row];
        const int64_t store_timestamp = rows->store_timestamps[at->row];
        const int64_t row_end = rows->offsets[at->row + 1];
        if (h.index_count >= map->capacity) {
            code = RMQ_PUT_FULL;
            break;
        }
        int32_t diff = time_diff(store_timestamp, h.begin_timestamp);
        for (int64_t k = rows->offsets[at->row] + at->key; k < row_end; k++) {
            if (h.index_count >= end) {
                at->key = (int32_t)(k - rows->offsets[at->row]);
                code = h.index_count >= map->capacity ? RMQ_PUT_FULL : RMQ_PUT_ROOM;
                goto stop;
            }
            if (k + PREFETCH_KEYS < keys) {
                __builtin_prefetch(slot_at(map, (uint32_t)hashes[k + PREFETCH_KEYS] % slots), 1);
            }
            uint8_t *const slot = slot_at(map, (uint32_t)hashes[k] % slots);
            int32_t head = slot_load(slot);
            if (head <= 0 || head > h.index_count) head = 0;
            const rmq_index_entry entry = {phy_offset, hashes[k], diff, head};
            rmq_index_entry_store(entries + (size_t)h.index_count * RMQ_IDX_ENTRY_SIZE, entry);
            if (h.index_count == 1) {
                /* Its own time counts from the begin time copied from the file before; all others count from this one.
                 * */
                h.begin_phy_offset = phy_offset;
                h.begin_timestamp = store_timestamp;
                PUBLISH(map->header.begin_phy_offset, phy_offset);
                PUBLISH(map->header.begin_timestamp, store_timestamp);
                diff = time_diff(store_timestamp, store_timestamp);
            }
            slot_store(slot, h.index_count);
            h.hash_slot_count = (int32_t)((uint32_t)h.hash_slot_count + (head == 0));
            h.index_count++;
            h.end_phy_offset = phy_offset;
            h.end_timestamp = store_timestamp;
        }
    }
stop:
    if (h.index_count != count_before) {
        PUBLISH(map->header.hash_slot_count, h.hash_slot_count);
        PUBLISH(map->header.end_phy_offset, h.end_phy_offset);
        PUBLISH(map->header.end_timestamp, h.end_timestamp);
        PUBLISH(map->header.index_count, h.index_count);
        rmq_index_put_header(map);
    }
    PUBLISH(map->visible, visible_of(map, h.index_count));
    return code;
}

int rmq_index_put(rmq_index_map *map, const rmq_index_rows *rows, rmq_index_place *at) {
    if (map->slots == RMQ_IDX_DEFAULT_SLOTS) return put_rows(map, rows, at, RMQ_IDX_DEFAULT_SLOTS);
    return put_rows(map, rows, at, map->slots);
}

void rmq_index_allow(rmq_index_map *map, int32_t ready) { __atomic_store_n(&map->ready, ready, __ATOMIC_RELEASE); }

void rmq_index_put_header(const rmq_index_map *map) {
    rmq_index_header_encode(&map->header, map->base, RMQ_IDX_HEADER_SIZE);
}

int32_t rmq_index_tail(const rmq_index_map *map, int64_t phy_offset, int32_t *out, int32_t room) {
    int32_t found = 0;
    for (int32_t i = map->header.index_count - 1; i >= 1 && found < room; i--) {
        const uint8_t *p = entries_of(map, map->slots) + (size_t)i * RMQ_IDX_ENTRY_SIZE;
        const rmq_index_entry e = rmq_index_entry_load(p);
        if (e.phy_offset != phy_offset) break;
        out[found++] = e.key_hash;
    }
    return found;
}

void rmq_index_ask(const rmq_index_map *map, int32_t key_hash) {
    if (map->base != NULL) __builtin_prefetch(slot_at(map, (uint32_t)key_hash % map->slots));
}

int rmq_index_search_run(rmq_index_search *s, int64_t steps) {
    s->walk.steps = steps;
    while (s->left > 0) {
        const rmq_index_map *const map = s->maps[s->left - 1];
        const int64_t begin = OBSERVE(map->header.begin_timestamp);
        if (!s->walking && rmq_index_time_matched(begin, OBSERVE(map->header.end_timestamp), s->begin_ms, s->end_ms)) {
            if (map->base == NULL) return RMQ_SEARCH_MAP;
            if (s->walk.steps <= 0) return RMQ_SEARCH_STEPS;
            s->walk.steps -= RMQ_SEARCH_FILE_STEPS;
            s->walk.next_index = slot_load(slot_at(map, (uint32_t)s->key_hash % map->slots));
            s->walk.index_count = OBSERVE(map->visible) + 1;
            s->walk.begin_timestamp = OBSERVE(map->header.begin_timestamp);
            s->walk.begin_ms = s->begin_ms;
            s->walk.end_ms = s->end_ms;
            s->walk.key_hash = s->key_hash;
            s->walking = 1;
        }
        if (s->walking) {
            size_t found;
            const size_t room = s->room < s->most ? s->room : s->most;
            const int code =
                rmq_index_chain_walk(&s->walk, entries_of(map, map->slots), (size_t)map->capacity * RMQ_IDX_ENTRY_SIZE,
                                     0, s->out + s->hits, room - s->hits, &found);
            s->hits += found;
            if (code == RMQ_WALK_STEPS) return RMQ_SEARCH_STEPS;
            if (code == RMQ_WALK_FULL && s->hits < s->most) return RMQ_SEARCH_ROOM;
            s->walking = 0;
        }
        if (begin < s->begin_ms || s->hits >= s->most) return RMQ_SEARCH_END;
        s->left--;
    }
    return RMQ_SEARCH_END;
}

static int compare(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

void rmq_index_sort(int64_t *offsets, size_t count) {
    enum { FEW = 64 };
    if (count > FEW) {
        qsort(offsets, count, sizeof *offsets, compare);
        return;
    }
    for (size_t i = 1; i < count; i++) {
        const int64_t value = offsets[i];
        size_t at = i;
        for (; at > 0 && offsets[at - 1] > value; at--) offsets[at] = offsets[at - 1];
        offsets[at] = value;
    }
}
