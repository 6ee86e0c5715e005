#include "format/record.h"
#include "crc32/crc32.h"
#include <string.h>

int32_t rmq_record_parse_any(const uint8_t *buf, size_t left, rmq_record *out) {
    out->at = buf;
    out->msg_size = 0;
    if (left < RMQ_BLANK_MIN_SIZE) return rmq_record_refuse(out, RMQ_E_SHORT, (int64_t)left, RMQ_BLANK_MIN_SIZE);
    int32_t total = rmq_load_i32(buf + RMQ_REC_TOTALSIZE);
    int32_t magic = rmq_load_i32(buf + RMQ_REC_MAGIC);
    out->magic = magic;
    if (magic == RMQ_MAGIC_BLANK) {
        if (total < RMQ_BLANK_MIN_SIZE) return rmq_record_refuse(out, RMQ_E_TOTALSIZE, total, RMQ_BLANK_MIN_SIZE);
        out->msg_size = (uint32_t)total;
        return RMQ_R_BLANK;
    }
    if (magic != RMQ_MAGIC_V1 && magic != RMQ_MAGIC_V2) {
        if (magic == 0 && total == 0) return rmq_record_refuse(out, RMQ_E_ZERO, 0, RMQ_MAGIC_V1);
        return rmq_record_refuse(out, RMQ_E_MAGIC, magic, RMQ_MAGIC_V1);
    }
    const uint32_t topic_width = magic == RMQ_MAGIC_V2 ? 2 : 1;
    const int32_t least = RMQ_REC_BODY_V4 + (int32_t)topic_width + 2;
    if (total < least) return rmq_record_refuse(out, RMQ_E_TOTALSIZE, total, least);
    out->msg_size = (uint32_t)total;
    if ((size_t)total > left) return rmq_record_refuse(out, RMQ_E_SHORT, (int64_t)left, total);

    /* From here on at least 91 bytes are readable, and `size` of them belong to the record. Positions are summed in
     * 64 bits: no pair of 31-bit lengths can wrap. */
    const int64_t size = total;
    const int32_t sys_flag = rmq_load_i32(buf + RMQ_REC_SYSFLAG);
    out->sys_flag = sys_flag;
    const uint32_t store_timestamp_pos = rmq_rec_store_timestamp_pos(sys_flag);
    const uint32_t store_host_pos = store_timestamp_pos + RMQ_REL_STOREHOST;
    const uint32_t reconsume_times_pos = rmq_rec_reconsume_times_pos(sys_flag);
    const uint32_t body_pos = reconsume_times_pos + RMQ_REL_BODY;
    if ((int64_t)body_pos + topic_width + 2 > size) {
        return rmq_record_refuse(out, RMQ_E_TOTALSIZE, size, (int64_t)body_pos + topic_width + 2);
    }
    const int32_t body_len = rmq_load_i32(buf + reconsume_times_pos + RMQ_REL_BODYLENGTH);
    const int64_t body_room = size - body_pos - topic_width - 2;
    if (body_len < 0 || body_len > body_room) return rmq_record_refuse(out, RMQ_E_BODYLENGTH, body_len, body_room);

    const int64_t topic_len_pos = (int64_t)body_pos + body_len;
    /* Signed like Java's byte and short: 128 and more are negative there. */
    const int32_t topic_len = topic_width == 2 ? rmq_load_i16(buf + topic_len_pos) : (int8_t)buf[topic_len_pos];
    const int64_t topic_pos = topic_len_pos + topic_width;
    const int64_t topic_room = size - topic_pos - 2;
    if (topic_len < 0 || topic_len > topic_room)
        return rmq_record_refuse(out, RMQ_E_TOPICLENGTH, topic_len, topic_room);

    const int64_t props_len_pos = topic_pos + topic_len;
    const int32_t props_len = rmq_load_i16(buf + props_len_pos);
    const int64_t props_pos = props_len_pos + 2;
    if (props_len < 0 || props_len > size - props_pos) {
        return rmq_record_refuse(out, RMQ_E_PROPERTIESLENGTH, props_len, size - props_pos);
    }
    if (props_pos + props_len != size) return rmq_record_refuse(out, RMQ_E_LENGTHS, size, props_pos + props_len);

    out->store_timestamp_pos = store_timestamp_pos;
    out->store_host_pos = store_host_pos;
    out->reconsume_times_pos = reconsume_times_pos;
    out->body_pos = body_pos;
    out->body_len = (uint32_t)body_len;
    out->topic_pos = (uint32_t)topic_pos;
    out->topic_len = (uint32_t)topic_len;
    out->props_pos = (uint32_t)props_pos;
    out->props_len = (uint32_t)props_len;
    return total;
}

