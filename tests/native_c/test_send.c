/* The readers of sends at the end of readable memory: every cut of a header and of a frame, every escape of JSON, numbers at the
 * edges of their range; and the table of topics as it grows and shrinks. */
#define _GNU_SOURCE
#include "check.h"
#include "broker/send.h"
#include "broker/send_properties.h"

enum { ROOM = 1 << 16 };
static area memory;

static rmq_slice slice_of(const char *text) {
    return (rmq_slice){at_end(memory, (const uint8_t *)text, strlen(text)), (uint32_t)strlen(text)};
}

static void unescapes(const char *text, const char *expected, size_t len) {
    const rmq_slice at = slice_of(text);
    uint8_t *out = malloc(at.len + 1);
    if (out == NULL) abort();
    out[at.len] = 0x5A;
    const int64_t found = rmq_request_unescape(at, out);
    if (expected == NULL) {
        EXPECT(found == -1, "%s: %lld", text, (long long)found);
    } else {
        EXPECT(found == (int64_t)len && memcmp(out, expected, len) == 0, "%s: %lld", text, (long long)found);
    }
    EXPECT(out[at.len] == 0x5A, "%s: a byte behind its room was written", text);
    free(out);
}

static void texts(void) {
    unescapes("", "", 0);
    unescapes("plain text that is longer than a word", "plain text that is longer than a word", 37);
    unescapes("a\\u0001b\\u0002", "a\1b\2", 4);
    unescapes("\\\"\\\\\\/\\b\\f\\n\\r\\t", "\"\\/\b\f\n\r\t", 8);
    unescapes("\\u0000\\u007f\\u0080\\u07FF\\u0800\\uffff", "\0\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf", 12);
    unescapes("1234567\\ud83d\\uDE00", "1234567\xf0\x9f\x98\x80", 11);
    unescapes("\\ud800\\udc00\\udbff\\udfff", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", 8);
    static const char *const wrong[] = {"\\",
                                        "\\x",
                                        "\\u",
                                        "\\u000",
                                        "\\u00g0",
                                        "\\ud800",
                                        "\\ud800x",
                                        "\\ud800\\n",
                                        "\\ud800\\ud800",
                                        "\\udc00",
                                        "\\udc00\\ud800",
                                        "12345678\\",
                                        "\\U0001"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) unescapes(wrong[i], NULL, 0);
}

static void number(const char *text, int fits_int, int fits_long, int64_t value) {
    int32_t narrow = 99;
    int64_t wide = 99;
    EXPECT(rmq_request_int32(slice_of(text), &narrow) == fits_int, "%s as an int", text);
    EXPECT(rmq_request_int64(slice_of(text), &wide) == fits_long, "%s as a long", text);
    EXPECT(narrow == (fits_int ? (int32_t)value : 99) && wide == (fits_long ? value : 99), "%s", text);
}

static void numbers(void) {
    number("0", 1, 1, 0);
    number("-0", 1, 1, 0);
    number("007", 1, 1, 7);
    number("2147483647", 1, 1, INT32_MAX);
    number("-2147483648", 1, 1, INT32_MIN);
    number("2147483648", 0, 1, INT64_C(2147483648));
    number("-2147483649", 0, 1, INT64_C(-2147483649));
    number("999999999999999999", 0, 1, INT64_C(999999999999999999));
    number("-999999999999999999", 0, 1, INT64_C(-999999999999999999));
    static const char *const wrong[] = {"",  "-", "+1", " 1", "1 ", "1.0", "1e3", "0x1", "--1", "9999999999999999999",
                                        "/", ":"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) number(wrong[i], 0, 0, 0);
}

static const char JSON[] =
    "{\"code\":310,\"extFields\":{\"a\":\"g\",\"b\":\"T\",\"c\":\"\",\"d\":\"4\",\"e\":\"3\",\"f\":\"0\",\"g\":\"17\","
    "\"h\":\"0\","
    "\"i\":\"UNIQ_KEY\\u0001K\\u0002\",\"bname\":\"b\"},\"flag\":0,\"language\":\"JAVA\",\"opaque\":-7,\"remark\":null,"
    "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}";

static int reads(const char *text, size_t len) {
    rmq_request_header header;
    return rmq_request_read_json(at_end(memory, (const uint8_t *)text, len), len, &rmq_send_kind, &header);
}

static void json(void) {
    rmq_request_header header;
    EXPECT(rmq_request_read_json(slice_of(JSON).p, sizeof JSON - 1, &rmq_send_kind, &header), "the whole header");
    EXPECT(header.code == 310 && header.opaque == -7 && header.flag == 0 && header.present == 0x1FF, "its members");
    EXPECT(header.escaped && header.fields[RMQ_SEND_PROPERTIES].len == 21, "its properties");
    for (size_t len = 0; len < sizeof JSON - 1; len++) EXPECT(!reads(JSON, len), "cut after %zu bytes", len);
    /* Each byte in turn as something else: nothing of it is believed, and Python looks at what is not taken. */
    for (size_t at = 1; at < sizeof JSON - 1; at++) {
        for (int byte = 0; byte < 256; byte++) {
            char text[sizeof JSON];
            memcpy(text, JSON, sizeof JSON);
            text[at] = (char)byte;
            const int found = reads(text, sizeof JSON - 1);
            const int printable = byte >= 0x20 && byte < 0x80, blank = byte == '\t' || byte == '\n' || byte == '\r';
            const int escaped = byte < 0x20 && text[at - 1] == '\\'; /* shows when the text is read */
            EXPECT(!found || printable || blank || escaped, "byte %d at %zu", byte, at);
        }
    }
    static const char *const plain[] = {
        "{\"code\":310,\"opaque\":0,\"extFields\":{\"z\":\"\"}}",
        " { \"opaque\" : 0 , \"extFields\" : { \"zz\" : \"\" } , \"code\" : 320 } \r\n",
    };
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) EXPECT(reads(plain[i], strlen(plain[i])), "%s", plain[i]);
    static const char *const left[] = {
        "{}",
        "{\"code\":310,\"opaque\":0,\"extFields\":{}}",
        "{\"code\":310,\"opaque\":0,\"extFields\":null}",
        "{\"code\":310,\"opaque\":0}",
        "{\"code\":310,\"extFields\":{\"z\":\"\"}}",
        "{\"code\":11,\"opaque\":0,\"extFields\":{\"z\":\"\"}}",
        "{\"code\":0310,\"opaque\":0,\"extFields\":{\"z\":\"\"}}",
        "{\"code\":310.0,\"opaque\":0,\"extFields\":{\"z\":\"\"}}",
        "{\"code\":310,\"code\":310,\"opaque\":0,\"extFields\":{\"z\":\"\"}}",
        "{\"code\":310,\"opaque\":2147483648,\"extFields\":{\"z\":\"\"}}",
        "{\"code\":310,\"opaque\":0,\"extFields\":{\"a\":\"\",\"a\":\"\"}}",
        "{\"code\":310,\"opaque\":0,\"extFields\":{\"a\":1}}",
        "{\"code\":310,\"opaque\":0,\"extFields\":{\"a\":\"\\n\"}}",
        "{\"code\":310,\"opaque\":0,\"extFields\":{\"\\u0061\":\"\"}}",
        "{\"code\":310,\"opaque\":0,\"extFields\":{\"a\":\"\"},}",
        "{\"code\":310,\"opaque\":0,\"extFields\":{\"a\":\"\"}}}",
        "{\"code\":310,\"opaque\":0,\"extFields\":{\"a\":\"\xc3\"}}",
        "{\"code\":310,\"opaque\":0,\"extFields\":{\"a\":\"\"},\"other\":0}",
        "[{\"code\":310,\"opaque\":0,\"extFields\":{\"a\":\"\"}}]",
    };
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) EXPECT(!reads(left[i], strlen(left[i])), "%s", left[i]);
}

