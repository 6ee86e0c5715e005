#include "broker/send_header.h"

int rmq_send_int64(rmq_slice text, int64_t *out) {
    const int negative = text.len > 0 && text.p[0] == '-';
    const uint32_t begin = (uint32_t)negative;
    int64_t value = 0;
    if (text.len == begin || text.len - begin > 18) return 0; /* 18 digits fit whatever they are */
    for (uint32_t i = begin; i < text.len; i++) {
        if (text.p[i] < '0' || text.p[i] > '9') return 0;
        value = value * 10 + (text.p[i] - '0');
    }
    *out = negative ? -value : value;
    return 1;
}

int rmq_send_int32(rmq_slice text, int32_t *out) {
    int64_t value;
    if (!rmq_send_int64(text, &value) || value < INT32_MIN || value > INT32_MAX) return 0;
    *out = (int32_t)value;
    return 1;
}
