/* Windows, resynchronisation, filters and columns over one input, several ways that must agree: step by step, in columns over
 * the whole, in columns over a window that grows as a reader's does. Layout of the input: 8 control bytes, then CommitLog bytes.
 */
#include "scan/columns.h"
#include "crc32/crc32.h"
#include "fuzz.h"
#include "scan/proof.h"
#include "scan/resync.h"
#include "scan/skip.h"
#include "format/utf8.h"

enum { FIX = 1, PLACE = 2, CRC = 4, TAGS = 8, KEYS = 16, FEW_COLUMNS = 32, TIMES = 64, TRUST = 128 };
static const uint32_t ALL = (UINT32_C(1) << RMQ_COL_COUNT) - 1;

/* Gives the records of the input their place and CRC, or nothing but the first would ever be accepted. */
static void fix(uint8_t *data, size_t size, int64_t phy_offset) {
    rmq_record r;
    for (size_t pos = 0; pos + 8 <= size;) {
        if (rmq_record_parse(data + pos, size - pos, &r) <= 0) {
            pos++;
            continue;
        }
        rmq_store_i64(data + pos + RMQ_REC_PHYSICALOFFSET, phy_offset + (int64_t)pos);
        const uint32_t crc = rmq_crc32(r.at + r.body_pos, r.body_len) & RMQ_CRC_MASK;
        rmq_store_i32(data + pos + RMQ_REC_BODYCRC, (int32_t)crc);
        pos += r.msg_size;
    }
}

static int from_block(void *context, int64_t pos, size_t len, uint8_t *out) {
    const rmq_window *w = context;
    CHECK(pos >= 0 && len <= RMQ_PROOF_BLOCK && (uint64_t)pos + len <= w->len);
    memcpy(out, w->buf + pos, len);
    return 0;
}

/* The file is the whole input. At `at` a prover that sees little of it says what a window over all of it says. */
static void check_proof(const rmq_window *w, const rmq_prover *p, const rmq_crc32_states *states, size_t at) {
    rmq_record r, other;
    int32_t body_crc;
    const int32_t code = rmq_window_step(w, at, &r);
    CHECK(rmq_proof_step(p, states, (int64_t)at, &other) == code);
    CHECK(code > 0 || (r.found == other.found && r.expected == other.expected));
    CHECK(code <= 0 ||
          (r.body_pos == other.body_pos && r.body_len == other.body_len && r.props_pos == other.props_pos));
    CHECK(rmq_proof_shape(p, (int64_t)at, &other, &body_crc) == (code == RMQ_E_BODYCRC ? (int32_t)r.msg_size : code));
}

/* Whether a walk may go on at `next` behind the damage at `pos`: an end that it claims, or the first place that proves itself. */
static void check_next(const rmq_window *w, const rmq_prover *p, size_t pos, size_t next) {
    int64_t guesses[2];
    rmq_record r;
    const int count = rmq_proof_guesses(p, (int64_t)pos, guesses);
    CHECK(rmq_window_step(w, next, &r) >= 0);
    for (int i = 0; i < count; i++) {
        if (guesses[i] == (int64_t)next) return;
    }
    for (size_t at = pos + 1; at < next; at++) CHECK(rmq_window_step(w, at, &r) < 0);
}

/* The file is the whole input, of which the prover's window is a part. */
static void check_skips(const rmq_window *w, rmq_prover *p, const rmq_crc32_states *states) {
    rmq_skipped notes[16];
    rmq_skip skip = {
        .prover = p, .states = states, .notes = notes, .room = 16, .settled = p->window.len, .leave_out = 1};
    skip.credit_from = -(INT64_C(1) << 40);
    rmq_record r = {0};
    int64_t trusted = -1;
    for (size_t pos = 0; pos < p->window.len;) {
        const int32_t code = rmq_window_step(&p->window, pos, &r);
        if (code > 0) {
            pos += (size_t)code;
            continue;
        }
        const size_t before = pos, noted = skip.count;
        if (!rmq_skip_damage(&skip, &pos, code, &r, &trusted)) {
            CHECK(pos == before && skip.count == noted);
            return;
        }
        CHECK(pos > before && pos <= p->window.len && skip.count == noted + 1 && trusted == -1);
        const rmq_skipped *note = &notes[noted];
        CHECK(note->start == w->phy_offset + (int64_t)before && note->end == w->phy_offset + (int64_t)pos);
        CHECK(note->code == rmq_window_step(w, before, &r) && note->found == r.found && note->expected == r.expected);
        if (note->code == RMQ_E_BODYCRC) CHECK(pos == before + r.msg_size);
        if (note->code != RMQ_E_BODYCRC && note->code != RMQ_E_ZERO) check_next(w, p, before, pos);
    }
}

