/* Where a part of a CommitLog file begins: the rule against a slow version of itself, and against the walk that it stands for.
 *
 * Layout of the input: 8 control bytes, then CommitLog bytes up to the file's end. */
#include "crc32/crc32.h"
#include "fuzz.h"
#include "scan/split.h"

enum { FIX = 1, ANCHORED = 2, PLACE_END = RMQ_REC_PHYSICALOFFSET + 8 };

/* Gives what could be records their place and CRC, or nothing would ever be a candidate; those in the body of another too when
 * `inside`: from the last to the first, so that the outer CRC is over what stays. */
static void fix(uint8_t *data, size_t size, int64_t phy_offset, int inside) {
    rmq_record r;
    for (size_t pos = size; pos-- > 0;) {
        if (rmq_record_parse(data + pos, size - pos, &r) <= 0) continue;
        rmq_store_i64(data + pos + RMQ_REC_PHYSICALOFFSET, phy_offset + (int64_t)pos);
        const uint32_t crc = rmq_crc32(r.at + r.body_pos, r.body_len) & RMQ_CRC_MASK;
        rmq_store_i32(data + pos + RMQ_REC_BODYCRC, (int32_t)crc);
        if (!inside) {
            for (size_t at = pos + 1; at < pos + r.msg_size && at + 8 <= size; at++) {
                rmq_record other;
                if (rmq_record_parse(data + at, size - at, &other) > 0) data[at + RMQ_REC_MAGIC] ^= 0xFF;
            }
            const uint32_t again = rmq_crc32(r.at + r.body_pos, r.body_len) & RMQ_CRC_MASK;
            rmq_store_i32(data + pos + RMQ_REC_BODYCRC, (int32_t)again);
        }
    }
}

/* Where the records from pos on lead at or after the boundary; -1 when one is not sound or longer than the longest. */
static int64_t follow(const rmq_window *w, size_t pos, size_t boundary, uint32_t most) {
    rmq_record r;
    while (pos < boundary) {
        const int32_t size = rmq_window_step(w, pos, &r);
        if (size <= 0 || (uint32_t)size > most) return -1;
        pos += (size_t)size;
    }
    return (int64_t)pos;
}

/* The rule over a window that goes to the file's end. *work: bytes of all sound candidates. */
static int64_t slowly(const rmq_window *w, size_t boundary, uint32_t most, uint64_t *work) {
    int64_t answer = 0;
    int blank = 0;
    rmq_record r;
    *work = 0;
    for (size_t pos = 0; pos < boundary; pos++) {
        const int32_t code = rmq_window_step(w, pos, &r);
        if (code == RMQ_R_BLANK) blank = 1;
        if (code > 0) *work += (uint32_t)code;
        if (w->len - pos < RMQ_BLANK_MIN_SIZE) continue;
        const int32_t magic = rmq_load_i32(w->buf + pos + RMQ_REC_MAGIC);
        if (magic != RMQ_MAGIC_V1 && magic != RMQ_MAGIC_V2) continue;
        if (w->len - pos < PLACE_END) {
            answer = -1;
        } else if (rmq_load_i64(w->buf + pos + RMQ_REC_PHYSICALOFFSET) == w->phy_offset + (int64_t)pos) {
            const int64_t end = follow(w, pos, boundary, most);
            if (answer == 0) answer = end;
            if (answer != end) answer = -1;
        }
    }
    if (answer == 0) return RMQ_SPLIT_NOTHING;
    return answer > 0 && !blank ? answer : RMQ_SPLIT_ODD;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    if (rmq_crc32_select("") != RMQ_CRC_OK) abort();
    uint8_t control[8];
    take_control(&input, &size, control, sizeof control);
    if (size == 0) return 0;
    uint8_t *data = malloc(size);
    CHECK(data != NULL);
    memcpy(data, input, size);
    rmq_window w = {data, size, (int64_t)control[1] << 30, 0, 1, 1, -1};
    w.end_offset = w.phy_offset + (int64_t)size;
    if (control[0] & FIX) fix(data, size, w.phy_offset, control[0] & 4);
    const size_t boundary = 1 + (size_t)(control[2] << 8 | control[3]) % size;
    const uint32_t most = 1 + (uint32_t)(control[4] << 8 | control[5]);

    const int anchored = (control[0] & ANCHORED) != 0;
    const int64_t found = rmq_split_start(&w, boundary, most, anchored, 0);
    CHECK(found == RMQ_SPLIT_ODD || found == RMQ_SPLIT_NOTHING || ((size_t)found >= boundary && (size_t)found <= size));
    const int64_t behind = rmq_split_start(&w, boundary, most, anchored, 1);
    CHECK(behind < 0 || ((size_t)behind >= boundary && (size_t)behind <= size));
    uint64_t work = 0;
    if (anchored) {
        const int64_t end = follow(&w, 0, boundary, most);
        CHECK(found == (end > 0 ? end : RMQ_SPLIT_ODD));
    } else {
        const int64_t slow = slowly(&w, boundary, most, &work);
        CHECK(found == slow || (found == RMQ_SPLIT_NOTHING && work > RMQ_SPLIT_WORK * (uint64_t)size));
    }

    /* Of fewer bytes of the same file, in a block of their own, the rule asks for more, or says the same. */
    const size_t len = boundary + control[6] < size ? boundary + control[6] : size;
    uint8_t *less = malloc(len);
    CHECK(less != NULL);
    memcpy(less, data, len);
    rmq_window cut = w;
    cut.buf = less;
    cut.len = len;
    const int64_t early = rmq_split_start(&cut, boundary, most, anchored, 0);
    CHECK(early == RMQ_SPLIT_MORE || early == found ||
          (early == RMQ_SPLIT_NOTHING && work > RMQ_SPLIT_WORK * (uint64_t)len));
    if (len == size || len - boundary >= (size_t)most + PLACE_END) CHECK(early != RMQ_SPLIT_MORE);

    /* What is odd in a part of the bytes is odd in all of them. */
    const size_t begin = (size_t)control[7] * boundary / 256;
    cut.buf += begin;
    cut.len -= begin;
    cut.phy_offset += (int64_t)begin;
    if (!anchored && rmq_split_start(&cut, boundary - begin, most, 0, 0) == RMQ_SPLIT_ODD) CHECK(found < 0);
    free(less);
    free(data);
    return 0;
}