static const char PROP_CRC_NAME[] = "__CRC32#\x01";

int rmq_record_has_prop_crc(const rmq_record *rec) {
    if (rec->props_len < RMQ_PROP_CRC_SIZE) return 0;
    const uint8_t *area = rec->at + rec->msg_size - RMQ_PROP_CRC_SIZE;
    if (memcmp(area, PROP_CRC_NAME, 9) != 0 || area[RMQ_PROP_CRC_SIZE - 1] != RMQ_PROPERTY_SEPARATOR) return 0;
    for (int i = 9; i < 19; i++) {
        if (area[i] < '0' || area[i] > '9') return 0;
    }
    return 1;
}

int32_t rmq_record_check_prop_crc(rmq_record *rec) {
    const size_t covered = (size_t)rec->msg_size - RMQ_PROP_CRC_SIZE;
    if (!rmq_record_has_prop_crc(rec)) return rmq_record_refuse(rec, RMQ_E_PROPCRC, -1, 0);
    int64_t stored = 0;
    for (int i = 18; i >= 9; i--) stored = stored * 10 + (rec->at[covered + (size_t)i] - '0');
    const int64_t actual = rmq_crc32(rec->at, covered) & RMQ_CRC_MASK;
    if (stored == actual) return 0;
    return rmq_record_refuse(rec, RMQ_E_PROPCRC, stored, actual);
}

static size_t separator_size(const rmq_message *msg) {
    return msg->append_prop_crc && msg->props_len > 0 && msg->props[msg->props_len - 1] != RMQ_PROPERTY_SEPARATOR;
}

static size_t stored_props_len(const rmq_message *msg) {
    return msg->props_len + separator_size(msg) + (msg->append_prop_crc ? RMQ_PROP_CRC_SIZE : 0);
}

int64_t rmq_record_encoded_size(const rmq_message *msg) {
    if (msg->topic_len > RMQ_MAX_TOPIC_LEN_V2) return RMQ_E_TOPICLENGTH;
    if (msg->props_len > RMQ_MAX_PROPERTIES_LEN || stored_props_len(msg) > RMQ_MAX_PROPERTIES_LEN) {
        return RMQ_E_PROPERTIESLENGTH;
    }
    if (msg->body_len > INT32_MAX) return RMQ_E_BODYLENGTH;
    int64_t size = RMQ_REC_BODY_V4 + (int64_t)msg->body_len + (int64_t)msg->topic_len + 2;
    size += (int64_t)stored_props_len(msg);
    size += msg->topic_len > RMQ_MAX_TOPIC_LEN_V1 ? 2 : 1;
    if (msg->born_host_v6) size += RMQ_HOST_V6_EXTRA;
    if (msg->store_host_v6) size += RMQ_HOST_V6_EXTRA;
    return size > INT32_MAX ? RMQ_E_BODYLENGTH : size;
}

static uint8_t *put_bytes(uint8_t *out, const void *from, size_t len) {
    if (len) memcpy(out, from, len);
    return out + len;
}

/* The same for mostly short texts: 8 to 32 bytes without a call, as two halves that may overlap. */
static inline uint8_t *put_short(uint8_t *out, const uint8_t *from, size_t len) {
    uint8_t first[16], last[16];
    if (len >= 16 && len <= 32) {
        memcpy(first, from, 16);
        memcpy(last, from + len - 16, 16);
        memcpy(out, first, 16);
        memcpy(out + len - 16, last, 16);
    } else if (len >= 8 && len < 16) {
        memcpy(first, from, 8);
        memcpy(last, from + len - 8, 8);
        memcpy(out, first, 8);
        memcpy(out + len - 8, last, 8);
    } else {
        return put_bytes(out, from, len);
    }
    return out + len;
}

static inline uint8_t *put_host(uint8_t *out, const uint8_t *host, int v6) {
    if (v6) {
        memcpy(out, host, RMQ_HOST_V6_SIZE);
        return out + RMQ_HOST_V6_SIZE;
    }
    memcpy(out, host, RMQ_HOST_V4_SIZE);
    return out + RMQ_HOST_V4_SIZE;
}

