/* Keys put into index files in any state: stores stay inside the file and inside what is ready, in any steps the same bytes come out,
 * and what was put is found; searches over two files end and find the same in steps of any size. Layout of the input: 16 control
 * bytes, then an index file. */
#include "fuzz.h"
#include "index/mapped_index.h"

enum { MOST_ROWS = 24, MOST_KEYS = 4, MOST_HITS = 300 };

typedef struct batch {
    int64_t phy_offsets[MOST_ROWS], store_timestamps[MOST_ROWS];
    int32_t hashes[MOST_ROWS * MOST_KEYS], offsets[MOST_ROWS + 1];
    rmq_index_rows rows;
} batch;

static void make_batch(batch *b, const rmq_index_header *header, const uint8_t *control) {
    const int64_t rows = control[1] % (MOST_ROWS + 1);
    int32_t keys = 0;
    /* From a little before the newest message on. */
    uint64_t phy_offset = (uint64_t)header->end_phy_offset - control[4] % 3 * UINT64_C(10);
    uint64_t timestamp = (uint64_t)header->end_timestamp + (control[5] - UINT64_C(100)) * 1000;
    for (int64_t row = 0; row < rows; row++) {
        b->phy_offsets[row] = (int64_t)(phy_offset += 10);
        b->store_timestamps[row] = (int64_t)(timestamp += control[6] * UINT64_C(100));
        b->offsets[row] = keys;
        const int32_t count = (int32_t)((control[2] >> row % 7) % (MOST_KEYS + 1));
        for (int32_t key = 0; key < count; key++) {
            b->hashes[keys] = (int32_t)(((uint32_t)control[7] << (key % 3 * 8)) * (uint32_t)(row % 5 + 1) & INT32_MAX);
            keys++;
        }
    }
    b->offsets[rows] = keys;
    const rmq_index_rows view = {b->phy_offsets, b->store_timestamps, b->hashes, b->offsets, rows};
    b->rows = view;
}

/* A file in memory of exactly its length. */
static rmq_index_map open_copy(const uint8_t *data, size_t size, uint32_t slots, int32_t capacity,
                               const rmq_index_header *header) {
    rmq_index_map map;
    rmq_index_map_init(&map, slots, capacity, header);
    map.base = malloc(size);
    CHECK(map.base != NULL);
    memcpy(map.base, data, size);
    CHECK(map.visible >= 0 && map.visible < capacity);
    return map;
}

/* Puts the batch, `step` more entries ready at a time; answers RMQ_PUT_DONE or RMQ_PUT_FULL. */
static int put_all(rmq_index_map *map, const batch *b, int32_t step, rmq_index_place *at) {
    at->row = 0;
    at->key = 0;
    for (int64_t rounds = 0;; rounds++) {
        CHECK(rounds <= map->capacity);
        const int32_t before = map->header.index_count;
        const int code = rmq_index_put(map, &b->rows, at);
        CHECK(map->header.index_count <= (before > map->ready ? before : map->ready) ||
              before == map->header.index_count);
        if (code != RMQ_PUT_ROOM) {
            CHECK(code == RMQ_PUT_DONE ? at->row == b->rows.rows : map->header.index_count == map->capacity);
            return code;
        }
        CHECK(at->row < b->rows.rows && at->key < b->offsets[at->row + 1] - b->offsets[at->row]);
        int32_t ready = map->ready > before ? map->ready : before;
        ready = map->capacity - ready < step ? map->capacity : ready + step;
        rmq_index_allow(map, ready);
    }
}

/* All hits of a hash, with `steps` entries looked at a call and room that grows by one. */
static size_t search(rmq_index_map *const *maps, size_t count, int32_t hash, int64_t begin_ms, int64_t end_ms,
                     int64_t steps, size_t room, size_t most, int64_t *out) {
    rmq_index_search s;
    memset(&s, 0, sizeof s);
    s.maps = maps;
    s.left = count;
    s.begin_ms = begin_ms;
    s.end_ms = end_ms;
    s.key_hash = hash;
    s.most = most;
    s.out = out;
    s.room = room;
    int64_t entries = 0;
    for (size_t i = 0; i < count; i++) entries += maps[i]->capacity;
    for (int64_t rounds = 0;; rounds++) {
        CHECK(rounds <= 2 * entries + (int64_t)most + 4);
        const int code = rmq_index_search_run(&s, steps);
        CHECK(s.hits <= s.room && s.hits <= most);
        if (code == RMQ_SEARCH_END) return s.hits;
        CHECK(code == RMQ_SEARCH_STEPS || code == RMQ_SEARCH_ROOM);
        if (code == RMQ_SEARCH_ROOM) s.room++;
    }
}