static void check_proofs(const rmq_window *input) {
    rmq_window w = *input;
    w.check_place = w.check_crc = 1;
    w.trusted = -1;
    w.end_offset = w.phy_offset + (int64_t)w.len;
    rmq_crc32_states *states = calloc(1, sizeof *states);
    CHECK(states != NULL);
    states->block = 256;
    states->states = calloc(w.len / 256 + 2, sizeof *states->states);
    states->extents = calloc(1, sizeof *states->extents);
    CHECK(states->states && states->extents);
    rmq_crc32_powers_init(&states->powers);
    rmq_crc32_begin_extent(states, 0);
    rmq_crc32_add(states, w.buf, w.len);
    rmq_prover p = {w, w.phy_offset, from_block, &w};
    p.window.len = w.len / 3; /* what lies behind it is fetched */
    check_skips(&w, &p, states);
    check_skips(&w, &p, NULL);
    for (size_t at = 0; at < w.len; at++) {
        const int looks_sound = w.len - at >= 8 && rmq_load_i32(w.buf + at + 4) == RMQ_MAGIC_V1;
        if (looks_sound || at % 61 == 0) check_proof(&w, &p, states, at);
    }

    int32_t code, expected;
    rmq_record r;
    uint64_t credit = UINT64_MAX;
    const size_t next = rmq_resync_find(&w, 0, &credit, &expected, &r);
    p.window.len = w.len;
    CHECK(rmq_proof_find(&p, states, 0, &code, &r) == (int64_t)next && code == expected);
    check_skips(&w, &p, states);
    check_skips(&w, &p, NULL);
    for (size_t pos = 0; pos < w.len; pos += 7) {
        int64_t guesses[2];
        const int count = rmq_proof_guesses(&p, (int64_t)pos, guesses);
        CHECK(count >= 0 && count <= 2);
        for (int i = 0; i < count; i++) CHECK(guesses[i] > (int64_t)pos && guesses[i] <= (int64_t)w.len);
    }
    free(states->states);
    free(states->extents);
    free(states);
}

/* As a reader goes: over records, and over damage to the next place that proves itself. */
static void check_resync(const rmq_window *w) {
    rmq_window strict = *w;
    strict.check_place = strict.check_crc = 1;
    strict.trusted = -1;
    rmq_record r, other;
    for (size_t pos = 0; pos < w->len;) {
        const int64_t left_in_file = w->end_offset - w->phy_offset - (int64_t)pos;
        int32_t code = rmq_window_step(&strict, pos, &r);
        if (code > 0) {
            CHECK((size_t)code <= w->len - pos && rmq_rec_phy_offset(&r) == w->phy_offset + (int64_t)pos);
            pos += (size_t)code;
            continue;
        }
        CHECK(code != RMQ_R_BLANK || r.msg_size == left_in_file);
        if (code == RMQ_E_SHORT)
            CHECK(r.msg_size == 0 ? w->len - pos < 8 : r.msg_size > w->len - pos && r.msg_size <= left_in_file);
        uint64_t credit = UINT64_MAX;
        const size_t next = rmq_resync_find(&strict, pos + 1, &credit, &code, &r);
        CHECK(next > pos && next <= w->len);
        if (code == RMQ_E_MAGIC) {
            CHECK(next == pos + 1 || next + RMQ_BLANK_MIN_SIZE == w->len + 1);
            /* Nothing on the way proves itself, looked at one by one. */
            for (size_t at = pos + 1; at < next; at++) CHECK(rmq_window_step(&strict, at, &other) < 0);
            return;
        }
        CHECK(code >= RMQ_R_BLANK || code == RMQ_E_SHORT);
        CHECK(rmq_window_step(&strict, next, &other) == code);
        for (size_t at = pos + 1; at < next; at++) CHECK(rmq_window_step(&strict, at, &other) < 0);
        pos = code == RMQ_E_SHORT ? next + 1 : next;
        if (code == RMQ_R_BLANK) return;
    }
}

static void check_strings(const rmq_strings *s, size_t count, int text) {
    CHECK(s->count == count && s->offsets[0] == 0);
    for (size_t i = 0; i < count; i++) {
        const int32_t from = s->offsets[i], to = s->offsets[i + 1];
        CHECK(from <= to && (size_t)to <= s->data_cap);
        if (text) CHECK(rmq_utf8_valid(s->data + from, (size_t)(to - from)));
    }
}

