#include "scan/skip.h"

enum { UNKNOWN = -1, HEAD = RMQ_REC_BODY_V4 + 2 * RMQ_HOST_V6_EXTRA };

static int64_t window_pos(const rmq_prover *p) { return p->window.phy_offset - p->file_from_offset; }

/* The bytes that may still be hashed in vain at a place of the window. */
static uint64_t credit_at(const rmq_skip *skip, size_t pos) {
    const int64_t left = skip->prover->window.phy_offset + (int64_t)pos - skip->credit_from - skip->in_vain;
    return left > 0 ? (uint64_t)left : 0;
}

/* Whether the damage at pos was found in bytes that no writer is changing. */
static int is_settled(const rmq_skip *skip, size_t pos, const rmq_record *rec) {
    const size_t left = skip->prover->window.len - pos;
    const size_t size = rec->msg_size > HEAD ? rec->msg_size : HEAD;
    return pos + (size < left ? size : left) <= skip->settled;
}

/* Whether a record or BLANK at `at`, a position of the file, proves itself; UNKNOWN if that takes more than constant
 * time. */
static int proves_itself(rmq_skip *skip, size_t pos, int64_t at) {
    rmq_prover *p = skip->prover;
    rmq_record rec;
    int32_t stored;
    const int32_t shape = rmq_proof_shape(p, at, &rec, &stored);
    if (shape == RMQ_PROOF_FETCH) return UNKNOWN;
    if (shape <= 0) return shape == RMQ_R_BLANK;
    if (skip->states) {
        const int32_t code = rmq_proof_step(p, skip->states, at, &rec);
        return code == RMQ_PROOF_FETCH ? UNKNOWN : code > 0;
    }
    const int64_t inside = at - window_pos(p);
    if (inside < 0 || inside + shape > (int64_t)p->window.len) return UNKNOWN;
    if ((uint64_t)shape > credit_at(skip, pos)) return UNKNOWN;
    if (rmq_window_step(&p->window, (size_t)inside, &rec) > 0) return 1;
    skip->in_vain += shape;
    return 0;
}

/* The next place in the window behind pos that proves itself; -1 if no place does, or the window does not decide. */
static int64_t search(rmq_skip *skip, size_t pos) {
    rmq_prover *p = skip->prover;
    rmq_record rec;
    int32_t code;
    if (skip->states) {
        const int64_t at = rmq_proof_find(p, skip->states, window_pos(p) + (int64_t)pos + 1, &code, &rec);
        return code >= 0 ? at : -1;
    }
    for (size_t from = pos + 1;;) {
        uint64_t credit = credit_at(skip, pos);
        const uint64_t before = credit;
        const size_t at = rmq_resync_find(&p->window, from, &credit, &code, &rec);
        skip->in_vain += (int64_t)(before - credit);
        if (code >= 0) return window_pos(p) + (int64_t)at;
        if (code != RMQ_E_SHORT) return -1;
        /* The record ends behind the window. */
        const int proven = proves_itself(skip, pos, window_pos(p) + (int64_t)at);
        if (proven) return proven == UNKNOWN ? -1 : window_pos(p) + (int64_t)at;
        from = at + 1;
    }
}

/* Where the scan continues behind bytes that are not a record, inside the window; -1: undecided. */
static int64_t next_place(rmq_skip *skip, size_t pos, int32_t code) {
    rmq_prover *p = skip->prover;
    int64_t guesses[2];
    /* Zeros have no lengths to test. */
    const int count = code == RMQ_E_ZERO ? 0 : rmq_proof_guesses(p, window_pos(p) + (int64_t)pos, guesses);
    if (count < 0) return -1;
    for (int i = 0; i < count; i++) {
        if (guesses[i] >= p->window.end_offset - p->file_from_offset) continue;
        const int proven = proves_itself(skip, pos, guesses[i]);
        if (proven) return proven == UNKNOWN ? -1 : guesses[i];
    }
    return search(skip, pos);
}

/* The fault of a record that ends behind the window, by rmq_proof_shape; 0 without a fault, or if undecided. */
static int32_t wrong_behind(const rmq_skip *skip, size_t pos, rmq_record *rec) {
    int32_t stored;
    if (rec->msg_size == 0) return 0;
    const int32_t code = rmq_proof_shape(skip->prover, window_pos(skip->prover) + (int64_t)pos, rec, &stored);
    return code >= 0 || code == RMQ_PROOF_FETCH ? 0 : code;
}

/* Moves behind a sound head at *pos. A head proves itself, also while a writer is active behind it. */
static int pass_head(rmq_skip *skip, size_t *pos) {
    const rmq_window *w = &skip->prover->window;
    const int64_t at = w->phy_offset + (int64_t)*pos;
    rmq_record rec;
    if (rmq_dledger_step(w->buf + *pos, w->len - *pos, at, w->end_offset - at, &rec) != RMQ_DLEDGER_HEAD) return 0;
    skip->notes[skip->count++] =
        (rmq_skipped){.start = at, .end = at + RMQ_DLEDGER_HEAD, .found = 0, .expected = 0, .code = RMQ_SKIP_HEAD};
    *pos += RMQ_DLEDGER_HEAD;
    return 1;
}

int rmq_skip_damage(rmq_skip *skip, size_t *pos, int32_t code, const rmq_record *rec, int64_t *trusted) {
    const rmq_window *w = &skip->prover->window;
    const int64_t at = w->phy_offset + (int64_t)*pos;
    rmq_record own = *rec;
    if (code >= 0 || skip->count == skip->room) return 0;
    if (skip->dledger && code == RMQ_E_MAGIC) return pass_head(skip, pos);
    if ((skip->dledger && code != RMQ_E_BODYCRC) || !is_settled(skip, *pos, rec)) return 0;
    if (code == RMQ_E_SHORT && (code = wrong_behind(skip, *pos, &own)) == 0) return 0;
    int64_t next = (int64_t)*pos + own.msg_size;
    if (code != RMQ_E_BODYCRC) {
        next = next_place(skip, *pos, code);
        if (next < 0) return 0;
        next -= window_pos(skip->prover);
        /* A place behind the window is left to the next window. */
        if (next > (int64_t)w->len) return 0;
    }
    skip->notes[skip->count++] = (rmq_skipped){
        .start = at, .end = w->phy_offset + next, .found = own.found, .expected = own.expected, .code = code};
    if (code == RMQ_E_BODYCRC && !skip->leave_out) {
        *trusted = at;
    } else {
        *pos = (size_t)next;
    }
    return 1;
}