static void check_search(rmq_index_map *const *maps, size_t count, int32_t hash, int64_t begin_ms, int64_t end_ms,
                         const uint8_t *control) {
    int64_t whole[MOST_HITS], small[MOST_HITS];
    const size_t most = (size_t)(control[8] % MOST_HITS) + 1;
    const size_t hits = search(maps, count, hash, begin_ms, end_ms, INT64_MAX, most, most, whole);
    const size_t again = search(maps, count, hash, begin_ms, end_ms, 1 + control[9] % 12, 1, most, small);
    CHECK(hits == again);
    CHECK(memcmp(whole, small, hits * sizeof *whole) == 0);
    rmq_index_sort(small, hits);
    for (size_t i = 1; i < hits; i++) CHECK(small[i - 1] <= small[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t control[16];
    take_control(&data, &size, control, sizeof control);
    rmq_index_header header;
    if (rmq_index_header_decode(data, size, &header)) return 0;
    const uint32_t slots = 1 + control[0] % 40;
    const size_t entries_pos = RMQ_IDX_HEADER_SIZE + slots * RMQ_IDX_SLOT_SIZE;
    if (size < entries_pos + 2 * RMQ_IDX_ENTRY_SIZE) return 0;
    const int32_t capacity = (int32_t)((size - entries_pos) / RMQ_IDX_ENTRY_SIZE);
    const size_t length = entries_pos + (size_t)capacity * RMQ_IDX_ENTRY_SIZE;

    batch b;
    make_batch(&b, &header, control);
    rmq_index_map before = open_copy(data, length, slots, capacity, &header);
    rmq_index_map map = open_copy(data, length, slots, capacity, &header);
    rmq_index_map other = open_copy(data, length, slots, capacity, &header);
    rmq_index_allow(&map, capacity);
    rmq_index_allow(&other, control[3] % (capacity + 1));
    rmq_index_place at, other_at;
    const int code = put_all(&map, &b, capacity, &at);
    CHECK(put_all(&other, &b, 1 + control[10] % 4, &other_at) == code);
    CHECK(at.row == other_at.row && at.key == other_at.key);
    CHECK(memcmp(map.base, other.base, length) == 0);
    CHECK(memcmp(&map.header, &other.header, sizeof map.header) == 0);
    CHECK(map.visible == other.visible && map.visible < capacity);

    const int32_t first = before.header.index_count, last = map.header.index_count;
    CHECK(first <= last);
    if (first == last) CHECK(memcmp(map.base, before.base, length) == 0);
    for (int32_t i = first; i < last; i++) {
        const rmq_index_entry e = rmq_index_entry_load(map.base + entries_pos + (size_t)i * RMQ_IDX_ENTRY_SIZE);
        CHECK(e.prev_index <= i && e.prev_index >= 0 && e.time_diff >= 0);
    }
    rmq_index_header stored;
    CHECK(rmq_index_header_decode(map.base, length, &stored) == 0);
    if (first < last) CHECK(memcmp(&stored, &map.header, sizeof stored) == 0);

    int32_t tail[8];
    const int32_t tail_count = rmq_index_tail(&map, map.header.end_phy_offset, tail, 8);
    CHECK(tail_count >= (first < last) && tail_count <= 8);

    rmq_index_map *const maps[] = {&before, &map};
    const int64_t begin_ms = control[11] & 1 ? INT64_MIN : header.begin_timestamp;
    const int64_t end_ms = control[11] & 2 ? INT64_MAX : header.end_timestamp;
    const int keys = b.offsets[b.rows.rows];
    for (int i = 0; i < keys && i < 8; i++) check_search(maps, 2, b.hashes[i], begin_ms, end_ms, control);
    for (int32_t hash = 0; hash < 4; hash++) check_search(maps, 2, hash, begin_ms, end_ms, control);
    if (first < last && map.header.begin_timestamp > INT64_MIN && map.header.end_timestamp < INT64_MAX) {
        /* The newest entry of all is the first hit of its hash. */
        int64_t hit;
        CHECK(search(maps, 2, tail[0], INT64_MIN, INT64_MAX, INT64_MAX, 1, 1, &hit) == 1);
        CHECK(hit == map.header.end_phy_offset);
    }
    free(before.base);
    free(map.base);
    free(other.base);
    return 0;
}
