/* The edges of rmq_record_parse and rmq_record_encode: every length field at 0, its largest value, one more, and negative;
 * every cut; every combination of hosts and versions. Each record ends at a page that may not be read. */
#define _GNU_SOURCE
#include "check.h"
#include "crc32/crc32.h"
#include "format/record.h"

enum { ROOM = 1 << 18 };
static area memory;
static uint8_t *blob; /* bytes for topics, bodies and properties: no 0 and no separator among them */

typedef struct shape {
    size_t body_len, topic_len, props_len;
    int born_v6, store_v6, append_crc;
} shape;

static rmq_message message_of(shape s) {
    rmq_message m;
    memset(&m, 0, sizeof m);
    m.topic = m.body = m.props = blob;
    m.topic_len = s.topic_len;
    m.body_len = s.body_len;
    m.props_len = s.props_len;
    m.queue_id = -2;
    m.flag = INT32_MIN;
    m.sys_flag = 0x301 | (s.born_v6 ? 0 : RMQ_SYS_BORNHOST_V6) | (s.store_v6 ? 0 : RMQ_SYS_STOREHOST_V6);
    m.reconsume_times = 16;
    m.queue_offset = INT64_MAX;
    m.phy_offset = INT64_C(0x0102030405060708);
    m.born_timestamp = -1;
    m.store_timestamp = INT64_MIN;
    m.prepared_transaction_offset = 77;
    memset(m.born_host, 0xB0, sizeof m.born_host);
    memset(m.store_host, 0x50, sizeof m.store_host);
    m.born_host_v6 = s.born_v6;
    m.store_host_v6 = s.store_v6;
    m.append_prop_crc = s.append_crc;
    return m;
}

static uint8_t record[ROOM];

static size_t encode(shape s) {
    const rmq_message m = message_of(s);
    const int64_t size = rmq_record_encoded_size(&m);
    const size_t separator = s.append_crc && s.props_len ? 1 : 0; /* the blob holds no 0x02 */
    const size_t props = s.props_len + separator + (s.append_crc ? 20 : 0);
    const size_t expected = 84 + 4 + s.body_len + (s.topic_len > 127 ? 2 : 1) + s.topic_len + 2 + props +
                            (s.born_v6 ? 12 : 0) + (s.store_v6 ? 12 : 0);
    EXPECT((size_t)size == expected, "size %lld, expected %zu", (long long)size, expected);
    uint8_t *out = memory.end - size;
    out[-1] = 0x5A;
    EXPECT(rmq_record_encode(&m, out, (size_t)size) == size, "exact room");
    EXPECT(out[-1] == 0x5A, "a byte in front was written");
    EXPECT(rmq_record_encode(&m, memory.end - size + 1, (size_t)size - 1) == RMQ_E_SHORT, "one byte too little");
    memcpy(record, out, (size_t)size);
    return (size_t)size;
}

static int32_t parse(const uint8_t *bytes, size_t len, rmq_record *rec) {
    memset(rec, 0xEE, sizeof *rec);
    return rmq_record_parse(at_end(memory, bytes, len), len, rec);
}

