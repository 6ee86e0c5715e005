/* What it costs to tell where a split of a CommitLog file begins: the rule of split.h over the window of a boundary, 4 MiB + 64
 * KiB before it and 64 KiB behind, against a plain sum of the window's bytes. Prints "BODIES RECORDS SECONDS RATIO": rule and sum
 * take turns in every round, RATIO is the median over rounds of the plain sum's time over the rule's. */
#include <stdio.h>
#include <string.h>

#include "plain_sum.h"
#include "scan/split.h"
#include "timing.h"

enum { ROUNDS = 31, LARGEST = (4 << 20) + (64 << 10), BEHIND = 64 << 10, LEN = LARGEST + BEHIND, LONGEST_BODY = 1024 };
static const int64_t FIRST = INT64_C(1) << 40;
static volatile uint64_t sink;

/* Fills the window with records from its first byte on; answers where the first record at or after the boundary begins. */
static size_t fill(uint8_t *data, const char *bodies, int *records) {
    static uint8_t body[LONGEST_BODY];
    uint32_t x = 1;
    size_t answer = 0;
    *records = 0;
    for (size_t pos = 0; pos < LARGEST;) {
        const size_t len = LONGEST_BODY / 4 + (x >> 8) % (3 * LONGEST_BODY / 4);
        for (size_t i = 0; i < len; i++) {
            x = x * 1664525 + 1013904223;
            body[i] = bodies[0] == 't' ? (uint8_t)('a' + (x >> 24) % 26) : (uint8_t)(x >> 24);
        }
        if (bodies[0] == 'm') {
            for (size_t i = 0; i + 4 <= len; i += 4) rmq_store_i32(body + i, RMQ_MAGIC_V1);
        }
        const rmq_message msg = {.topic = (const uint8_t *)"topic",
                                 .topic_len = 5,
                                 .body = body,
                                 .body_len = len,
                                 .props = (const uint8_t *)"TAGS\1TagA\2",
                                 .props_len = 10,
                                 .phy_offset = FIRST + (int64_t)pos};
        const int64_t size = rmq_record_encode(&msg, data + pos, LEN + LONGEST_BODY + 256 - pos);
        if (size < 0) exit(1);
        pos += (size_t)size;
        answer = pos;
        ++*records;
    }
    return answer;
}

int main(void) {
    static const char *const kinds[] = {"text", "random", "magic"};
    rmq_crc32_select(NULL);
    uint8_t *data = calloc(1, LEN + LONGEST_BODY + 256);
    if (data == NULL) return 1;
    for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++) {
        int records;
        const size_t answer = fill(data, kinds[kind], &records);
        const rmq_window w = {data, LEN, FIRST, FIRST + (INT64_C(1) << 30), 1, 1, -1};
        double seconds[ROUNDS], ratios[ROUNDS];
        for (int round = 0; round < ROUNDS; round++) {
            const double begin = cpu_seconds();
            sink = plain_sum(data, LEN);
            const double middle = cpu_seconds();
            if (rmq_split_start(&w, LARGEST, LARGEST, 0) != (int64_t)answer) return 1;
            seconds[round] = cpu_seconds() - middle;
            ratios[round] = (middle - begin) / seconds[round];
        }
        printf("%s %d %.9f %.4f\n", kinds[kind], records, median(seconds, ROUNDS), median(ratios, ROUNDS));
    }
    free(data);
    return 0;
}
