#include "scan/proof.h"
#include <string.h>

enum {
    HEAD = RMQ_REC_BODY_V4 + 2 * RMQ_HOST_V6_EXTRA, /* the most bytes before a body */
    WITHOUT_BODY = HEAD + 2 + RMQ_MAX_TOPIC_LEN_V2 + 2 + RMQ_MAX_PROPERTIES_LEN,
};

static int64_t file_end(const rmq_prover *p) { return p->window.end_offset - p->file_from_offset; }

static int64_t window_pos(const rmq_prover *p) { return p->window.phy_offset - p->file_from_offset; }

static int bytes_at(const rmq_prover *p, int64_t pos, size_t len, uint8_t *out) {
    const int64_t at = pos - window_pos(p);
    if (at < 0 || (uint64_t)at + len > p->window.len) return p->fetch(p->context, pos, len, out);
    memcpy(out, p->window.buf + at, len);
    return 0;
}

static uint32_t topic_width(const uint8_t *head) { return rmq_load_i32(head + RMQ_REC_MAGIC) == RMQ_MAGIC_V2 ? 2 : 1; }

static int32_t topic_length(const uint8_t *p, uint32_t width) { return width == 2 ? rmq_load_i16(p) : (int8_t)p[0]; }

/* As rmq_window_step does behind rmq_record_parse. */
static int32_t without_lengths(const rmq_prover *p, int64_t pos, const uint8_t *head, rmq_record *rec) {
    const int64_t left = file_end(p) - pos;
    const int32_t code = rmq_record_parse(head, RMQ_BLANK_MIN_SIZE, rec);
    if (code == RMQ_R_BLANK && rec->msg_size != left) {
        return rmq_record_refuse(rec, RMQ_E_BLANKSIZE, rec->msg_size, left);
    }
    if (code == RMQ_E_SHORT && rec->msg_size > left) {
        return rmq_record_refuse(rec, RMQ_E_PAST_FILE, rec->msg_size, left);
    }
    return code;
}

int32_t rmq_proof_shape(const rmq_prover *p, int64_t pos, rmq_record *rec, int32_t *body_crc) {
    /* The record without its body: its length fields in their places and nothing else behind the head. So
     * rmq_record_parse, which reads only these bytes, decides here too. */
    uint8_t probe[WITHOUT_BODY];
    const int64_t left = file_end(p) - pos;
    rec->at = NULL;
    rec->msg_size = 0;
    if (left < RMQ_BLANK_MIN_SIZE) return rmq_record_refuse(rec, RMQ_E_SHORT_FILE, left, RMQ_BLANK_MIN_SIZE);
    if (bytes_at(p, pos, left < HEAD ? (size_t)left : HEAD, probe)) return RMQ_PROOF_FETCH;
    int32_t code = without_lengths(p, pos, probe, rec);
    if (code != RMQ_E_SHORT) return code;

    const uint32_t total = rec->msg_size, width = topic_width(probe);
    const uint32_t body_pos = rmq_rec_body_pos(rmq_load_i32(probe + RMQ_REC_SYSFLAG));
    const int64_t body_room = (int64_t)total - body_pos - width - 2;
    const int32_t body_len = body_room < 0 ? -1 : rmq_load_i32(probe + body_pos - 4);
    /* Refused by its head alone. */
    if (body_len < 0 || body_len > body_room) return rmq_record_parse(probe, total, rec);

    const int64_t tail = pos + body_pos + body_len;
    if (bytes_at(p, tail, width, probe + body_pos)) return RMQ_PROOF_FETCH;
    const int32_t topic_len = topic_length(probe + body_pos, width);
    if (topic_len >= 0 && topic_len <= body_room - body_len &&
        bytes_at(p, tail + width + topic_len, 2, probe + body_pos + width + topic_len)) {
        return RMQ_PROOF_FETCH;
    }
    *body_crc = rmq_load_i32(probe + RMQ_REC_BODYCRC);
    const int64_t phy_offset = rmq_load_i64(probe + RMQ_REC_PHYSICALOFFSET);
    rmq_store_i32(probe + RMQ_REC_TOTALSIZE, (int32_t)(total - (uint32_t)body_len));
    rmq_store_i32(probe + body_pos - 4, 0);
    code = rmq_record_parse(probe, total - (uint32_t)body_len, rec);
    rec->at = NULL;
    rec->msg_size = total;
    if (code == RMQ_E_LENGTHS) return rmq_record_refuse(rec, code, total, rec->expected + body_len);
    if (code < 0) return code;
    rec->body_len = (uint32_t)body_len;
    rec->topic_pos += (uint32_t)body_len;
    rec->props_pos += (uint32_t)body_len;
    if (phy_offset != p->file_from_offset + pos) {
        return rmq_record_refuse(rec, RMQ_E_PHYSICALOFFSET, phy_offset, p->file_from_offset + pos);
    }
    return (int32_t)total;
}