static void whole(shape s, size_t size) {
    rmq_record r;
    EXPECT(parse(record, size, &r) == (int32_t)size, "parse of %zu bytes", size);
    EXPECT(r.magic == (s.topic_len > 127 ? RMQ_MAGIC_V2 : RMQ_MAGIC_V1), "magic");
    EXPECT(r.body_len == s.body_len && r.topic_len == s.topic_len, "lengths");
    EXPECT(r.props_pos + r.props_len == size && r.msg_size == size, "the properties end the record");
    EXPECT(((r.sys_flag & RMQ_SYS_BORNHOST_V6) != 0) == s.born_v6, "born host bit");
    EXPECT(((r.sys_flag & RMQ_SYS_STOREHOST_V6) != 0) == s.store_v6, "store host bit");
    EXPECT(rmq_rec_queue_id(&r) == -2 && rmq_rec_flag(&r) == INT32_MIN, "queue id, flag");
    EXPECT(rmq_rec_queue_offset(&r) == INT64_MAX && rmq_rec_phy_offset(&r) == INT64_C(0x0102030405060708), "offsets");
    EXPECT(rmq_rec_born_timestamp(&r) == -1 && rmq_rec_store_timestamp(&r) == INT64_MIN, "timestamps");
    EXPECT(rmq_rec_reconsume_times(&r) == 16 && rmq_rec_prepared_transaction_offset(&r) == 77, "behind the hosts");
    EXPECT(r.at[RMQ_REC_BORNHOST] == 0xB0 && r.at[r.store_timestamp_pos - 1] == 0xB0, "born host");
    EXPECT(r.at[r.store_host_pos] == 0x50 && r.at[r.reconsume_times_pos - 1] == 0x50, "store host");
    EXPECT(memcmp(r.at + r.body_pos, blob, s.body_len) == 0, "body");
    EXPECT(memcmp(r.at + r.topic_pos, blob, s.topic_len) == 0, "topic");
    EXPECT(memcmp(r.at + r.props_pos, blob, s.props_len) == 0, "properties");
    EXPECT(rmq_record_check_body_crc(&r) == 0, "body crc");
    EXPECT(rmq_record_has_prop_crc(&r) == s.append_crc, "has an appended crc");
    EXPECT(rmq_record_check_prop_crc(&r) == (s.append_crc ? 0 : RMQ_E_PROPCRC), "appended crc");
    /* More bytes behind the record change nothing. */
    record[size] = 0xFF;
    EXPECT(parse(record, size + 1, &r) == (int32_t)size, "with a byte behind it");
}

/* Every cut up to the body and every cut in the last 300 bytes; the cuts between are all alike. */
static void cuts(size_t size) {
    for (size_t len = 0; len < size; len++) {
        if (len > 300 && len + 300 < size) len = size - 300;
        rmq_record r;
        EXPECT(parse(record, len, &r) == RMQ_E_SHORT, "cut to %zu of %zu", len, size);
        EXPECT(r.found == (int64_t)len && r.expected == (len < 8 ? 8 : (int64_t)size), "cut to %zu: words", len);
        EXPECT(r.msg_size == (len < 8 ? 0 : size), "cut to %zu: size", len);
    }
}

static void store_field(uint8_t *p, int width, int64_t value) {
    if (width == 4) rmq_store_i32(p, (int32_t)value);
    else if (width == 2) rmq_store_i16(p, (int16_t)value);
    else *p = (uint8_t)value;
}

/* A length field with `room` as the largest value that leaves space for what must follow. */
static void length_field(const char *name, size_t size, size_t pos, int width, int64_t now, int64_t room,
                         int32_t code) {
    const int64_t most = width == 4 ? INT32_MAX : width == 2 ? INT16_MAX : INT8_MAX;
    const int64_t values[] = {0, 1, now - 1, now + 1, room - 1, room, room + 1, most, most - 1, -1, -most, -most - 1};
    uint8_t keep[4];
    memcpy(keep, record + pos, (size_t)width);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        const int64_t value = values[i];
        if (value > most || value < -most - 1 || value == now) continue;
        store_field(record + pos, width, value);
        rmq_record r;
        const int32_t answer = parse(record, size, &r);
        if (value < 0 || value > room) {
            EXPECT(answer == code, "%s %lld: code %d", name, (long long)value, answer);
            EXPECT(r.found == value && r.expected == room, "%s %lld: words", name, (long long)value);
        } else {
            /* Something else is read as the next length; whatever it is, the sum cannot be right by luck alone here. */
            EXPECT(answer < 0 && answer >= RMQ_E_LENGTHS && answer <= RMQ_E_BODYLENGTH, "%s %lld: code %d", name,
                   (long long)value, answer);
        }
    }
    memcpy(record + pos, keep, (size_t)width);
}

