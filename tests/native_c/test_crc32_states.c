/* CRC-32 of every part of a block of bytes from states, against the CRC of the part itself (which test_crc32.c compares with zlib):
 * extents of many lengths with holes between them, several distances from state to state, and lengths past 32 bits. */
#define _GNU_SOURCE
#include "check.h"
#include "crc32/crc32_states.h"

enum { SIZE = 20000, EXTENTS = 5, MOST_STATES = 2000 };

static uint8_t *bytes; /* ends at a page that may not be read */
static uint32_t state_room[MOST_STATES];
static rmq_crc32_extent extent_room[EXTENTS];
static rmq_crc32_states states;

/* Begins and ends; what lies between them is zeros in `bytes`, too. The third is empty. */
static const int64_t parts[EXTENTS][2] = {{1024, 1124}, {4096, 9216}, {9500, 9500}, {10240, 12289}, {12300, 16384}};

static void note_states(size_t block) {
    states.states = state_room;
    states.extents = extent_room;
    states.state_count = states.extent_count = 0;
    states.block = block;
    for (size_t i = 0; i < EXTENTS; i++) {
        rmq_crc32_begin_extent(&states, parts[i][0]);
        const int64_t middle = parts[i][0] + (parts[i][1] - parts[i][0]) / 2 / 4096 * 4096; /* in two pieces */
        rmq_crc32_add(&states, bytes + parts[i][0], (size_t)(middle - parts[i][0]));
        rmq_crc32_add(&states, bytes + middle, (size_t)(parts[i][1] - middle));
    }
    EXPECT(states.state_count <= MOST_STATES, "%zu states", states.state_count);
}

static uint32_t state_at(int64_t pos) {
    int64_t known;
    const uint32_t state = rmq_crc32_state(&states, pos, &known);
    EXPECT(known <= pos && pos - known < (int64_t)states.block, "known %ld for %ld", (long)known, (long)pos);
    return rmq_crc32_more(&states.powers, state, bytes + known, (size_t)(pos - known));
}

static void check_part(int64_t begin, int64_t end) {
    const uint32_t found = rmq_crc32_between(&states.powers, state_at(begin), state_at(end), (uint64_t)(end - begin));
    const uint32_t expected = rmq_crc32(bytes + begin, (size_t)(end - begin));
    EXPECT(found == expected, "%ld to %ld: %08x, expected %08x", (long)begin, (long)end, found, expected);
}

static void check_parts(void) {
    for (int64_t end = 0; end <= SIZE; end += 41) check_part(0, end);
    for (int64_t begin = 0; begin <= SIZE; begin += 37) check_part(begin, SIZE);
    for (int i = 0; i < 2000; i++) {
        const int64_t one = rand() % (SIZE + 1), other = rand() % (SIZE + 1);
        check_part(one < other ? one : other, one < other ? other : one);
    }
}

/* x^(8n) in steps and at once. */
static void check_far(void) {
    uint32_t state = 0x12345678;
    const uint64_t step = UINT64_C(0x123456789A);
    for (int i = 0; i < 100; i++) state = rmq_crc32_zeros(&states.powers, state, step);
    EXPECT(state == rmq_crc32_zeros(&states.powers, 0x12345678, 100 * step), "100 steps of %llx", (long long)step);
    EXPECT(rmq_crc32_zeros(&states.powers, 0x12345678, 0) == 0x12345678, "no zeros");
}

int main(void) {
    static const uint8_t zeros[SIZE];
    bytes = at_end(guarded(SIZE), zeros, SIZE);
    for (size_t i = 0; i < EXTENTS; i++) {
        for (int64_t at = parts[i][0]; at < parts[i][1]; at++) bytes[at] = (uint8_t)rand();
    }
    rmq_crc32_powers_init(&states.powers);
    check_far();
    for (size_t block = 256; block <= 4096; block *= 2) {
        note_states(block);
        check_parts();
    }
    return finish("crc32_states");
}
