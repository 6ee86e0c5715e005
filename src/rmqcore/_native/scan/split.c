#include "scan/split.h"
#include "scan/dledger.h"
#include "scan/resync.h"
#include <string.h>

enum { PLACE_END = RMQ_REC_PHYSICALOFFSET + 8 };

/* MAGIC and PHYSICALOFFSET fit. pos + PLACE_END <= w->len. */
static int is_candidate(const rmq_window *w, size_t pos) {
    const int32_t magic = rmq_load_i32(w->buf + pos + RMQ_REC_MAGIC);
    if (magic != RMQ_MAGIC_V1 && magic != RMQ_MAGIC_V2) return 0;
    return rmq_load_i64(w->buf + pos + RMQ_REC_PHYSICALOFFSET) == w->phy_offset + (int64_t)pos;
}

/* Size of the sound record at pos, or RMQ_SPLIT_MORE or RMQ_SPLIT_ODD. */
static int64_t sound_size(const rmq_window *w, size_t pos, uint32_t max_record_size) {
    rmq_record rec;
    const int32_t code = rmq_window_step(w, pos, &rec);
    if (code > 0) return (uint32_t)code <= max_record_size ? code : RMQ_SPLIT_ODD;
    return code == RMQ_E_SHORT && rec.msg_size <= max_record_size ? RMQ_SPLIT_MORE : RMQ_SPLIT_ODD;
}

/* The walk's place behind the heads at pos, or behind those before the boundary; or RMQ_SPLIT_MORE or RMQ_SPLIT_ODD. */
static int64_t behind_heads(const rmq_window *w, size_t pos, size_t boundary) {
    while (pos < boundary) {
        const int64_t at = w->phy_offset + (int64_t)pos;
        rmq_record rec;
        const int32_t code = rmq_dledger_step(w->buf + pos, w->len - pos, at, w->end_offset - at, &rec);
        if (code == RMQ_E_SHORT) return RMQ_SPLIT_MORE;
        if (code != RMQ_DLEDGER_HEAD) return RMQ_SPLIT_ODD;
        pos += RMQ_DLEDGER_HEAD;
        if (rec.msg_size) break;
    }
    return (int64_t)pos;
}

static int64_t walk_from_start(const rmq_window *w, size_t boundary, uint32_t max_record_size, int dledger) {
    size_t pos = 0;
    while (pos < boundary) {
        if (dledger) {
            const int64_t behind = behind_heads(w, pos, boundary);
            if (behind <= 0) return behind;
            pos = (size_t)behind;
            if (pos >= boundary) break;
        }
        const int64_t size = sound_size(w, pos, max_record_size);
        if (size <= 0) return size;
        pos += (size_t)size;
    }
    return (int64_t)pos;
}

/* Whether a BLANK before limit reaches exactly to the end of the file. limit + RMQ_BLANK_MIN_SIZE - 1 <= w->len. */
static int has_blank(const rmq_window *w, size_t limit) {
    rmq_record rec;
    for (size_t pos = 0;; pos++) {
        pos = rmq_next_magic(w->buf, pos, limit, 0xCB, 0xD4);
        if (pos >= limit) return 0;
        if (rmq_window_step(w, pos, &rec) == RMQ_R_BLANK) return 1;
    }
}

/* The same for the mark that ends a DLedger file. limit + RMQ_BLANK_MIN_SIZE - 1 <= w->len. */
static int has_end_mark(const rmq_window *w, size_t limit) {
    rmq_record rec;
    for (size_t pos = 0; pos < limit; pos++) {
        const uint8_t *hit = memchr(w->buf + pos, 0xFF, limit - pos);
        if (hit == NULL) return 0;
        pos = (size_t)(hit - w->buf);
        const int64_t at = w->phy_offset + (int64_t)pos;
        if (rmq_load_i32(hit) == RMQ_DLEDGER_END &&
            rmq_dledger_step(hit, w->len - pos, at, w->end_offset - at, &rec) == RMQ_R_BLANK) {
            return 1;
        }
    }
    return 0;
}

int64_t rmq_split_start(const rmq_window *w, size_t boundary, uint32_t max_record_size, int anchored, int dledger) {
    if (anchored) return walk_from_start(w, boundary, max_record_size, dledger);
    /* The last candidate may begin one byte before the boundary. */
    const int whole = w->phy_offset + (int64_t)w->len >= w->end_offset;
    if (w->len - boundary < PLACE_END && !whole) return RMQ_SPLIT_MORE;
    size_t limit = w->len < RMQ_BLANK_MIN_SIZE ? 0 : w->len - RMQ_BLANK_MIN_SIZE + 1;
    if (limit > boundary) limit = boundary;

    int64_t answer = RMQ_SPLIT_NOTHING;
    uint64_t work = RMQ_SPLIT_WORK * (uint64_t)w->len;
    for (size_t pos = 0;; pos++) {
        pos = rmq_next_magic(w->buf, pos, limit, 0xDA, 0xA3);
        if (pos >= limit) break;
        const int32_t magic = rmq_load_i32(w->buf + pos + RMQ_REC_MAGIC);
        if (magic != RMQ_MAGIC_V1 && magic != RMQ_MAGIC_V2) continue;
        if (w->len - pos < PLACE_END) return RMQ_SPLIT_ODD; /* the file ends in the middle of a header */
        if (!is_candidate(w, pos)) continue;
        const int64_t size = sound_size(w, pos, max_record_size);
        if (size <= 0) return size;
        if ((uint64_t)size > work) return RMQ_SPLIT_NOTHING;
        work -= (uint64_t)size;
        size_t end = pos + (size_t)size;
        if (dledger && end < boundary) {
            const int64_t behind = behind_heads(w, end, boundary);
            if (behind <= 0) return behind;
            end = (size_t)behind;
        }
        if (end < boundary) {
            /* The search checks that it is sound when it arrives there. */
            if (w->len - end < PLACE_END || !is_candidate(w, end)) return RMQ_SPLIT_ODD;
        } else if (answer == RMQ_SPLIT_NOTHING) {
            answer = (int64_t)end;
        } else if (answer != (int64_t)end) {
            return RMQ_SPLIT_ODD;
        }
    }
    if (answer > 0 && (has_blank(w, limit) || (dledger && has_end_mark(w, limit)))) return RMQ_SPLIT_ODD;
    return answer;
}
