#include "broker/send_properties.h"
#include "format/utf8.h"

enum { MOST_PAIRS = 32 };

static int is(rmq_slice name, const char *text, size_t len) {
    return name.len == len && memcmp(name.p, text, len) == 0;
}

static int begins(rmq_slice name, const char *text, size_t len) {
    return name.len >= len && memcmp(name.p, text, len) == 0;
}

/* Properties that a broker acts upon, adds or removes, and prefixes of names with such members. */
static int is_plain_name(rmq_slice name) {
    switch (name.p[0]) {
        case 'C':
            return !is(name, "CLUSTER", 7);
        case 'D':
            return !is(name, "DELAY", 5);
        case 'I':
            return !begins(name, "INNER_", 6);
        case 'M':
            return !is(name, "MSG_REGION", 10);
        case 'P':
            return !begins(name, "POP_", 4);
        case 'T':
            return !begins(name, "TRAN_", 5) && !begins(name, "TIMER_", 6) && !is(name, "TRACE_ON", 8);
        case '_':
            return !begins(name, "__", 2); /* __CRC32# */
        default:
            return 1;
    }
}

static int is_among(rmq_slice name, const rmq_slice *names, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (names[i].len == name.len && memcmp(names[i].p, name.p, name.len) == 0) return 1;
    }
    return 0;
}

int rmq_props_plain(const uint8_t *props, size_t len, rmq_plain_props *out) {
    rmq_slice names[MOST_PAIRS];
    size_t count = 0, bytes = 0;
    rmq_props_iter it;
    rmq_prop prop;
    out->uniq_key.p = NULL;
    out->uniq_key.len = 0;
    out->waits = 1;
    rmq_props_begin(&it, props, len, 0);
    while (rmq_props_next(&it, &prop)) {
        if (count == MOST_PAIRS || !is_plain_name(prop.name) || is_among(prop.name, names, count)) return 0;
        names[count++] = prop.name;
        bytes += (size_t)prop.name.len + prop.value.len + 2;
        if (is(prop.name, "UNIQ_KEY", 8)) out->uniq_key = prop.value;
        if (is(prop.name, "WAIT", 4)) out->waits = is(prop.value, "true", 4);
    }
    /* The iterator skips bytes that do not form a pair: then the lengths do not add up. */
    const int ends_open = len > 0 && props[len - 1] != RMQ_PROPERTY_SEPARATOR;
    return bytes == len + (size_t)ends_open && rmq_utf8_valid(props, len);
}
