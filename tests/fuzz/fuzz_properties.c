/* The properties parser against the description's own loop, wherever the string lies; words of KEYS; UTF-8 made well-formed. */
#include "fuzz.h"
#include "format/jhash.h"
#include "format/properties.h"
#include "format/utf8.h"

static const uint8_t *find(const uint8_t *from, const uint8_t *end, uint8_t wanted) {
    while (from < end && *from != wanted) from++;
    return from;
}

/* Position by position, as the description has it. */
static int reference_next(const uint8_t **at, const uint8_t *end, rmq_prop *out) {
    while (*at < end) {
        const uint8_t *i = *at, *e = find(i, end, RMQ_PROPERTY_SEPARATOR), *s = find(i, e, RMQ_NAME_VALUE_SEPARATOR);
        *at = e < end ? e + 1 : end;
        if (e - i < 3 || s == i || e - s < 2) continue;
        *out = (rmq_prop){{i, (uint32_t)(s - i)}, {s + 1, (uint32_t)(e - s - 1)}};
        return 1;
    }
    return 0;
}

static void check_text(rmq_slice text) {
    uint8_t *clean = malloc(3 * (size_t)text.len + 1);
    CHECK(clean != NULL);
    const size_t n = rmq_utf8_sanitize(text.p, text.len, clean);
    CHECK(n <= 3 * (size_t)text.len && rmq_utf8_valid(clean, n));
    CHECK(rmq_utf8_valid(text.p, text.len) == (n == text.len && memcmp(clean, text.p, n) == 0));
    CHECK(rmq_jhash(7, text.p, text.len) == rmq_jhash(7, clean, n));
    free(clean);
    size_t pos = 0, last = 0;
    rmq_slice word;
    while (rmq_keys_next(text, &pos, &word)) {
        CHECK(word.len > 0 && memchr(word.p, ' ', word.len) == NULL);
        CHECK(word.p >= text.p + last && word.p + word.len <= text.p + text.len && pos > last);
        last = pos;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t control[1];
    take_control(&data, &size, control, sizeof control);
    /* That many bytes of the input belong to what lies in front of the string. */
    const size_t before = control[0] < size ? control[0] : size;
    const uint8_t *props = data + before, *at = props, *end = data + size;
    rmq_props_iter it;
    rmq_prop found, expected;
    rmq_known_props known;
    rmq_slice tags = {NULL, 0};
    rmq_props_begin(&it, props, size - before, before);
    while (rmq_props_next(&it, &found)) {
        CHECK(reference_next(&at, end, &expected));
        CHECK(found.name.p == expected.name.p && found.name.len == expected.name.len);
        CHECK(found.value.p == expected.value.p && found.value.len == expected.value.len);
        if (found.name.len == 4 && memcmp(found.name.p, "TAGS", 4) == 0) tags = found.value;
        check_text(found.name);
        check_text(found.value);
    }
    CHECK(!reference_next(&at, end, &expected));
    rmq_props_known(props, size - before, before, &known);
    CHECK(known.tags.p == tags.p && known.tags.len == tags.len);
    return 0;
}
