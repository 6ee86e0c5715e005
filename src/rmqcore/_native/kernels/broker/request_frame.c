#include "broker/send_header.h"

int rmq_send_int64(rmq_slice text, int64_t *out) {
    const uint8_t *p = text.p, *end = p + text.len;
    const int negative = p < end && *p == '-';
    int64_t value = 0;
    p += negative;
    if (p == end || end - p > 18) return 0; /* 18 digits fit whatever they are */
    do {
        const uint32_t digit = (uint32_t)*p - '0';
        if (digit > 9) return 0;
        value = value * 10 + digit;
    } while (++p < end);
    *out = negative ? -value : value;
    return 1;
}

int rmq_send_int32(rmq_slice text, int32_t *out) {
    int64_t value;
    if (!rmq_send_int64(text, &value) || value < INT32_MIN || value > INT32_MAX) return 0;
    *out = (int32_t)value;
    return 1;
}
