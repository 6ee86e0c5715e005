/* A CommitLog record: check, field access, encode.
 *
 * rmq_record_parse is the only place that reads lengths from a record. It compares each length, in 64 bits, with the
 * bytes left before using it and keeps all of them in rmq_record: code that holds an rmq_record never reads a length from the
 * buffer again, so bytes that change under a reader (a live file) can give wrong values but no wild reads.
 */
#ifndef RMQ_RECORD_H
#define RMQ_RECORD_H

#include "be.h"
#include "../crc32/crc32.h"
#include "layout.h"
#include <stddef.h>

/* Results of a check. >= RMQ_REC_MIN_SIZE_V1: the record's size. The codes are stable: Python and docs name them. */
// clang-format off: the table keeps its columns
enum {
    RMQ_R_BLANK = 0,           /* BLANK: nothing more in this file. rmq_record.msg_size holds its size field */
    RMQ_E_SHORT = -1,          /* the record (or its header) goes past the bytes given; msg_size holds TOTALSIZE or 0 */
    RMQ_E_ZERO = -2,           /* TOTALSIZE and MAGIC are 0: nothing was written here */
    RMQ_E_MAGIC = -3,          /* MAGIC is not V1, V2 or BLANK */
    RMQ_E_TOTALSIZE = -4,      /* TOTALSIZE below the smallest record */
    RMQ_E_BODYLENGTH = -5,     /* negative, or past the record's end */
    RMQ_E_TOPICLENGTH = -6,    /* negative, or past the record's end */
    RMQ_E_PROPERTIESLENGTH = -7, /* negative, or past the record's end */
    RMQ_E_LENGTHS = -8,        /* the lengths do not add up to TOTALSIZE */
    RMQ_E_PHYSICALOFFSET = -9, /* differs from the record's place */
    RMQ_E_BODYCRC = -10,       /* body bytes do not have BODYCRC */
    RMQ_E_PROPCRC = -11,       /* __CRC32# is missing or does not match */
    /* Only from a scan, which knows where the file ends (window.h). */
    RMQ_E_PAST_FILE = -12,     /* TOTALSIZE goes past the end of the file */
    RMQ_E_SHORT_FILE = -13,    /* fewer bytes left in the file than a header has */
    RMQ_E_BLANKSIZE = -14,     /* a BLANK whose size differs from the rest of the file */
    /* Only in a DLedger log (scan/dledger.h). */
    RMQ_E_DLEDGER_MAGIC = -15, /* the first int of an entry is not 1, 2 or -1 */
    RMQ_E_DLEDGER_SIZE = -16,  /* size is not 48 + bodyLen, or bodyLen is negative */
    RMQ_E_DLEDGER_PAST = -17,  /* size goes past the end of the file */
    RMQ_E_DLEDGER_POS = -18,   /* pos differs from the entry's place */
    RMQ_E_DLEDGER_BODY = -19,  /* bodyLen is not the TOTALSIZE of the record */
    RMQ_E_DLEDGER_END = -21,   /* a mark of a file's end whose size differs from the rest of the file */
};
// clang-format on

typedef struct rmq_record {
    const uint8_t *at; /* first byte; must stay readable for msg_size bytes */
    uint32_t msg_size;
    uint32_t store_timestamp_pos; /* positions are relative to `at` */
    uint32_t store_host_pos;
    uint32_t reconsume_times_pos;
    uint32_t body_pos, body_len;
    uint32_t topic_pos, topic_len;
    uint32_t props_pos, props_len;
    int32_t magic;
    int32_t sys_flag;
    /* After a failed check: the field's value and the value (or limit) it should have had. */
    int64_t found, expected;
} rmq_record;

static inline int32_t rmq_record_refuse(rmq_record *out, int32_t code, int64_t found, int64_t expected) {
    out->found = found;
    out->expected = expected;
    return code;
}

/* Positions that depend on the widths of the hosts, by SYSFLAG. */
static inline uint32_t rmq_rec_store_timestamp_pos(int32_t sys_flag) {
    return RMQ_REC_BORNHOST + (sys_flag & RMQ_SYS_BORNHOST_V6 ? RMQ_HOST_V6_SIZE : RMQ_HOST_V4_SIZE);
}
static inline uint32_t rmq_rec_reconsume_times_pos(int32_t sys_flag) {
    return rmq_rec_store_timestamp_pos(sys_flag) + RMQ_REL_STOREHOST +
           (sys_flag & RMQ_SYS_STOREHOST_V6 ? RMQ_HOST_V6_SIZE : RMQ_HOST_V4_SIZE);
}
static inline uint32_t rmq_rec_body_pos(int32_t sys_flag) {
    return rmq_rec_reconsume_times_pos(sys_flag) + RMQ_REL_BODY;
}

/* Checks structure only (no CRC, no PHYSICALOFFSET). Reads at most [buf, buf + left). */
int32_t rmq_record_parse_any(const uint8_t *buf, size_t left, rmq_record *out);

/* The same; a sound V1 record with two IPv4 hosts, as nearly all are, costs a third of the instructions. Other records, and
 * the reason of every refusal, are left to rmq_record_parse_any. */
