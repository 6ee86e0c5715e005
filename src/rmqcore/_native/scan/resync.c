#include "scan/resync.h"
#include <string.h>

size_t rmq_next_magic(const uint8_t *buf, size_t pos, size_t limit, uint8_t a, uint8_t b) {
    while (pos < limit) {
        const uint8_t *hit = memchr(buf + pos + 4, a, limit - pos);
        if (hit == NULL) return limit;
        pos = (size_t)(hit - buf) - 4;
        if (buf[pos + 5] == b) return pos;
        pos++;
    }
    return limit;
}

size_t rmq_next_candidate(const uint8_t *buf, size_t pos, size_t limit, rmq_candidates *candidates) {
    rmq_candidates *c = candidates;
    if (!c->begun || c->message < pos) c->message = rmq_next_magic(buf, pos, limit, 0xDA, 0xA3);
    /* Not further than that: a search for the first place pays only for the bytes before it. */
    if (!c->begun || c->blank < pos) c->blank = rmq_next_magic(buf, pos, c->message, 0xCB, 0xD4);
    c->begun = 1;
    return c->blank;
}

/* As rmq_window_step, with a limit on the cost of the CRC. */
static int32_t paid_step(const rmq_window *w, size_t pos, uint64_t *credit, rmq_record *rec) {
    rmq_window plain = *w;
    plain.check_crc = 0;
    const int32_t code = rmq_window_step(&plain, pos, rec);
    if (code <= 0) return code;
    if (rec->body_len > *credit) return RMQ_RESYNC_COSTLY;
    const int32_t bad = rmq_record_check_body_crc(rec);
    if (bad) *credit -= rec->body_len;
    return bad ? bad : code;
}

size_t rmq_resync_find(const rmq_window *w, size_t pos, uint64_t *credit, int32_t *code, rmq_record *rec) {
    const size_t limit = w->len >= RMQ_BLANK_MIN_SIZE ? w->len - RMQ_BLANK_MIN_SIZE + 1 : 0;
    rmq_candidates candidates = {0, 0, 0};
    while (pos < limit && (pos = rmq_next_candidate(w->buf, pos, limit, &candidates)) < limit) {
        *code = paid_step(w, pos, credit, rec);
        if (*code >= RMQ_R_BLANK || *code == RMQ_E_SHORT || *code == RMQ_RESYNC_COSTLY) return pos;
        pos++;
    }
    *code = RMQ_E_MAGIC;
    return pos > limit ? pos : limit;
}

size_t rmq_used_bytes(const uint8_t *buf, size_t len) {
    uint64_t word;
    while (len >= 8) {
        memcpy(&word, buf + len - 8, 8);
        if (word) break;
        len -= 8;
    }
    while (len && buf[len - 1] == 0) len--;
    return len;
}
