#include "scan/resync.h"
#include <string.h>

int rmq_resync_guesses(const rmq_window *w, size_t pos, size_t guesses[2]) {
    const size_t left = w->len - pos;
    const uint8_t *p = w->buf + pos;
    int count = 0;
    if (left < RMQ_REC_MIN_SIZE_V1) return 0;
    const int32_t total = rmq_load_i32(p + RMQ_REC_TOTALSIZE);
    if (total >= RMQ_REC_MIN_SIZE_V1 && (size_t)total <= left) guesses[count++] = pos + (size_t)total;

    const uint32_t sys_flag = (uint32_t)rmq_load_i32(p + RMQ_REC_SYSFLAG);
    uint64_t at = RMQ_REC_BODY_V4;
    if (sys_flag & RMQ_SYS_BORNHOST_V6) at += RMQ_HOST_V6_EXTRA;
    if (sys_flag & RMQ_SYS_STOREHOST_V6) at += RMQ_HOST_V6_EXTRA;
    if (at > left) return count;
    const int32_t body_len = rmq_load_i32(p + at - 4);
    if (body_len < 0) return count;
    at += (uint64_t)body_len;
    const uint64_t width = rmq_load_i32(p + RMQ_REC_MAGIC) == RMQ_MAGIC_V2 ? 2 : 1;
    if (at + width > left) return count;
    const int32_t topic_len = width == 2 ? rmq_load_i16(p + at) : (int8_t)p[at];
    if (topic_len < 0) return count;
    at += width + (uint64_t)topic_len;
    if (at + 2 > left) return count;
    const int32_t props_len = rmq_load_i16(p + at);
    if (props_len < 0) return count;
    at += 2 + (uint64_t)props_len;
    if (at > left || (count && guesses[0] == pos + at)) return count;
    guesses[count++] = pos + at;
    return count;
}

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

static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }

size_t rmq_resync_find(const rmq_window *w, size_t pos, int32_t *code, rmq_record *rec) {
    const size_t limit = w->len >= RMQ_BLANK_MIN_SIZE ? w->len - RMQ_BLANK_MIN_SIZE + 1 : 0;
    size_t message = pos, blank = pos;
    int message_known = 0, blank_known = 0;
    while (pos < limit) {
        /* Each candidate list is walked once, however the two interleave. */
        if (!message_known) message = rmq_next_magic(w->buf, pos, limit, 0xDA, 0xA3), message_known = 1;
        if (!blank_known) blank = rmq_next_magic(w->buf, pos, limit, 0xCB, 0xD4), blank_known = 1;
        pos = min_size(message, blank);
        if (pos >= limit) break;
        *code = rmq_window_step(w, pos, rec);
        if (*code >= RMQ_R_BLANK || *code == RMQ_E_SHORT) return pos;
        if (pos == message) message_known = 0;
        if (pos == blank) blank_known = 0;
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