static void put_prop_crc(uint8_t *begin, uint8_t *area) {
    int64_t value = rmq_crc32(begin, (size_t)(area - begin)) & RMQ_CRC_MASK;
    memcpy(area, PROP_CRC_NAME, 9);
    for (int i = 9; i < 19; i++, value /= 10) area[i] = (uint8_t)('0' + value % 10);
    area[19] = RMQ_PROPERTY_SEPARATOR;
}

void rmq_record_write(const rmq_message *msg, int64_t size, uint8_t *out) {
    const int v2 = msg->topic_len > RMQ_MAX_TOPIC_LEN_V1;
    int32_t sys_flag = msg->sys_flag & ~(RMQ_SYS_BORNHOST_V6 | RMQ_SYS_STOREHOST_V6);
    if (msg->born_host_v6) sys_flag |= RMQ_SYS_BORNHOST_V6;
    if (msg->store_host_v6) sys_flag |= RMQ_SYS_STOREHOST_V6;

    rmq_store_i32(out + RMQ_REC_TOTALSIZE, (int32_t)size);                            /* 1 TOTALSIZE */
                                                                                      /* 2 MAGICCODE, last */
    rmq_store_i32(out + RMQ_REC_BODYCRC,                                              /* 3 BODYCRC */
                  (int32_t)(rmq_crc32(msg->body, msg->body_len) & RMQ_CRC_MASK));
    rmq_store_i32(out + RMQ_REC_QUEUEID, msg->queue_id);                              /* 4 QUEUEID */
    rmq_store_i32(out + RMQ_REC_FLAG, msg->flag);                                     /* 5 FLAG */
    rmq_store_i64(out + RMQ_REC_QUEUEOFFSET, msg->queue_offset);                      /* 6 QUEUEOFFSET */
    rmq_store_i64(out + RMQ_REC_PHYSICALOFFSET, msg->phy_offset);                     /* 7 PHYSICALOFFSET */
    rmq_store_i32(out + RMQ_REC_SYSFLAG, sys_flag);                                   /* 8 SYSFLAG */
    rmq_store_i64(out + RMQ_REC_BORNTIMESTAMP, msg->born_timestamp);                  /* 9 BORNTIMESTAMP */
    uint8_t *p = out + RMQ_REC_BORNHOST;                                              /* 10 BORNHOST */
    p = put_host(p, msg->born_host, msg->born_host_v6);
    rmq_store_i64(p, msg->store_timestamp);                                           /* 11 STORETIMESTAMP */
    p += 8;                                                                           /* 12 STOREHOST */
    p = put_host(p, msg->store_host, msg->store_host_v6);
    rmq_store_i32(p, msg->reconsume_times);                                           /* 13 RECONSUMETIMES */
    rmq_store_i64(p + RMQ_REL_PREPAREDTRANSACTIONOFFSET, msg->prepared_transaction_offset); /* 14 */
    rmq_store_i32(p + RMQ_REL_BODYLENGTH, (int32_t)msg->body_len);                    /* 15 BODY */
    p = put_bytes(p + RMQ_REL_BODY, msg->body, msg->body_len);
    if (v2) {                                                                         /* 16 TOPIC */
        rmq_store_i16(p, (int16_t)msg->topic_len);
        p += 2;
    } else {
        *p++ = (uint8_t)msg->topic_len;
    }
    p = put_short(p, msg->topic, msg->topic_len);
    rmq_store_i16(p, (int16_t)stored_props_len(msg));                                 /* 17 PROPERTIES */
    p = put_short(p + 2, msg->props, msg->props_len);
    if (separator_size(msg)) *p++ = RMQ_PROPERTY_SEPARATOR;
    /* A reader of the mapping that sees a magic sees a whole record, except the appended CRC, which covers the magic.
     * (It orders nothing on disk.) */
    __atomic_thread_fence(__ATOMIC_RELEASE);
    rmq_store_i32(out + RMQ_REC_MAGIC, v2 ? RMQ_MAGIC_V2 : RMQ_MAGIC_V1);
    if (msg->append_prop_crc) put_prop_crc(out, p);
}

int64_t rmq_record_encode(const rmq_message *msg, uint8_t *out, size_t room) {
    const int64_t size = rmq_record_encoded_size(msg);
    if (size < 0) return size;
    if ((uint64_t)size > room) return RMQ_E_SHORT;
    rmq_record_write(msg, size, out);
    return size;
}