static void check_batch(const rmq_batch *batch, uint32_t wanted, const rmq_topics *topics, const rmq_topics *tags) {
    const size_t rows = (size_t)batch->rows;
    for (int id = 0; id < RMQ_COL_COUNT; id++) {
        if (!(wanted >> id & 1) || rows == 0) continue;
        const rmq_column *c = &batch->columns[id];
        const int kind = rmq_column_types[id].kind;
        if (c->offsets) {
            CHECK(c->offsets[0] == 0);
            for (size_t i = 0; i < rows; i++) CHECK(c->offsets[i] <= c->offsets[i + 1]);
        }
        if (kind == RMQ_KIND_TEXT || kind == RMQ_KIND_BYTES) check_strings(&c->strings, rows, kind == RMQ_KIND_TEXT);
        if (kind == RMQ_KIND_WORDS || kind == RMQ_KIND_MAP) check_strings(&c->strings, (size_t)c->offsets[rows], 1);
        if (kind == RMQ_KIND_MAP) check_strings(&c->second, (size_t)c->offsets[rows], 1);
        if (kind == RMQ_KIND_HASHES) {
            for (int32_t i = 0; i < c->offsets[rows]; i++) CHECK(c->values.i32[i] >= 0);
        }
        if (id == RMQ_COL_TOPIC_ID) {
            for (size_t i = 0; i < rows; i++)
                CHECK(c->values.i32[i] >= 0 && c->values.i32[i] < rmq_topics_count(topics));
        }
        if (id == RMQ_COL_TAG_ID) {
            for (size_t i = 0; i < rows; i++)
                CHECK(c->values.i32[i] >= -1 && c->values.i32[i] < rmq_topics_count(tags));
        }
        if (id == RMQ_COL_PHY_OFFSET) {
            for (size_t i = 0; i < rows; i++) (void)c->values.i64[i];
        }
    }
}

typedef struct outcome {
    int64_t rows;
    uint64_t sizes; /* a sum over positions and sizes: equal only when the same records were delivered */
    size_t pos;
    int32_t code;
} outcome;

/* The first len bytes in a block of their own: a read behind the window is a read behind the block. */
static uint8_t *window_bytes(const rmq_window *whole, size_t len) {
    uint8_t *block = malloc(len ? len : 1);
    CHECK(block != NULL);
    memcpy(block, whole->buf, len);
    return block;
}

/* Records in columns; a window of `grow` more bytes at a time, all at once when 0. */
static outcome in_columns(const rmq_filter *filter, uint32_t wanted, const rmq_window *whole, size_t grow,
                          int64_t rows) {
    static const int64_t delays[] = {1000, 5000, 10000};
    rmq_scan *scan = calloc(1, sizeof *scan);
    rmq_pool *pool = rmq_pool_new(wanted, rows);
    rmq_topics *topics = rmq_topics_new(), *tags = rmq_topics_new();
    CHECK(scan && pool && topics && tags);
    scan->filter = filter;
    scan->levels = (rmq_delay_levels){delays, 3};
    scan->topics = topics;
    scan->tags = tags;
    scan->wanted = wanted;
    scan->batch_rows = rows;
    scan->batch_bytes = 1 << 20;
    scan->stop_offset = INT64_MAX;
    rmq_window w = *whole;
    if (grow && grow < w.len) w.len = grow;
    uint8_t *exact = window_bytes(whole, w.len);
    w.buf = exact;
    outcome o = {0, 0, 0, RMQ_S_FULL};
    for (;;) {
        rmq_batch *batch = rmq_batch_take(pool);
        CHECK(batch != NULL);
        rmq_record r;
        const size_t before = o.pos;
        o.code = rmq_scan_columns(scan, batch, &w, &o.pos, &r);
        CHECK(o.pos >= before && o.pos <= w.len);
        check_batch(batch, wanted, topics, tags);
        o.rows += batch->rows;
        for (int64_t i = 0; i < batch->rows; i++) {
            o.sizes = o.sizes * 31 + (uint32_t)batch->columns[RMQ_COL_MSG_SIZE].values.i32[i];
        }
        rmq_batch_release(batch);
        if (o.code == RMQ_S_FULL) {
            CHECK(o.pos > before);
            continue;
        }
        CHECK(o.code != RMQ_S_MEMORY && o.code < RMQ_REC_MIN_SIZE_V1);
        if ((o.code != RMQ_S_END && o.code != RMQ_E_SHORT) || w.len == whole->len) break;
        w.len = w.len + grow < whole->len ? w.len + grow : whole->len;
        free(exact);
        w.buf = exact = window_bytes(whole, w.len);
    }
    free(exact);
    rmq_pool_close(pool);
    rmq_topics_free(topics);
    rmq_topics_free(tags);
    free(scan);
    return o;
}