static int state_at(const rmq_prover *p, const rmq_crc32_states *states, int64_t pos, uint32_t *state) {
    uint8_t part[RMQ_PROOF_BLOCK];
    int64_t known;
    *state = rmq_crc32_state(states, pos, &known);
    const size_t len = (size_t)(pos - known);
    if (len == 0) return 0;
    if (bytes_at(p, known, len, part)) return -1;
    *state = rmq_crc32_more(&states->powers, *state, part, len);
    return 0;
}

int32_t rmq_proof_step(const rmq_prover *p, const rmq_crc32_states *states, int64_t pos, rmq_record *rec) {
    int32_t stored = 0;
    uint32_t before, after;
    const int32_t code = rmq_proof_shape(p, pos, rec, &stored);
    if (code <= 0) return code;
    const int64_t body = pos + rec->body_pos;
    if (state_at(p, states, body, &before) || state_at(p, states, body + rec->body_len, &after)) return RMQ_PROOF_FETCH;
    const int32_t actual = (int32_t)(rmq_crc32_between(&states->powers, before, after, rec->body_len) & RMQ_CRC_MASK);
    return stored == actual ? code : rmq_record_refuse(rec, RMQ_E_BODYCRC, stored, actual);
}

/* Nearly all bytes that look like MAGIC are those of a record of another place. */
static int is_elsewhere(const rmq_prover *p, const uint8_t *at, int64_t pos) {
    return rmq_load_i32(at + RMQ_REC_MAGIC) != RMQ_MAGIC_BLANK &&
           rmq_load_i64(at + RMQ_REC_PHYSICALOFFSET) != p->file_from_offset + pos;
}

int64_t rmq_proof_find(const rmq_prover *p, const rmq_crc32_states *states, int64_t pos, int32_t *code,
                       rmq_record *rec) {
    const rmq_window *w = &p->window;
    const int64_t start = window_pos(p);
    const size_t limit = w->len >= RMQ_BLANK_MIN_SIZE ? w->len - RMQ_BLANK_MIN_SIZE + 1 : 0;
    rmq_candidates candidates = {0, 0, 0};
    size_t at = (size_t)(pos - start);
    while (at < limit && (at = rmq_next_candidate(w->buf, at, limit, &candidates)) < limit) {
        const int whole = w->len - at >= RMQ_REC_PHYSICALOFFSET + 8;
        if (!(whole && is_elsewhere(p, w->buf + at, start + (int64_t)at))) {
            *code = rmq_proof_step(p, states, start + (int64_t)at, rec);
            if (*code >= RMQ_R_BLANK || *code == RMQ_PROOF_FETCH) return start + (int64_t)at;
        }
        at++;
    }
    *code = RMQ_E_MAGIC;
    return start + (int64_t)(at > limit ? at : limit);
}

int rmq_proof_guesses(const rmq_prover *p, int64_t pos, int64_t guesses[2]) {
    const int64_t left = file_end(p) - pos;
    uint8_t head[HEAD], field[2];
    int count = 0;
    if (left < RMQ_REC_MIN_SIZE_V1) return 0;
    if (bytes_at(p, pos, left < HEAD ? (size_t)left : HEAD, head)) return RMQ_PROOF_FETCH;
    const int32_t total = rmq_load_i32(head + RMQ_REC_TOTALSIZE);
    if (total >= RMQ_REC_MIN_SIZE_V1 && total <= left) guesses[count++] = pos + total;

    int64_t at = rmq_rec_body_pos(rmq_load_i32(head + RMQ_REC_SYSFLAG));
    if (at > left) return count;
    const int32_t body_len = rmq_load_i32(head + at - 4);
    const uint32_t width = topic_width(head);
    if (body_len < 0) return count;
    at += body_len;
    if (at + width > left) return count;
    if (bytes_at(p, pos + at, width, field)) return RMQ_PROOF_FETCH;
    const int32_t topic_len = topic_length(field, width);
    if (topic_len < 0) return count;
    at += (int64_t)width + topic_len;
    if (at + 2 > left) return count;
    if (bytes_at(p, pos + at, 2, field)) return RMQ_PROOF_FETCH;
    const int32_t props_len = rmq_load_i16(field);
    if (props_len < 0) return count;
    at += 2 + props_len;
    if (at > left || (count && guesses[0] == pos + at)) return count;
    guesses[count++] = pos + at;
    return count;
}
