/* The properties parser against the description's own loop, for every string over {0x01, 0x02, 'a'} of up to nine bytes,
 * shifted over the borders of the 64-byte blocks, between two pages that may not be read. */
#define _GNU_SOURCE
#include "check.h"
#include "format/properties.h"

enum { LONGEST = 9, ROOM = 4096, MOST = 80 };
static area memory;

typedef struct pair {
    size_t name, name_len, value, value_len;
} pair;

static size_t index_of(const uint8_t *s, size_t n, size_t from, uint8_t wanted) {
    while (from < n && s[from] != wanted) from++;
    return from;
}

/* As docs/format has it, position by position. */
static size_t reference(const uint8_t *s, size_t n, pair *out) {
    size_t count = 0;
    for (size_t i = 0; i < n;) {
        const size_t e = index_of(s, n, i, 2);
        if (e - i >= 3) {
            const size_t split = index_of(s, n, i, 1);
            if (i < split && split + 1 < e) out[count++] = (pair){i, split - i, split + 1, e - split - 1};
        }
        i = e + 1;
    }
    return count;
}

static void compare(const uint8_t *s, size_t n, size_t before) {
    pair expected[MOST];
    const size_t count = reference(s, n, expected);
    rmq_props_iter it;
    rmq_prop prop;
    size_t found = 0;
    rmq_props_begin(&it, s, n, before);
    while (rmq_props_next(&it, &prop)) {
        if (found < count) {
            const pair e = expected[found];
            EXPECT(prop.name.p == s + e.name && prop.name.len == e.name_len, "%zu bytes, pair %zu: name", n, found);
            EXPECT(prop.value.p == s + e.value && prop.value.len == e.value_len, "%zu bytes, pair %zu: value", n,
                   found);
        }
        if (++found > n) break;
    }
    EXPECT(found == count, "%zu bytes: %zu pairs, expected %zu", n, found, count);
    EXPECT(rmq_props_next(&it, &prop) == 0, "after the end");
}

/* The string alone in memory; then with readable bytes in front that would be pairs if they were looked at. */
static void everywhere(const uint8_t *s, size_t n) {
    memset(memory.begin, 1, (size_t)(memory.end - memory.begin));
    memcpy(memory.begin, s, n);
    compare(memory.begin, n, 0);
    uint8_t *at = at_end(memory, s, n);
    compare(at, n, 0);
    for (size_t before = 1; before <= 90; before = before * 3 + 1) compare(at, n, before);
}

static void all_short_strings(size_t filler, int ends_pair) {
    static const uint8_t alphabet[] = {1, 2, 'a'};
    uint8_t s[200];
    const size_t longest = filler ? 6 : LONGEST;
    for (size_t len = 0; len <= longest; len++) {
        size_t strings = 1;
        for (size_t i = 0; i < len; i++) strings *= 3;
        for (size_t k = 0; k < strings; k++) {
            memset(s, 'x', filler);
            if (ends_pair && filler > 3) s[filler / 2] = 1, s[filler - 1] = 2;
            size_t rest = k;
            for (size_t i = 0; i < len; i++, rest /= 3) s[filler + i] = alphabet[rest % 3];
            everywhere(s, filler + len);
        }
    }
}

static void known(void) {
    static const char text[] =
        "TAGS\1old\2KEYS\1a b\2UNIQ_KEY\1u\2DELAY\0013\2TAGS\1new\2TAGS\1\2KEYSX\1no\2tags\1no\2\1TAGS\1no\2"
        "INNER_MULTI_DISPATCH\1q\2INNER_MULTI_QUEUE_OFFSET\0017";
    rmq_known_props k;
    const uint8_t *at = at_end(memory, (const uint8_t *)text, sizeof text - 1);
    rmq_props_known(at, sizeof text - 1, 0, &k);
    EXPECT(k.tags.len == 3 && memcmp(k.tags.p, "new", 3) == 0, "the last duplicate wins, an empty value is no value");
    EXPECT(k.keys.len == 3 && memcmp(k.keys.p, "a b", 3) == 0, "KEYS");
    EXPECT(k.uniq_key.len == 1 && k.delay.len == 1 && *k.delay.p == '3', "UNIQ_KEY, DELAY");
    EXPECT(k.inner_multi_dispatch.len == 1 && k.inner_multi_queue_offset.len == 1, "light queues");
    rmq_props_known(at, 0, 0, &k);
    EXPECT(k.tags.p == NULL && k.keys.p == NULL && k.uniq_key.p == NULL && k.delay.p == NULL, "none");
}

static void words(void) {
    static const char text[] = "  a bb   c ";
    const rmq_slice keys = {at_end(memory, (const uint8_t *)text, sizeof text - 1), sizeof text - 1};
    static const char *const expected[] = {"a", "bb", "c"};
    size_t pos = 0, count = 0;
    rmq_slice word;
    while (rmq_keys_next(keys, &pos, &word)) {
        const size_t len = strlen(expected[count]);
        EXPECT(word.len == len && memcmp(word.p, expected[count], len) == 0, "word %zu", count);
        if (++count == 3) break;
    }
    EXPECT(count == 3 && !rmq_keys_next(keys, &pos, &word), "three words");
    const rmq_slice nothing = {keys.p, 0};
    pos = 0;
    EXPECT(!rmq_keys_next(nothing, &pos, &word), "no word in an empty text");
}

int main(void) {
    memory = guarded(ROOM);
    all_short_strings(0, 0);
    for (size_t filler = 57; filler <= 66; filler++) {
        all_short_strings(filler, 0);
        all_short_strings(filler, 1);
    }
    for (size_t filler = 121; filler <= 130; filler += 3) all_short_strings(filler, 1);
    known();
    words();
    return finish("properties");
}