static inline int32_t rmq_record_parse(const uint8_t *buf, size_t left, rmq_record *out) {
    if (left >= RMQ_REC_MIN_SIZE_V1) {
        const int32_t total = rmq_load_i32(buf + RMQ_REC_TOTALSIZE);
        const int32_t magic = rmq_load_i32(buf + RMQ_REC_MAGIC);
        const int32_t sys_flag = rmq_load_i32(buf + RMQ_REC_SYSFLAG);
        const uint32_t body_len = (uint32_t)rmq_load_i32(buf + RMQ_REC_BODY_V4 - 4);
        const uint32_t room = (uint32_t)total - RMQ_REC_MIN_SIZE_V1; /* for body, topic and properties */
        if (magic == RMQ_MAGIC_V1 && !(sys_flag & (RMQ_SYS_BORNHOST_V6 | RMQ_SYS_STOREHOST_V6)) &&
            total >= RMQ_REC_MIN_SIZE_V1 && (size_t)total <= left && body_len <= room) {
            const uint32_t topic_pos = RMQ_REC_BODY_V4 + body_len + 1, topic_len = buf[topic_pos - 1];
            if (topic_len <= room - body_len && topic_len <= RMQ_MAX_TOPIC_LEN_V1) {
                const uint32_t props_len = room - body_len - topic_len, props_pos = topic_pos + topic_len + 2;
                if (props_len <= RMQ_MAX_PROPERTIES_LEN && rmq_load_i16(buf + props_pos - 2) == (int32_t)props_len) {
                    out->at = buf;
                    out->msg_size = (uint32_t)total;
                    out->magic = magic;
                    out->sys_flag = sys_flag;
                    out->store_timestamp_pos = RMQ_REC_BORNHOST + RMQ_HOST_V4_SIZE;
                    out->store_host_pos = RMQ_REC_BORNHOST + RMQ_HOST_V4_SIZE + RMQ_REL_STOREHOST;
                    out->reconsume_times_pos = RMQ_REC_BODY_V4 - RMQ_REL_BODY;
                    out->body_pos = RMQ_REC_BODY_V4;
                    out->body_len = body_len;
                    out->topic_pos = topic_pos;
                    out->topic_len = topic_len;
                    out->props_pos = props_pos;
                    out->props_len = props_len;
                    return total;
                }
            }
        }
    }
    return rmq_record_parse_any(buf, left, out);
}

/* 0 or RMQ_E_PROPCRC; meant for stores with enabledAppendPropCRC. */
int32_t rmq_record_check_prop_crc(rmq_record *rec);

/* 1 when the properties end in an appended __CRC32# area. */
int rmq_record_has_prop_crc(const rmq_record *rec);

static inline int32_t rmq_rec_body_crc(const rmq_record *r) { return rmq_load_i32(r->at + RMQ_REC_BODYCRC); }
static inline int32_t rmq_rec_queue_id(const rmq_record *r) { return rmq_load_i32(r->at + RMQ_REC_QUEUEID); }
static inline int32_t rmq_rec_flag(const rmq_record *r) { return rmq_load_i32(r->at + RMQ_REC_FLAG); }
static inline int64_t rmq_rec_queue_offset(const rmq_record *r) { return rmq_load_i64(r->at + RMQ_REC_QUEUEOFFSET); }
static inline int64_t rmq_rec_phy_offset(const rmq_record *r) { return rmq_load_i64(r->at + RMQ_REC_PHYSICALOFFSET); }
static inline int64_t rmq_rec_born_timestamp(const rmq_record *r) {
    return rmq_load_i64(r->at + RMQ_REC_BORNTIMESTAMP);
}
static inline int64_t rmq_rec_store_timestamp(const rmq_record *r) {
    return rmq_load_i64(r->at + r->store_timestamp_pos);
}
static inline int32_t rmq_rec_reconsume_times(const rmq_record *r) {
    return rmq_load_i32(r->at + r->reconsume_times_pos);
}
static inline int64_t rmq_rec_prepared_transaction_offset(const rmq_record *r) {
    return rmq_load_i64(r->at + r->reconsume_times_pos + RMQ_REL_PREPAREDTRANSACTIONOFFSET);
}

/* 0 or RMQ_E_BODYCRC. An empty body has CRC 0. */
static inline int32_t rmq_record_check_body_crc(rmq_record *rec) {
    const int32_t stored = rmq_rec_body_crc(rec);
    const int32_t actual = (int32_t)(rmq_crc32(rec->at + rec->body_pos, rec->body_len) & RMQ_CRC_MASK);
    if (stored == actual) return 0;
    return rmq_record_refuse(rec, RMQ_E_BODYCRC, stored, actual);
}

/* The values of a record to encode. Bytes are borrowed for the call. */
typedef struct rmq_message {
    const uint8_t *topic, *body, *props; /* props: encoded, without the appended CRC area */
    size_t topic_len, body_len, props_len;
    int32_t queue_id, flag, sys_flag, reconsume_times;
    int64_t queue_offset, phy_offset, born_timestamp, store_timestamp, prepared_transaction_offset;
    uint8_t born_host[RMQ_HOST_V6_SIZE], store_host[RMQ_HOST_V6_SIZE]; /* address bytes, then 4-byte port */
    int born_host_v6, store_host_v6;
    int append_prop_crc; /* enabledAppendPropCRC */
} rmq_message;

/* The record's size, V2 when the topic is longer than 127 bytes; RMQ_E_TOPICLENGTH or RMQ_E_PROPERTIESLENGTH or
 * RMQ_E_BODYLENGTH when a length has no room in its field. */
int64_t rmq_record_encoded_size(const rmq_message *msg);

/* Writes a message whose rmq_record_encoded_size() is `size` > 0 to out, which has room; MAGIC last. */
void rmq_record_write(const rmq_message *msg, int64_t size, uint8_t *out);

/* Writes exactly rmq_record_encoded_size() bytes to out. The V6 bits of sys_flag follow from the hosts. */
int64_t rmq_record_encode(const rmq_message *msg, uint8_t *out, size_t room);

#endif
