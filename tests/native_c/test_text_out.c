/* Texts as JSON and CSV spell them, against a loop over single bytes: every text of up to four telling bytes, behind plain ones
 * that shift it over the borders of the words of eight, at a page that may not be read, into room that ends at such a page. */
#define _GNU_SOURCE
#include "check.h"
#include "format/text.h"
#include "text/text_out.h"
#include "format/utf8.h"

enum { LONGEST = 64, MOST = 13 * LONGEST };
static area memory, written;

typedef struct text {
    uint8_t at[MOST];
    size_t len;
} text;

static void add(text *out, const char *bytes) {
    const size_t len = strlen(bytes);
    memcpy(out->at + out->len, bytes, len);
    out->len += len;
}

static text clean(const uint8_t *p, size_t len) {
    text out;
    out.len = rmq_utf8_sanitize(p, len, out.at);
    return out;
}

static text json_of(text plain) {
    text out = {{0}, 0};
    add(&out, "\"");
    for (size_t i = 0; i < plain.len; i++) {
        const uint8_t c = plain.at[i];
        char one[8];
        if (c == '"') add(&out, "\\\"");
        else if (c == '\\') add(&out, "\\\\");
        else if (c == '\b') add(&out, "\\b");
        else if (c == '\t') add(&out, "\\t");
        else if (c == '\n') add(&out, "\\n");
        else if (c == '\f') add(&out, "\\f");
        else if (c == '\r') add(&out, "\\r");
        else if (c < 0x20) snprintf(one, sizeof one, "\\u%04x", c), add(&out, one);
        else out.at[out.len++] = c;
    }
    add(&out, "\"");
    return out;
}

static text doubled(text plain) {
    text out = {{0}, 0};
    for (size_t i = 0; i < plain.len; i++) {
        if (plain.at[i] == '"') out.at[out.len++] = '"';
        out.at[out.len++] = plain.at[i];
    }
    return out;
}

static text cell_of(text plain, int safe) {
    static const char *const formulas[] = {
        "=", "+", "-", "@", "\t", "\r", "\n", "\xEF\xBC\x9D", "\xEF\xBC\x8B", "\xEF\xBC\x8D", "\xEF\xBC\xA0"};
    text found = {{0}, 0}, out = {{0}, 0};
    for (size_t i = 0; safe && i < sizeof formulas / sizeof formulas[0]; i++) {
        const size_t len = strlen(formulas[i]);
        if (plain.len >= len && memcmp(plain.at, formulas[i], len) == 0) add(&found, "'");
    }
    memcpy(found.at + found.len, plain.at, plain.len);
    found.len += plain.len;
    int quoted = 0;
    for (size_t i = 0; i < found.len; i++) quoted |= strchr(",\"\r\n", found.at[i]) != NULL && found.at[i];
    if (!quoted) return found;
    found = doubled(found);
    add(&out, "\"");
    memcpy(out.at + 1, found.at, found.len);
    out.len += found.len;
    add(&out, "\"");
    return out;
}

static void same(const rmq_out *out, text expected, const char *what) {
    EXPECT(!out->failed && out->len == expected.len + 1 && memcmp(out->at + 1, expected.at, expected.len) == 0,
           "%s: %zu bytes, %.*s, expected %zu, %.*s", what, out->len - 1, (int)out->len - 1, (const char *)out->at + 1,
           expected.len, (int)expected.len, (const char *)expected.at);
}

/* Each way of writing, behind one byte that is there already. */
static void written_into(size_t room, const uint8_t *p, size_t len, text plain) {
    uint8_t *few = written.end - room;
    rmq_out out;
    for (int way = 0; way < 5; way++) {
        rmq_out_begin(&out, few, room);
        if (!rmq_out_room(&out, 1)) abort();
        out.at[out.len++] = '"';
        if (way == 0) rmq_out_text(&out, p, len), same(&out, plain, "text");
        if (way == 1) rmq_out_json(&out, p, len), same(&out, json_of(plain), "JSON");
        if (way == 2) rmq_out_json_in_csv(&out, p, len), same(&out, doubled(json_of(plain)), "JSON in CSV");
        if (way > 2) {
            rmq_out_text(&out, p, len);
            rmq_out_csv_field(&out, 1, way == 4);
            same(&out, cell_of(plain, way == 4), way == 4 ? "safe CSV" : "CSV");
        }
        EXPECT(out.at[0] == '"', "what was there");
        rmq_out_end(&out);
    }
}

static void one(const uint8_t *bytes, size_t len) {
    const uint8_t *p = at_end(memory, bytes, len);
    const text plain = clean(p, len);
    written_into(0, p, len, plain);
    written_into(1 + len, p, len, plain);
    written_into(4096, p, len, plain);
}

static void decimals(void) {
    static const int64_t edges[] = {0,    9,         10,        99,        100,           101,          999,
                                    1000, 123456789, INT32_MAX, INT32_MIN, 1700000000000, INT64_MAX,    INT64_MIN,
                                    -1,   -10,       -99,       -100,      99999999999,   100000000000, 1000000000};
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
        char expected[24];
        const size_t len = (size_t)snprintf(expected, sizeof expected, "%lld", (long long)edges[i]);
        char *to = (char *)written.end - len;
        EXPECT(rmq_decimal(to, edges[i]) == to + len && memcmp(to, expected, len) == 0, "%s", expected);
    }
}

int main(void) {
    static const uint8_t telling[] = {'a',  '"', '\\', ',',  '\n', '\r', '\t', 0,    0x1F,
                                      0x7F, '=', '-',  0xC3, 0xA9, 0xED, 0xEF, 0xBC, 0x9D};
    enum { TELLING = sizeof telling };
    memory = guarded(LONGEST);
    written = guarded(4096);
    uint8_t s[LONGEST];
    one(s, 0);
    for (int len = 1; len <= 4; len++) {
        int count = 1;
        for (int i = 0; i < len; i++) count *= TELLING;
        for (int k = 0; k < count; k++) {
            const size_t plain = len < 4 ? 0 : (size_t)(k % 19);
            memset(s, 'p', plain);
            for (int i = 0, rest = k; i < len; i++, rest /= TELLING) s[plain + (size_t)i] = telling[rest % TELLING];
            one(s, plain + (size_t)len);
        }
    }
    for (size_t len = 1; len <= 20; len++) { /* each byte at every place of a plain text */
        for (size_t at = 0; at < len; at++) {
            for (int c = 0; c < 256; c++) {
                memset(s, 'q', len);
                s[at] = (uint8_t)c;
                one(s, len);
            }
        }
    }
    decimals();
    return finish("text_out");
}