static void binary(void) {
    static const char bytes[] =
        "\x01\x36\x00\x01\xdf\xff\xff\xff\xf9\x00\x00\x00\x02\x00\x00\x00\x01r\x00\x00\x00\x11"
        "\x00\x01"
        "a\x00\x00\x00\x01g\x00\x02zz\x00\x00\x00\x01v";
    const size_t len = sizeof bytes - 1;
    rmq_request_header header;
    EXPECT(rmq_request_read_binary(at_end(memory, (const uint8_t *)bytes, len), len, &rmq_send_kind, &header),
           "the whole header");
    EXPECT(header.code == 310 && header.opaque == -7 && header.flag == 2 && header.present == 1, "its members");
    for (size_t n = 0; n < len; n++) {
        EXPECT(!rmq_request_read_binary(at_end(memory, (const uint8_t *)bytes, n), n, &rmq_send_kind, &header),
               "cut after %zu bytes", n);
    }
    for (size_t at = 13; at < len; at++) {
        for (int byte = 0; byte < 256; byte++) {
            uint8_t *copy = at_end(memory, (const uint8_t *)bytes, len);
            copy[at] = (uint8_t)byte;
            (void)rmq_request_read_binary(copy, len, &rmq_send_kind, &header); /* reads nothing behind its end */
        }
    }
}

