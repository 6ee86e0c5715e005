#include "format/text.h"
#include "format/jhash.h"
#include <arpa/inet.h>
#include <string.h>

char *rmq_decimal(char *out, int64_t value) {
    static const char pairs[] =
        "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354"
        "555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";
    char digits[RMQ_DECIMAL_ROOM];
    char *first = digits + sizeof digits;
    uint64_t rest = value < 0 ? 0U - (uint64_t)value : (uint64_t)value;
    for (; rest >= 100; rest /= 100) memcpy(first -= 2, pairs + 2 * (rest % 100), 2);
    if (rest >= 10) memcpy(first -= 2, pairs + 2 * rest, 2);
    else *--first = (char)('0' + rest);
    if (value < 0) *out++ = '-';
    const size_t len = (size_t)(digits + sizeof digits - first);
    memcpy(out, first, len);
    return out + len;
}

size_t rmq_host_text(const uint8_t *host, int v6, char *out) {
    char *p = out;
    if (v6) {
        *p++ = '[';
        char address[INET6_ADDRSTRLEN];
        if (inet_ntop(AF_INET6, host, address, sizeof address) == NULL) address[0] = '\0';
        size_t len = strlen(address);
        memcpy(p, address, len);
        p += len;
        *p++ = ']';
    } else {
        for (int i = 0; i < 4; i++) {
            p = rmq_decimal(p, host[i]);
            if (i < 3) *p++ = '.';
        }
    }
    *p++ = ':';
    p = rmq_decimal(p, rmq_load_i32(host + (v6 ? 16 : 4)));
    return (size_t)(p - out);
}

static int parse_port(const char *text, size_t len, int32_t *out) {
    const int negative = len > 0 && *text == '-';
    int64_t value = 0;
    if (len - (size_t)negative < 1 || len - (size_t)negative > 10) return 0;
    for (size_t i = (size_t)negative; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') return 0;
        value = value * 10 + (text[i] - '0');
    }
    if (negative) value = -value;
    *out = (int32_t)value;
    return value >= INT32_MIN && value <= INT32_MAX;
}

size_t rmq_host_parse(const char *text, size_t len, uint8_t *out) {
    char address[INET6_ADDRSTRLEN];
    size_t colon = len;
    int32_t port;
    while (colon > 0 && text[colon - 1] != ':') colon--;
    if (colon == 0 || !parse_port(text + colon, len - colon, &port)) return 0;
    size_t begin = 0, end = colon - 1;
    const int v6 = end >= 2 && text[0] == '[' && text[end - 1] == ']';
    if (v6) {
        begin++;
        end--;
    }
    if (end - begin >= sizeof address || memchr(text, '\0', len)) return 0;
    memcpy(address, text + begin, end - begin);
    address[end - begin] = '\0';
    if (inet_pton(v6 ? AF_INET6 : AF_INET, address, out) != 1) return 0;
    rmq_store_i32(out + (v6 ? 16 : 4), port);
    return v6 ? RMQ_HOST_V6_SIZE : RMQ_HOST_V4_SIZE;
}

void rmq_hex_upper(const uint8_t *bytes, size_t len, char *out) {
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < len; i++) {
        *out++ = digits[bytes[i] >> 4];
        *out++ = digits[bytes[i] & 0xF];
    }
}

size_t rmq_msg_id_text(const uint8_t *host, int v6, int64_t phy_offset, char *out) {
    const size_t host_len = v6 ? RMQ_HOST_V6_SIZE : RMQ_HOST_V4_SIZE;
    uint8_t packed[8];
    rmq_store_i64(packed, phy_offset);
    rmq_hex_upper(host, host_len, out);
    rmq_hex_upper(packed, sizeof packed, out + 2 * host_len);
    return 2 * (host_len + sizeof packed);
}