static outcome one_by_one(const rmq_filter *filter, const rmq_window *w) {
    rmq_scan *scan = calloc(1, sizeof *scan);
    CHECK(scan != NULL);
    scan->filter = filter;
    scan->stop_offset = INT64_MAX;
    outcome o = {0, 0, 0, RMQ_S_RECORD};
    rmq_record r;
    while ((o.code = rmq_scan_next(scan, w, &o.pos, &r)) == RMQ_S_RECORD) {
        CHECK(r.at == w->buf + o.pos);
        o.rows++;
        o.sizes = o.sizes * 31 + r.msg_size;
        o.pos += r.msg_size;
    }
    free(scan);
    return o;
}

static void same(outcome a, outcome b) {
    CHECK(a.rows == b.rows && a.sizes == b.sizes && a.pos == b.pos && a.code == b.code);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    if (rmq_crc32_select("") != RMQ_CRC_OK) abort();
    uint8_t control[8];
    take_control(&input, &size, control, sizeof control);
    const int flags = control[0];
    uint8_t *data = malloc(size + 1);
    CHECK(data != NULL);
    memcpy(data + 1, input, size); /* odd, and the end is the end of the block */
    rmq_window w = {data + 1, size, (int64_t)control[4] << 30, 0, flags & PLACE, flags & CRC, -1};
    w.end_offset = w.phy_offset + (int64_t)size + control[3];
    if (flags & TRUST) w.trusted = w.phy_offset;
    if (flags & FIX) fix(data + 1, size, w.phy_offset);

    uint32_t tag_slots[8] = {0}, key_slots[8] = {0};
    const rmq_slice tags[] = {{(const uint8_t *)"TagA", 4}, {(const uint8_t *)"TagB", 4}};
    const rmq_slice keys[] = {{(const uint8_t *)"k1", 2}, {(const uint8_t *)"", 0}};
    rmq_filter filter;
    memset(&filter, 0, sizeof filter);
    filter.queue_id_count = -1;
    filter.since_ms = flags & TIMES ? 0 : INT64_MIN;
    filter.until_ms = INT64_MAX;
    filter.start_phy_offset = INT64_MIN;
    filter.end_phy_offset = INT64_MAX;
    rmq_text_set_build(tag_slots, 7, tags, 2);
    rmq_text_set_build(key_slots, 7, keys, 2);
    filter.tags = (rmq_text_set){tags, tag_slots, 7, (flags & TAGS) != 0};
    filter.keys = (rmq_text_set){keys, key_slots, 7, (flags & KEYS) != 0};

    const rmq_filter *chosen = flags & (TAGS | KEYS | TIMES) ? &filter : NULL;
    /* The kernels have loops of their own for all public columns and for the numbers among them. */
    uint32_t wanted = (uint32_t)control[5] | (uint32_t)control[6] << 8 | (uint32_t)control[7] << 16;
    if ((flags & FEW_COLUMNS) == 0) {
        wanted = control[5] % 3 == 0 ? ALL : (UINT32_C(1) << RMQ_COL_PUBLIC) - 1;
        for (int id = 0; control[5] % 3 == 1 && id < RMQ_COL_PUBLIC; id++) {
            if (rmq_column_types[id].kind > RMQ_KIND_I64) wanted &= ~(UINT32_C(1) << id);
        }
    }
    wanted |= UINT32_C(1) << RMQ_COL_MSG_SIZE;
    const outcome expected = one_by_one(chosen, &w);
    same(in_columns(chosen, wanted, &w, 0, 64), expected);
    same(in_columns(chosen, wanted, &w, 1 + control[1], 1 + control[2] % 4), expected);
    check_resync(&w);
    check_proofs(&w);
    CHECK(rmq_used_bytes(data + 1, size) <= size);
    const size_t used = rmq_used_bytes(data + 1, size);
    CHECK(used == 0 || data[used] != 0);
    for (size_t i = used; i < size; i++) CHECK(data[1 + i] == 0);
    free(data);
    return 0;
}
