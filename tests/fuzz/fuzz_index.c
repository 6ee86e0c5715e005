/* IndexFile: header there and back; chains walked in windows end and give what a walk over the whole file gives; the check of
 * entries and slots counts the same in chunks of any size. Layout of the input: 12 control bytes, then an index file. */
#include "fuzz.h"
#include "format/index_file.h"

enum { MOST_HITS = 64 };

static rmq_index_entry entry(const uint8_t *entries, int64_t i) {
    return rmq_index_entry_load(entries + i * RMQ_IDX_ENTRY_SIZE);
}

typedef struct hits {
    int64_t phy_offset[MOST_HITS];
    size_t count;
    int end;
} hits;

/* The whole walk through windows of `step` entries; room for `room` hits at a time. */
static hits walk_in_windows(rmq_index_walk walk, const uint8_t *entries, int64_t count, int64_t step, size_t room) {
    hits h;
    h.count = 0;
    for (int64_t rounds = 0;; rounds++) {
        CHECK(rounds <= 2 * count + 2); /* each round gets at least one entry further down */
        const int64_t first = walk.next_index > 0 && walk.next_index < count ? walk.next_index / step * step : 0;
        const int64_t until = first + step < count ? first + step : count;
        size_t got = 0;
        int64_t out[MOST_HITS];
        const int64_t before = walk.next_index;
        h.end = rmq_index_chain_walk(&walk, entries + first * RMQ_IDX_ENTRY_SIZE,
                                     (size_t)(until - first) * RMQ_IDX_ENTRY_SIZE, (int32_t)first, out, room, &got);
        CHECK(got <= room);
        for (size_t i = 0; i < got && h.count < MOST_HITS; i++) h.phy_offset[h.count++] = out[i];
        if (h.end == RMQ_WALK_END || h.end == RMQ_WALK_BROKEN || h.count == MOST_HITS) return h;
        CHECK(h.end == RMQ_WALK_WINDOW || h.end == RMQ_WALK_FULL);
        CHECK(walk.next_index < before || h.end == RMQ_WALK_WINDOW);
        if (h.end == RMQ_WALK_WINDOW && walk.next_index >= count) return h; /* past the bytes there are */
    }
}

static void check_walks(const rmq_index_header *header, const uint8_t *control, const uint8_t *slots, size_t slot_count,
                        const uint8_t *entries, int64_t count) {
    rmq_index_walk walk;
    memset(&walk, 0, sizeof walk);
    walk.begin_timestamp = header->begin_timestamp;
    walk.begin_ms =
        control[4] & 1 ? INT64_MIN : (int64_t)((uint64_t)header->begin_timestamp + control[5] * UINT64_C(1000));
    walk.end_ms = control[4] & 2 ? INT64_MAX : header->end_timestamp;
    walk.index_count = header->index_count;
    walk.steps = INT64_MAX;
    for (size_t slot = 0; slot < slot_count && slot < 8; slot++) {
        walk.next_index = rmq_load_i32(slots + 4 * slot);
        /* The hash of the chain's newest entry when there is one, so that something is found. */
        walk.key_hash = (int32_t)slot;
        if (walk.next_index > 0 && walk.next_index < count) walk.key_hash = entry(entries, walk.next_index).key_hash;
        const hits whole = walk_in_windows(walk, entries, count, count, MOST_HITS);
        const hits small = walk_in_windows(walk, entries, count, 1 + control[6] % 7, 1 + control[7] % 3);
        CHECK(whole.count == small.count);
        CHECK(memcmp(whole.phy_offset, small.phy_offset, whole.count * sizeof(int64_t)) == 0);
        CHECK(whole.end == small.end || whole.count == MOST_HITS);
    }
}

static int64_t check_in_chunks(const uint8_t *slots, size_t slot_count, const uint8_t *entries, int64_t count,
                               size_t step) {
    enum { ROOM = 4 };
    rmq_index_finding findings[ROOM];
    int32_t *heads = calloc(slot_count, sizeof *heads);
    CHECK(heads != NULL);
    rmq_index_check check = {heads, slot_count, 1, INT64_MIN, 0};
    int64_t total = 0;
    for (int64_t i = 1; i < count; i += (int64_t)step) {
        const size_t n = (size_t)(count - i) < step ? (size_t)(count - i) : step;
        CHECK(check.next_index == i);
        const int64_t found =
            rmq_index_check_entries(&check, entries + i * RMQ_IDX_ENTRY_SIZE, n * RMQ_IDX_ENTRY_SIZE, findings, ROOM);
        CHECK(found >= 0);
        for (int64_t k = 0; k < found && k < ROOM; k++)
            CHECK(findings[k].index >= i && findings[k].index < i + (int64_t)n);
        total += found;
    }
    CHECK(check.used_slots >= 0 && check.used_slots <= (int64_t)slot_count);
    for (size_t i = 0; i < slot_count; i += step) {
        const size_t n = slot_count - i < step ? slot_count - i : step;
        const int64_t found = rmq_index_check_slots(&check, slots + 4 * i, 4 * n, i, findings, ROOM);
        CHECK(found >= 0);
        total += found;
    }
    CHECK(rmq_index_check_slots(&check, slots, 4 * slot_count, 1, findings, ROOM) == RMQ_IDX_E_SLOTS);
    free(heads);
    return total;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t control[12];
    take_control(&data, &size, control, sizeof control);
    rmq_index_header header;
    const int code = rmq_index_header_decode(data, size, &header);
    CHECK(code == (size < RMQ_IDX_HEADER_SIZE ? RMQ_IDX_E_SHORT : 0));
    if (code) return 0;
    uint8_t again[RMQ_IDX_HEADER_SIZE];
    CHECK(rmq_index_header_encode(&header, again, sizeof again - 1) == RMQ_IDX_E_SHORT);
    CHECK(rmq_index_header_encode(&header, again, sizeof again) == 0);
    CHECK(memcmp(again, data, sizeof again) == 0);

    const uint8_t *slots = data + RMQ_IDX_HEADER_SIZE;
    size_t left = size - RMQ_IDX_HEADER_SIZE, slot_count = 1 + control[0] % 40;
    if (left < 4 * slot_count) return 0;
    const uint8_t *entries = slots + 4 * slot_count;
    const int64_t count = (int64_t)((left - 4 * slot_count) / RMQ_IDX_ENTRY_SIZE);
    if (count < 1) return 0;
    check_walks(&header, control, slots, slot_count, entries, count);
    CHECK(check_in_chunks(slots, slot_count, entries, count, (size_t)count) ==
          check_in_chunks(slots, slot_count, entries, count, 1 + control[8] % 5));
    return 0;
}