size_t rmq_msg_id(const rmq_record *rec, char *out) {
    return rmq_msg_id_text(rec->at + rec->store_host_pos, rec->sys_flag & RMQ_SYS_STOREHOST_V6, rmq_rec_phy_offset(rec),
                           out);
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

int rmq_msg_id_parse(const char *text, size_t len, uint8_t *host, int *v6, int64_t *phy_offset) {
    if (len != RMQ_MSG_ID_V4_LEN && len != RMQ_MSG_ID_V6_LEN) return 0;
    uint8_t packed[RMQ_MSG_ID_V6_LEN / 2];
    for (size_t i = 0; i < len / 2; i++) {
        const int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0) return 0;
        packed[i] = (uint8_t)(high << 4 | low);
    }
    const size_t host_len = len / 2 - 8;
    memcpy(host, packed, host_len);
    *v6 = host_len == RMQ_HOST_V6_SIZE;
    *phy_offset = rmq_load_i64(packed + host_len);
    return 1;
}

/* Integer.parseInt for ASCII digits; 0 when it would throw (level 0 means no delay). */
static int32_t parse_level(rmq_slice text) {
    const uint8_t *p = text.p, *end = text.p + text.len;
    if (p < end && *p == '+') p++;
    if (p == end) return 0;
    int64_t value = 0;
    for (; p < end; p++) {
        if (*p < '0' || *p > '9') return 0;
        value = value * 10 + (*p - '0');
        if (value > INT32_MAX) return 0;
    }
    return (int32_t)value;
}

int64_t rmq_tags_code(const rmq_record *rec, const rmq_known_props *known, const rmq_delay_levels *levels) {
    static const char schedule_topic[] = "SCHEDULE_TOPIC_XXXX";
    if (known->delay.p && rec->topic_len == sizeof schedule_topic - 1 &&
        memcmp(rec->at + rec->topic_pos, schedule_topic, sizeof schedule_topic - 1) == 0) {
        int32_t level = parse_level(known->delay);
        if (level > levels->count) level = levels->count;
        if (level > 0) {
            /* Wraps like Java's long on a forged timestamp. */
            return (int64_t)((uint64_t)rmq_rec_store_timestamp(rec) + (uint64_t)levels->delay_ms[level - 1]);
        }
    }
    if (known->tags.p == NULL) return 0;
    return (int32_t)rmq_jhash(0, known->tags.p, known->tags.len);
}

/* The last 8 bytes are loaded as a whole, some for the second time. */
uint32_t rmq_text_hash(const uint8_t *p, size_t len) {
    uint64_t h = len * UINT64_C(0x9E3779B97F4A7C15), word = 0;
    if (len >= 8) {
        for (size_t i = 0; i + 8 < len; i += 8) {
            memcpy(&word, p + i, 8);
            h = (h ^ word) * UINT64_C(0xD6E8FEB86659FD93);
            h ^= h >> 32;
        }
        memcpy(&word, p + len - 8, 8);
    } else {
        for (size_t i = 0; i < len; i++) word = word << 8 | p[i];
    }
    /* The last characters sit in the top byte, which one multiplication spreads only upwards: fold and multiply again. */
    h = (h ^ word) * UINT64_C(0xD6E8FEB86659FD93);
    h = (h ^ h >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    return (uint32_t)(h >> 32);
}

/* memcmp for texts that are usually equal and short. */
int rmq_text_equal(const uint8_t *a, const uint8_t *b, size_t len) {
    uint64_t x, y, differ = 0;
    if (len < 8) {
        for (size_t i = 0; i < len; i++) differ |= (uint64_t)(a[i] ^ b[i]);
        return differ == 0;
    }
    for (size_t i = 0; i + 8 < len; i += 8) {
        memcpy(&x, a + i, 8);
        memcpy(&y, b + i, 8);
        differ |= x ^ y;
    }
    memcpy(&x, a + len - 8, 8);
    memcpy(&y, b + len - 8, 8);
    return (differ | (x ^ y)) == 0;
}
