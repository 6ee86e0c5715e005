#include "properties.h"
#include "layout.h"
#include <string.h>

int rmq_props_next(const uint8_t *props, size_t len, size_t *pos, rmq_prop *out) {
    while (*pos < len) {
        const uint8_t *begin = props + *pos;
        size_t left = len - *pos;
        const uint8_t *end = memchr(begin, RMQ_PROPERTY_SEPARATOR, left);
        if (end == NULL) end = begin + left;
        *pos = (size_t)(end - props) + 1;
        const uint8_t *split = memchr(begin, RMQ_NAME_VALUE_SEPARATOR, (size_t)(end - begin));
        if (split == NULL || split == begin || split + 1 >= end) continue;
        out->name.p = begin;
        out->name.len = (uint32_t)(split - begin);
        out->value.p = split + 1;
        out->value.len = (uint32_t)(end - split - 1);
        return 1;
    }
    return 0;
}

static int named(const rmq_prop *prop, const char *name, uint32_t len) {
    return prop->name.len == len && memcmp(prop->name.p, name, len) == 0;
}

void rmq_props_note(rmq_known_props *known, const rmq_prop *prop) {
    switch (prop->name.len) {
        case 4:
            if (named(prop, "TAGS", 4)) known->tags = prop->value;
            else if (named(prop, "KEYS", 4)) known->keys = prop->value;
            break;
        case 5:
            if (named(prop, "DELAY", 5)) known->delay = prop->value;
            break;
        case 8:
            if (named(prop, "UNIQ_KEY", 8)) known->uniq_key = prop->value;
            break;
        case 20:
            if (named(prop, "INNER_MULTI_DISPATCH", 20)) known->inner_multi_dispatch = prop->value;
            break;
        case 24:
            if (named(prop, "INNER_MULTI_QUEUE_OFFSET", 24)) known->inner_multi_queue_offset = prop->value;
            break;
        default:
            break;
    }
}

void rmq_props_known(const uint8_t *props, size_t len, rmq_known_props *out) {
    memset(out, 0, sizeof *out);
    size_t pos = 0;
    rmq_prop prop;
    while (rmq_props_next(props, len, &pos, &prop)) rmq_props_note(out, &prop);
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
