# Declarations of rmqcore/c_api.h for Cython: `from rmqcore.c_api cimport import_rmqcore, rmq_record, ...`. The headers say what
# each function promises. A module calls import_rmqcore() at its top, before any other function of this file.
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t

cdef extern from "rmqcore/c_api.h":
    int import_rmqcore "rmqcore_import"() except -1

cdef extern from "rmqcore/c_api.h" nogil:
    enum:
        RMQCORE_API_MAJOR, RMQCORE_API_MINOR

    # be.h
    int16_t rmq_load_i16(const uint8_t *p) noexcept
    int32_t rmq_load_i32(const uint8_t *p) noexcept
    int64_t rmq_load_i64(const uint8_t *p) noexcept
    void rmq_store_i16(uint8_t *p, int16_t value) noexcept
    void rmq_store_i32(uint8_t *p, int32_t value) noexcept
    void rmq_store_i64(uint8_t *p, int64_t value) noexcept

    # layout.h
    enum:
        RMQ_MAGIC_V1, RMQ_MAGIC_V2, RMQ_MAGIC_BLANK
        RMQ_REC_TOTALSIZE, RMQ_REC_MAGIC, RMQ_REC_BODYCRC, RMQ_REC_HEADER_SIZE, RMQ_REC_QUEUEID, RMQ_REC_FLAG
        RMQ_REC_QUEUEOFFSET, RMQ_REC_PHYSICALOFFSET, RMQ_REC_SYSFLAG, RMQ_REC_BORNTIMESTAMP, RMQ_REC_BORNHOST
        RMQ_REC_MIN_SIZE_V1, RMQ_REC_MIN_SIZE_V2, RMQ_BLANK_MIN_SIZE
        RMQ_HOST_V4_SIZE, RMQ_HOST_V6_SIZE
        RMQ_MAX_TOPIC_LEN_V1, RMQ_MAX_TOPIC_LEN_V2, RMQ_MAX_PROPERTIES_LEN
        RMQ_CRC_MASK
        RMQ_SYS_COMPRESSED, RMQ_SYS_MULTI_TAGS, RMQ_SYS_TRANSACTION_MASK, RMQ_SYS_TRANSACTION_PREPARED
        RMQ_SYS_TRANSACTION_COMMIT, RMQ_SYS_TRANSACTION_ROLLBACK, RMQ_SYS_BORNHOST_V6, RMQ_SYS_STOREHOST_V6
        RMQ_SYS_NEED_UNWRAP, RMQ_SYS_INNER_BATCH, RMQ_SYS_COMPRESSION_TYPE_MASK, RMQ_SYS_COMPRESSION_LZ4
        RMQ_SYS_COMPRESSION_ZSTD, RMQ_SYS_COMPRESSION_ZLIB
        RMQ_NAME_VALUE_SEPARATOR, RMQ_PROPERTY_SEPARATOR, RMQ_PROP_CRC_SIZE
        RMQ_CQ_STORE_UNIT_SIZE, RMQ_CQ_FILLER_SIZE
        RMQ_IDX_HEADER_SIZE, RMQ_IDX_SLOT_SIZE, RMQ_IDX_ENTRY_SIZE, RMQ_IDX_DEFAULT_SLOTS, RMQ_IDX_DEFAULT_ENTRIES

    # crc32.h
    ctypedef uint32_t (*rmq_crc32_fn)(const uint8_t *buf, size_t len) noexcept
    rmq_crc32_fn rmq_crc32
    const char *rmq_crc32_name() noexcept

    # record.h
    enum:
        RMQ_R_BLANK, RMQ_E_SHORT, RMQ_E_ZERO, RMQ_E_MAGIC, RMQ_E_TOTALSIZE, RMQ_E_BODYLENGTH
        RMQ_E_TOPICLENGTH, RMQ_E_PROPERTIESLENGTH, RMQ_E_LENGTHS, RMQ_E_PHYSICALOFFSET
        RMQ_E_BODYCRC, RMQ_E_PROPCRC, RMQ_E_PAST_FILE, RMQ_E_SHORT_FILE, RMQ_E_BLANKSIZE
        RMQ_E_DLEDGER_MAGIC, RMQ_E_DLEDGER_SIZE, RMQ_E_DLEDGER_PAST, RMQ_E_DLEDGER_POS, RMQ_E_DLEDGER_BODY
        RMQ_E_DLEDGER_END
    ctypedef struct rmq_record:
        const uint8_t *at
        uint32_t msg_size
        uint32_t store_timestamp_pos, store_host_pos, reconsume_times_pos
        uint32_t body_pos, body_len, topic_pos, topic_len, props_pos, props_len
        int32_t magic, sys_flag
        int64_t found, expected
    int32_t rmq_record_parse(const uint8_t *buf, size_t left, rmq_record *out) noexcept
    int32_t rmq_record_parse_any(const uint8_t *buf, size_t left, rmq_record *out) noexcept
    int32_t rmq_record_check_body_crc(rmq_record *rec) noexcept
    int32_t rmq_record_check_prop_crc(rmq_record *rec) noexcept
    int rmq_record_has_prop_crc(const rmq_record *rec) noexcept
    uint32_t rmq_rec_store_timestamp_pos(int32_t sys_flag) noexcept
    uint32_t rmq_rec_reconsume_times_pos(int32_t sys_flag) noexcept
    uint32_t rmq_rec_body_pos(int32_t sys_flag) noexcept
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
    void rmq_record_write(const rmq_message *msg, int64_t size, uint8_t *out) noexcept
    int64_t rmq_record_encode(const rmq_message *msg, uint8_t *out, size_t room) noexcept

    # properties.h
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
    int rmq_keys_next(rmq_slice keys, size_t *pos, rmq_slice *word) noexcept

    # cq.h, cq_bulk.h
    ctypedef struct rmq_cq_entry:
        int64_t phy_offset
        int32_t msg_size
        int64_t tags_code
    const rmq_cq_entry RMQ_CQ_FILLER
    int rmq_has_queue_entry(int32_t sys_flag) noexcept
    rmq_cq_entry rmq_cq_load(const uint8_t *p) noexcept
    void rmq_cq_store(uint8_t *p, rmq_cq_entry e) noexcept
    int rmq_cq_is_valid(rmq_cq_entry e) noexcept
    int rmq_cq_is_filler(rmq_cq_entry e) noexcept
    enum:
        RMQ_CQ_E_ROOM
    size_t rmq_cq_valid_prefix(const uint8_t *buf, size_t len) noexcept
    size_t rmq_cq_prefix_below(const uint8_t *buf, size_t len, int64_t phy_offset) noexcept
    size_t rmq_cq_rising_prefix(const uint8_t *buf, size_t len, int64_t log_end, int64_t *last_end) noexcept
    ctypedef struct rmq_cq_columns:
        const int64_t *phy_offset
        const int32_t *msg_size
        const int64_t *tags_code
    int64_t rmq_cq_pack(const rmq_cq_columns *columns, size_t count, uint8_t *out, size_t room) noexcept

    # index_file.h
    enum:
        RMQ_IDX_E_SHORT, RMQ_IDX_E_SLOTS
        RMQ_WALK_END, RMQ_WALK_WINDOW, RMQ_WALK_FULL, RMQ_WALK_BROKEN, RMQ_WALK_STEPS
        RMQ_IDX_FIELD_KEYHASH, RMQ_IDX_FIELD_PHYOFFSET, RMQ_IDX_FIELD_TIMEDIFF, RMQ_IDX_FIELD_PREVINDEX, RMQ_IDX_FIELD_SLOT
    ctypedef struct rmq_index_header:
        int64_t begin_timestamp, end_timestamp, begin_phy_offset, end_phy_offset
        int32_t hash_slot_count, index_count
    int rmq_index_header_decode(const uint8_t *buf, size_t len, rmq_index_header *out) noexcept
    int rmq_index_header_encode(const rmq_index_header *header, uint8_t *out, size_t room) noexcept
    ctypedef struct rmq_index_entry:
        int64_t phy_offset
        int32_t key_hash, time_diff, prev_index
    rmq_index_entry rmq_index_entry_load(const uint8_t *p) noexcept
    void rmq_index_entry_store(uint8_t *p, rmq_index_entry e) noexcept
    int32_t rmq_index_hash(const uint8_t *topic, size_t topic_len, const uint8_t *key, size_t key_len) noexcept
    ctypedef struct rmq_index_walk:
        int64_t begin_timestamp, begin_ms, end_ms
        int32_t key_hash, next_index, index_count, broken_index
        int64_t steps
    int rmq_index_time_matched(int64_t begin_timestamp, int64_t end_timestamp, int64_t begin_ms, int64_t end_ms) noexcept
    int rmq_index_chain_walk(rmq_index_walk *walk, const uint8_t *window, size_t len, int32_t first_index, int64_t *out,
                             size_t room, size_t *hits) noexcept
    ctypedef struct rmq_index_finding:
        int64_t index, expected, found
        int32_t field
    ctypedef struct rmq_index_check:
        int32_t *heads
        size_t slots
        int64_t next_index, last_phy_offset, used_slots
    int64_t rmq_index_check_entries(rmq_index_check *check, const uint8_t *buf, size_t len, rmq_index_finding *out,
                                    size_t room) noexcept
    int64_t rmq_index_check_slots(const rmq_index_check *check, const uint8_t *buf, size_t len, size_t first_slot,
                                  rmq_index_finding *out, size_t room) noexcept

    # jhash.h, utf8.h
    uint32_t rmq_jhash(uint32_t seed, const uint8_t *utf8, size_t len) noexcept
    uint32_t rmq_jhash_any(uint32_t seed, const uint8_t *utf8, size_t len) noexcept
    int32_t rmq_index_key_hash(uint32_t jhash) noexcept
    int rmq_is_ascii(const uint8_t *p, size_t len) noexcept
    int rmq_utf8_valid(const uint8_t *p, size_t len) noexcept
    size_t rmq_utf8_next(const uint8_t *p, size_t left, uint32_t *cp) noexcept
    size_t rmq_utf8_sanitize(const uint8_t *p, size_t len, uint8_t *out) noexcept

    # text.h
    enum:
        RMQ_DECIMAL_ROOM, RMQ_HOST_TEXT_ROOM, RMQ_MSG_ID_V4_LEN, RMQ_MSG_ID_V6_LEN
    char *rmq_decimal(char *out, int64_t value) noexcept
    size_t rmq_host_text(const uint8_t *host, int v6, char *out) noexcept
    size_t rmq_host_parse(const char *text, size_t len, uint8_t *out) noexcept
    void rmq_hex_upper(const uint8_t *bytes, size_t len, char *out) noexcept
    size_t rmq_msg_id(const rmq_record *rec, char *out) noexcept
    size_t rmq_msg_id_text(const uint8_t *host, int v6, int64_t phy_offset, char *out) noexcept
    int rmq_msg_id_parse(const char *text, size_t len, uint8_t *host, int *v6, int64_t *phy_offset) noexcept
    ctypedef struct rmq_delay_levels:
        const int64_t *delay_ms
        int32_t count
    int64_t rmq_tags_code(const rmq_record *rec, const rmq_known_props *known, const rmq_delay_levels *levels) noexcept