static void properties(void) {
    rmq_plain_props plain;
    static const char *const good[] = {"",          "a\1b",        "a\1b\2",     "WAIT\1false\2UNIQ_KEY\1k\2",
                                       "a\1b\1c\2", "\xc3\xa9\1b", "CLUSTERS\1x"};
    static const char *const odd[] = {"a",          "\2",           "a\1",        "a\1\2",         "\1b",
                                      "a\1b\2\2",   "a\1b\2a\1c",   "\xc3\1b",    "DELAY\0011",    "TRAN_MSG\1x",
                                      "TIMER_X\1x", "INNER_NUM\1x", "CLUSTER\1x", "MSG_REGION\1x", "TRACE_ON\1x",
                                      "POP_CK\1x",  "__CRC32#\1x"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        EXPECT(rmq_props_plain(slice_of(good[i]).p, strlen(good[i]), &plain), "%s", good[i]);
    }
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        EXPECT(!rmq_props_plain(slice_of(odd[i]).p, strlen(odd[i]), &plain), "%s", odd[i]);
    }
    EXPECT(rmq_props_plain(slice_of(good[3]).p, strlen(good[3]), &plain) && !plain.waits && plain.uniq_key.len == 1,
           "WAIT");
    char many[33 * 4 + 1];
    for (int i = 0; i < 33; i++) memcpy(many + 4 * i, (char[]){'n', (char)('A' + i), 1, 'v'}, 4);
    for (int i = 1; i < 33; i++) many[4 * i - 1] = 2;
    many[33 * 4] = 0;
    EXPECT(!rmq_props_plain(slice_of(many).p, 33 * 4, &plain), "33 pairs");
}

static void topics(void) {
    enum { MANY = 500 };
    rmq_send_topics table;
    if (rmq_send_topics_init(&table) != 0) abort();
    uint8_t name[RMQ_SEND_MOST_TOPIC_LEN];
    memset(name, 'n', sizeof name);
    for (int i = 0; i < MANY; i++) {
        memcpy(name, &i, sizeof i);
        rmq_send_topic *topic = rmq_send_topics_add(&table, name, i % 2 ? 8 : sizeof name);
        EXPECT(topic != NULL && topic->queue_nums == 0, "topic %d", i);
        if (topic != NULL) topic->queue_nums = i + 1;
    }
    for (int i = 0; i < MANY; i += 3) {
        memcpy(name, &i, sizeof i);
        rmq_send_topic *topic = rmq_send_topics_find(&table, name, i % 2 ? 8 : sizeof name);
        EXPECT(topic != NULL && topic->queue_nums == i + 1, "topic %d", i);
        if (topic != NULL) rmq_send_topics_remove(&table, topic);
    }
    int found = 0;
    for (rmq_send_topic *topic = NULL; (topic = rmq_send_topics_next(&table, topic)) != NULL;) found++;
    EXPECT(found == MANY - (MANY + 2) / 3 && table.count == (uint32_t)found, "%d are left", found);
    for (int i = 0; i < MANY; i++) {
        memcpy(name, &i, sizeof i);
        rmq_send_topic *topic = rmq_send_topics_find(&table, name, i % 2 ? 8 : sizeof name);
        EXPECT((topic != NULL) == (i % 3 != 0), "topic %d", i);
    }
    rmq_send_topics_destroy(&table);
}

int main(void) {
    memory = guarded(ROOM);
    texts();
    numbers();
    json();
    binary();
    properties();
    topics();
    return finish("send");
}
