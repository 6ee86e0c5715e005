#include "format/properties.h"

int rmq_keys_next(rmq_slice keys, size_t *pos, rmq_slice *token) {
    while (*pos < keys.len) {
        const uint8_t *begin = keys.p + *pos;
        size_t left = keys.len - *pos;
        const uint8_t *end = memchr(begin, ' ', left);
        if (end == NULL) end = begin + left;
        *pos += (size_t)(end - begin) + 1;
        if (end == begin) continue;
        token->p = begin;
        token->len = (uint32_t)(end - begin);
        return 1;
    }
    return 0;
}