static void lengths(shape s, size_t size) {
    rmq_record r;
    if (parse(record, size, &r) <= 0) abort();
    const int v2 = s.topic_len > 127;
    const size_t topic_at = r.body_pos + r.body_len, props_at = r.topic_pos + r.topic_len;
    length_field("BODYLENGTH", size, r.body_pos - 4, 4, r.body_len, (int64_t)size - r.body_pos - (v2 ? 4 : 3),
                 RMQ_E_BODYLENGTH);
    length_field("TOPICLENGTH", size, topic_at, v2 ? 2 : 1, r.topic_len, (int64_t)size - r.topic_pos - 2,
                 RMQ_E_TOPICLENGTH);
    length_field("PROPERTIESLENGTH", size, props_at, 2, r.props_len, (int64_t)size - r.props_pos,
                 RMQ_E_PROPERTIESLENGTH);
}

static void total_size(shape s, size_t size) {
    const int32_t least = s.topic_len > 127 ? 92 : 91;
    const int32_t with_hosts = least + (s.born_v6 ? 12 : 0) + (s.store_v6 ? 12 : 0);
    const int32_t values[] = {INT32_MIN, -1, 0, 1, 7, 8, 90, least - 1, with_hosts - 1};
    rmq_record r;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        rmq_store_i32(record, values[i]);
        EXPECT(parse(record, size, &r) == RMQ_E_TOTALSIZE, "TOTALSIZE %d", values[i]);
        EXPECT(r.found == values[i] && r.expected == (values[i] < least ? least : with_hosts), "TOTALSIZE %d",
               values[i]);
    }
    const int32_t beyond[] = {(int32_t)size + 1, INT32_MAX};
    for (size_t i = 0; i < 2; i++) {
        rmq_store_i32(record, beyond[i]);
        EXPECT(parse(record, size, &r) == RMQ_E_SHORT && r.expected == beyond[i], "TOTALSIZE %d", beyond[i]);
    }
    rmq_store_i32(record, (int32_t)size + 1);
    EXPECT(parse(record, size + 1, &r) == RMQ_E_LENGTHS && r.found == (int64_t)size + 1 && r.expected == (int64_t)size,
           "one byte more than the lengths");
    rmq_store_i32(record, (int32_t)size);
}

static void magics(size_t size) {
    const int32_t good = rmq_load_i32(record + 4);
    rmq_record r;
    const int32_t bad[] = {0, -1, good + 1, good ^ INT32_MIN, 0x20A3A3DA};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        rmq_store_i32(record + 4, bad[i]);
        EXPECT(parse(record, size, &r) == RMQ_E_MAGIC && r.found == bad[i], "magic %d", bad[i]);
    }
    rmq_store_i32(record + 4, RMQ_MAGIC_BLANK);
    EXPECT(parse(record, size, &r) == RMQ_R_BLANK && r.msg_size == size, "blank");
    EXPECT(parse(record, 8, &r) == RMQ_R_BLANK && r.msg_size == size, "blank of which only 8 bytes are there");
    rmq_store_i32(record, 7);
    EXPECT(parse(record, size, &r) == RMQ_E_TOTALSIZE && r.found == 7 && r.expected == 8, "blank of 7 bytes");
    rmq_store_i32(record, INT32_MIN);
    EXPECT(parse(record, size, &r) == RMQ_E_TOTALSIZE, "negative blank");
    const uint8_t zeros[120] = {0};
    EXPECT(parse(zeros, 8, &r) == RMQ_E_ZERO && parse(zeros, sizeof zeros, &r) == RMQ_E_ZERO, "zeros");
    rmq_store_i32(record, (int32_t)size);
    rmq_store_i32(record + 4, good);
}

