#include "properties.h"

void rmq_props_known(const uint8_t *props, size_t len, size_t before, rmq_known_props *out) {
    rmq_props_none(out);
    rmq_props_iter it;
    rmq_prop prop;
    rmq_props_begin(&it, props, len, before);
    while (rmq_props_next(&it, &prop)) rmq_props_note(out, &prop);
}

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
