/* rmq_record_parse and rmq_record_encode: what is accepted adds up, reads only itself, and encodes to the same bytes. */
#include "crc32/crc32.h"
#include "fuzz.h"
#include "format/text.h"
#include "format/utf8.h"

static void check_texts(const rmq_record *r) {
    static const int64_t delays[] = {1000, 5000};
    const rmq_delay_levels levels = {delays, 2};
    char text[RMQ_MSG_ID_V6_LEN > RMQ_HOST_TEXT_ROOM ? RMQ_MSG_ID_V6_LEN : RMQ_HOST_TEXT_ROOM];
    const size_t id = rmq_msg_id(r, text);
    CHECK(id == (r->sys_flag & RMQ_SYS_STOREHOST_V6 ? 56 : 32));
    CHECK(rmq_host_text(r->at + RMQ_REC_BORNHOST, r->sys_flag & RMQ_SYS_BORNHOST_V6, text) <= RMQ_HOST_TEXT_ROOM);
    CHECK(rmq_host_text(r->at + r->store_host_pos, r->sys_flag & RMQ_SYS_STOREHOST_V6, text) <= RMQ_HOST_TEXT_ROOM);
    rmq_known_props known;
    rmq_props_known(r->at + r->props_pos, r->props_len, r->props_pos, &known);
    const uint8_t *props = r->at + r->props_pos;
    if (known.tags.p) CHECK(known.tags.p > props && known.tags.p + known.tags.len <= props + r->props_len);
    (void)rmq_tags_code(r, &known, &levels);
    (void)rmq_utf8_valid(r->at + r->topic_pos, r->topic_len);
}

static void check_encode(const rmq_record *r) {
    if ((r->magic == RMQ_MAGIC_V2) != (r->topic_len > RMQ_MAX_TOPIC_LEN_V1))
        return; /* readable, but never written so */
    rmq_message m;
    memset(&m, 0, sizeof m);
    m.topic = r->at + r->topic_pos, m.topic_len = r->topic_len;
    m.body = r->at + r->body_pos, m.body_len = r->body_len;
    m.props = r->at + r->props_pos, m.props_len = r->props_len;
    m.queue_id = rmq_rec_queue_id(r), m.flag = rmq_rec_flag(r), m.sys_flag = r->sys_flag;
    m.reconsume_times = rmq_rec_reconsume_times(r);
    m.queue_offset = rmq_rec_queue_offset(r), m.phy_offset = rmq_rec_phy_offset(r);
    m.born_timestamp = rmq_rec_born_timestamp(r), m.store_timestamp = rmq_rec_store_timestamp(r);
    m.prepared_transaction_offset = rmq_rec_prepared_transaction_offset(r);
    m.born_host_v6 = (r->sys_flag & RMQ_SYS_BORNHOST_V6) != 0;
    m.store_host_v6 = (r->sys_flag & RMQ_SYS_STOREHOST_V6) != 0;
    memcpy(m.born_host, r->at + RMQ_REC_BORNHOST, r->store_timestamp_pos - RMQ_REC_BORNHOST);
    memcpy(m.store_host, r->at + r->store_host_pos, r->reconsume_times_pos - r->store_host_pos);
    CHECK(rmq_record_encoded_size(&m) == r->msg_size);
    uint8_t *again = malloc(r->msg_size);
    CHECK(again != NULL);
    CHECK(rmq_record_encode(&m, again, r->msg_size - 1) == RMQ_E_SHORT);
    CHECK(rmq_record_encode(&m, again, r->msg_size) == r->msg_size);
    rmq_record crc = *r;
    if (rmq_record_check_body_crc(&crc) != 0) memcpy(again + RMQ_REC_BODYCRC, r->at + RMQ_REC_BODYCRC, 4);
    CHECK(memcmp(again, r->at, r->msg_size) == 0);
    /* With a fresh appended CRC it still parses and proves itself. */
    m.append_prop_crc = 1;
    const int64_t size = rmq_record_encoded_size(&m);
    CHECK(size > r->msg_size || size == RMQ_E_PROPERTIESLENGTH);
    if (size > 0) {
        uint8_t *longer = malloc((size_t)size);
        CHECK(longer != NULL && rmq_record_encode(&m, longer, (size_t)size) == size);
        rmq_record with;
        CHECK(rmq_record_parse(longer, (size_t)size, &with) == size);
        CHECK(rmq_record_check_body_crc(&with) == 0 && rmq_record_check_prop_crc(&with) == 0);
        free(longer);
    }
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (rmq_crc32_select("") != RMQ_CRC_OK) abort();
    rmq_record r;
    const int32_t code = rmq_record_parse(data, size, &r);
    CHECK(code >= RMQ_E_LENGTHS); /* place and CRC are not asked for */
    if (code == RMQ_E_SHORT) CHECK(size < RMQ_BLANK_MIN_SIZE ? r.msg_size == 0 : r.msg_size > size);
    if (code == RMQ_R_BLANK) CHECK(size >= 8 && r.msg_size >= 8 && rmq_load_i32(data + 4) == RMQ_MAGIC_BLANK);
    if (code <= 0) return 0;
    const uint32_t width = r.magic == RMQ_MAGIC_V2 ? 2 : 1;
    CHECK(code >= RMQ_REC_MIN_SIZE_V1 && (size_t)code <= size && r.msg_size == (uint32_t)code && r.at == data);
    CHECK(r.body_pos == r.reconsume_times_pos + RMQ_REL_BODY && r.topic_pos == r.body_pos + r.body_len + width);
    CHECK(r.props_pos == r.topic_pos + r.topic_len + 2 && r.props_pos + r.props_len == r.msg_size);
    CHECK(r.topic_len <= (width == 2 ? 32767 : 127) && r.props_len <= 32767);
    CHECK(rmq_record_has_prop_crc(&r) || rmq_record_check_prop_crc(&r) == RMQ_E_PROPCRC);
    check_texts(&r);
    check_encode(&r);
    return 0;
}