static void limits(void) {
    shape s = {0, 32767, 32767, 1, 1, 0};
    rmq_message m = message_of(s);
    EXPECT(rmq_record_encoded_size(&m) > 0, "the largest topic and properties");
    m.topic_len = 32768;
    EXPECT(rmq_record_encoded_size(&m) == RMQ_E_TOPICLENGTH, "topic of 32768");
    m.topic_len = SIZE_MAX;
    EXPECT(rmq_record_encoded_size(&m) == RMQ_E_TOPICLENGTH, "topic of SIZE_MAX");
    m = message_of(s);
    m.props_len = 32768;
    EXPECT(rmq_record_encoded_size(&m) == RMQ_E_PROPERTIESLENGTH, "properties of 32768");
    m.props_len = SIZE_MAX;
    EXPECT(rmq_record_encoded_size(&m) == RMQ_E_PROPERTIESLENGTH, "properties of SIZE_MAX");
    m.append_prop_crc = 1;
    m.props_len = 32767 - 20 - 1; /* and one separator */
    EXPECT(rmq_record_encoded_size(&m) > 0, "properties with room for the crc");
    m.props_len++;
    EXPECT(rmq_record_encoded_size(&m) == RMQ_E_PROPERTIESLENGTH, "no room for the separator");
    blob[32767 - 20 - 1] = RMQ_PROPERTY_SEPARATOR; /* ends in 0x02: no separator is put in */
    EXPECT(rmq_record_encoded_size(&m) > 0, "no separator needed");
    blob[32767 - 20 - 1] = 'x';
    m = message_of((shape){0, 1, 0, 0, 0, 0});
    m.body_len = (size_t)INT32_MAX + 1;
    EXPECT(rmq_record_encoded_size(&m) == RMQ_E_BODYLENGTH, "body of 2^31");
    m.body_len = SIZE_MAX;
    EXPECT(rmq_record_encoded_size(&m) == RMQ_E_BODYLENGTH, "body of SIZE_MAX");
    m.body_len = INT32_MAX - 92;
    EXPECT(rmq_record_encoded_size(&m) == INT32_MAX, "the largest record");
    m.body_len++;
    EXPECT(rmq_record_encoded_size(&m) == RMQ_E_BODYLENGTH, "one byte more than the largest record");
}

/* Every byte of the appended area decides: name, separators, each digit. */
static void appended_crc(void) {
    const size_t size = encode((shape){10, 5, 30, 0, 1, 1});
    rmq_record r;
    for (size_t pos = 0; pos < size; pos++) {
        for (int change = 1; change < 256; change += pos + 20 < size ? 85 : 1) {
            record[pos] ^= (uint8_t)change;
            if (parse(record, size, &r) > 0) EXPECT(rmq_record_check_prop_crc(&r) == RMQ_E_PROPCRC, "byte %zu", pos);
            record[pos] ^= (uint8_t)change;
        }
    }
}

int main(void) {
    static const size_t bodies[] = {0, 1, 1000}, topics[] = {0, 1, 127, 128, 255, 32767},
                        properties[] = {0, 1, 300, 32746};
    if (rmq_crc32_select("") != RMQ_CRC_OK) return 2;
    memory = guarded(ROOM);
    blob = malloc(40000);
    for (size_t i = 0; i < 40000; i++) blob[i] = (uint8_t)('A' + i % 53);
    for (size_t b = 0; b < 3; b++) {
        for (size_t t = 0; t < 6; t++) {
            for (size_t p = 0; p < 4; p++) {
                for (int bits = 0; bits < 8; bits++) {
                    const shape s = {bodies[b], topics[t], properties[p], bits & 1, bits >> 1 & 1, bits >> 2};
                    const size_t size = encode(s);
                    whole(s, size);
                    cuts(size);
                    lengths(s, size);
                    total_size(s, size);
                    magics(size);
                }
            }
        }
    }
    limits();
    appended_crc();
    free(blob);
    return finish("record");
}
