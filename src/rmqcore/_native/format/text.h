/* Text forms of binary fields: hosts, message ids, and the tags code a queue entry holds; and a hash of texts. */
#ifndef RMQ_TEXT_H
#define RMQ_TEXT_H

#include "properties.h"
#include "record.h"

enum {
    RMQ_DECIMAL_ROOM = 20,   /* 19 digits and a sign */
    RMQ_HOST_TEXT_ROOM = 64, /* "[v6]:port" with a 10-digit port and its sign fits */
    RMQ_MSG_ID_V4_LEN = 2 * (RMQ_HOST_V4_SIZE + 8),
    RMQ_MSG_ID_V6_LEN = 2 * (RMQ_HOST_V6_SIZE + 8),
};
static_assert(RMQ_MSG_ID_V4_LEN == 32 && RMQ_MSG_ID_V6_LEN == 56, "offset message id");

/* A number in decimal; out has RMQ_DECIMAL_ROOM bytes. Returns the place of the next character. */
char *rmq_decimal(char *out, int64_t value);

/* "ip:port" or "[v6]:port" of address bytes + 4-byte port; out has RMQ_HOST_TEXT_ROOM bytes. Returns the length. */
size_t rmq_host_text(const uint8_t *host, int v6, char *out);

/* The reverse: reads "ip:port" or "[v6]:port" into out, which has RMQ_HOST_V6_SIZE bytes. Returns RMQ_HOST_V4_SIZE or
 * RMQ_HOST_V6_SIZE, 0 for anything else. A port is a decimal int. */
size_t rmq_host_parse(const char *text, size_t len, uint8_t *out);

/* Upper-case hex of len bytes, 2 * len characters. */
void rmq_hex_upper(const uint8_t *bytes, size_t len, char *out);

/* The offset message id: store host and PHYSICALOFFSET in upper-case hex; out has RMQ_MSG_ID_V6_LEN bytes. */
size_t rmq_msg_id(const rmq_record *rec, char *out);
/* The same of address bytes + 4-byte port and an offset. */
size_t rmq_msg_id_text(const uint8_t *host, int v6, int64_t phy_offset, char *out);

/* The reverse: reads 32 or 56 hex digits of either case into host, which has RMQ_HOST_V6_SIZE bytes. Returns 0 for
 * other texts. */
int rmq_msg_id_parse(const char *text, size_t len, uint8_t *host, int *v6, int64_t *phy_offset);

/* Delay levels 1..count in milliseconds (messageDelayLevel). */
typedef struct rmq_delay_levels {
    const int64_t *delay_ms;
    int32_t count;
} rmq_delay_levels;

/* The tags code in the queue entry of this record: the hash of TAGS, or on SCHEDULE_TOPIC_XXXX the deliver time. */
int64_t rmq_tags_code(const rmq_record *rec, const rmq_known_props *known, const rmq_delay_levels *levels);

/* A hash for tables in memory: nothing on disk depends on it. */
uint32_t rmq_text_hash(const uint8_t *p, size_t len);

int rmq_text_equal(const uint8_t *a, const uint8_t *b, size_t len);

#endif
