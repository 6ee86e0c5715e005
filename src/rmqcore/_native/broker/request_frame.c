#include "broker/request.h"

enum { FRAME_WORDS = 8, HEADER_LENGTH = 0xFFFFFF };

int rmq_request_measure(const uint8_t *bytes, size_t at, size_t n, rmq_request_frame *out) {
    const size_t left = n - at;
    if (left < 4) return RMQ_FRAME_MORE;
    const int32_t announced = rmq_load_i32(bytes + at);
    if (announced < 4 || announced > RMQ_REQUEST_MAX_FRAME_SIZE - 4) return RMQ_FRAME_BROKEN;
    if (left < FRAME_WORDS) return RMQ_FRAME_MORE;
    const uint32_t word = (uint32_t)rmq_load_i32(bytes + at + 4);
    const uint32_t header_len = word & HEADER_LENGTH;
    if (word >> 24 > 1 || header_len > RMQ_REQUEST_MAX_HEADER_SIZE || header_len > (uint32_t)announced - 4)
        return RMQ_FRAME_BROKEN;
    const size_t length = 4 + (size_t)announced;
    if (length > left) return RMQ_FRAME_MORE;
    out->header = bytes + at + FRAME_WORDS;
    out->header_len = header_len;
    out->body = out->header + header_len;
    out->body_len = length - FRAME_WORDS - header_len;
    out->end = at + length;
    out->is_binary = word >> 24 == 1;
    return RMQ_FRAME_WHOLE;
}

int rmq_request_read(const rmq_request_frame *frame, const rmq_request_kind *kind, rmq_request_header *out) {
    return frame->is_binary ? rmq_request_read_binary(frame->header, frame->header_len, kind, out)
                            : rmq_request_read_json(frame->header, frame->header_len, kind, out);
}

int rmq_request_int64(rmq_slice text, int64_t *out) {
    const uint8_t *p = text.p, *end = p + text.len;
    const int negative = p < end && *p == '-';
    int64_t value = 0;
    p += negative;
    if (p == end || end - p > 18) return 0; /* any 18 digits fit */
    do {
        const uint32_t digit = (uint32_t)*p - '0';
        if (digit > 9) return 0;
        value = value * 10 + digit;
    } while (++p < end);
    *out = negative ? -value : value;
    return 1;
}

int rmq_request_int32(rmq_slice text, int32_t *out) {
    int64_t value;
    if (!rmq_request_int64(text, &value) || value < INT32_MIN || value > INT32_MAX) return 0;
    *out = (int32_t)value;
    return 1;
}
