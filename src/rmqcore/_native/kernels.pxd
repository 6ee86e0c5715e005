# Declarations of the C kernels, in one place for every extension. The headers say what each one promises.
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef extern from "layout.h" nogil:
    enum:
        RMQ_MAGIC_V1, RMQ_MAGIC_V2, RMQ_MAGIC_BLANK
        RMQ_REC_MIN_SIZE_V1
        RMQ_REC_BORNHOST
        RMQ_HOST_V4_SIZE, RMQ_HOST_V6_SIZE
        RMQ_SYS_BORNHOST_V6, RMQ_SYS_STOREHOST_V6
        RMQ_CRC_MASK

cdef extern from "crc32.h" nogil:
    ctypedef uint32_t (*rmq_crc32_fn)(const uint8_t *buf, size_t len) noexcept
    rmq_crc32_fn rmq_crc32
    int rmq_crc32_select(const char *name) noexcept
    const char *rmq_crc32_name() noexcept
    enum:
        RMQ_CRC_OK, RMQ_CRC_NO_SUCH_KERNEL, RMQ_CRC_NOT_BUILT, RMQ_CRC_NO_CPU

cdef extern from "jhash.h" nogil:
    uint32_t rmq_jhash(uint32_t seed, const uint8_t *utf8, size_t len) noexcept
    int32_t rmq_index_key_hash(uint32_t jhash) noexcept

cdef extern from "record.h" nogil:
    enum:
        RMQ_R_BLANK, RMQ_E_SHORT, RMQ_E_ZERO, RMQ_E_MAGIC, RMQ_E_TOTALSIZE, RMQ_E_BODYLENGTH
        RMQ_E_TOPICLENGTH, RMQ_E_PROPERTIESLENGTH, RMQ_E_LENGTHS, RMQ_E_PHYSICALOFFSET
        RMQ_E_BODYCRC, RMQ_E_PROPCRC
    ctypedef struct rmq_record:
        const uint8_t *at
        uint32_t msg_size
        uint32_t store_timestamp_pos, store_host_pos, reconsume_times_pos
        uint32_t body_pos, body_len, topic_pos, topic_len, props_pos, props_len
        int32_t magic, sys_flag
        int64_t found, expected
    int32_t rmq_record_parse(const uint8_t *buf, size_t left, rmq_record *out) noexcept
    int32_t rmq_record_check_body_crc(rmq_record *rec) noexcept
    int32_t rmq_record_check_prop_crc(rmq_record *rec) noexcept
    int rmq_record_has_prop_crc(const rmq_record *rec) noexcept
    int32_t rmq_rec_body_crc(const rmq_record *r) noexcept
    int32_t rmq_rec_queue_id(const rmq_record *r) noexcept
    int32_t rmq_rec_flag(const rmq_record *r) noexcept
    int64_t rmq_rec_queue_offset(const rmq_record *r) noexcept
    int64_t rmq_rec_phy_offset(const rmq_record *r) noexcept
    int64_t rmq_rec_born_timestamp(const rmq_record *r) noexcept
    int64_t rmq_rec_store_timestamp(const rmq_record *r) noexcept
    int32_t rmq_rec_reconsume_times(const rmq_record *r) noexcept
    int64_t rmq_rec_prepared_transaction_offset(const rmq_record *r) noexcept
    ctypedef struct rmq_message:
        const uint8_t *topic
        const uint8_t *body
        const uint8_t *props
        size_t topic_len, body_len, props_len
        int32_t queue_id, flag, sys_flag, reconsume_times
        int64_t queue_offset, phy_offset, born_timestamp, store_timestamp, prepared_transaction_offset
        uint8_t born_host[20]
        uint8_t store_host[20]
        int born_host_v6, store_host_v6
        int append_prop_crc
    int64_t rmq_record_encoded_size(const rmq_message *msg) noexcept
    int64_t rmq_record_encode(const rmq_message *msg, uint8_t *out, size_t room) noexcept

cdef extern from "properties.h" nogil:
    ctypedef struct rmq_slice:
        const uint8_t *p
        uint32_t len
    ctypedef struct rmq_prop:
        rmq_slice name, value
    ctypedef struct rmq_known_props:
        rmq_slice tags, keys, uniq_key, delay, inner_multi_dispatch, inner_multi_queue_offset
    ctypedef struct rmq_props_iter:
        pass
    void rmq_props_begin(rmq_props_iter *it, const uint8_t *props, size_t len, size_t before) noexcept
    int rmq_props_next(rmq_props_iter *it, rmq_prop *out) noexcept
    void rmq_props_known(const uint8_t *props, size_t len, size_t before, rmq_known_props *out) noexcept

cdef extern from "text.h" nogil:
    enum:
        RMQ_HOST_TEXT_ROOM, RMQ_MSG_ID_V6_LEN
    size_t rmq_host_text(const uint8_t *host, int v6, char *out) noexcept
    size_t rmq_msg_id(const rmq_record *rec, char *out) noexcept
    ctypedef struct rmq_delay_levels:
        const int64_t *delay_ms
        int32_t count
    int64_t rmq_tags_code(const rmq_record *rec, const rmq_known_props *known, const rmq_delay_levels *levels) noexcept
