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
        RMQ_MAX_PROPERTIES_LEN

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

cdef extern from "utf8.h" nogil:
    int rmq_is_ascii(const uint8_t *p, size_t len) noexcept
    size_t rmq_utf8_sanitize(const uint8_t *p, size_t len, uint8_t *out) noexcept

cdef extern from "record.h" nogil:
    enum:
        RMQ_R_BLANK, RMQ_E_SHORT, RMQ_E_ZERO, RMQ_E_MAGIC, RMQ_E_TOTALSIZE, RMQ_E_BODYLENGTH
        RMQ_E_TOPICLENGTH, RMQ_E_PROPERTIESLENGTH, RMQ_E_LENGTHS, RMQ_E_PHYSICALOFFSET
        RMQ_E_BODYCRC, RMQ_E_PROPCRC, RMQ_E_PAST_FILE, RMQ_E_SHORT_FILE, RMQ_E_BLANKSIZE
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

cdef extern from "prop_crc_scan.h" nogil:
    ctypedef struct rmq_prop_crc_failure:
        size_t pos
        int64_t expected, found
    int64_t rmq_prop_crc_scan(const uint8_t *buf, size_t len, int required, rmq_prop_crc_failure *out, size_t room,
                              int64_t *checked) noexcept

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

cdef extern from "window.h" nogil:
    ctypedef struct rmq_window:
        const uint8_t *buf
        size_t len
        int64_t phy_offset, end_offset
        int check_place, check_crc
        int64_t trusted
    int32_t rmq_window_step(const rmq_window *w, size_t pos, rmq_record *rec) noexcept

cdef extern from "resync.h" nogil:
    int rmq_resync_guesses(const rmq_window *w, size_t pos, size_t *guesses) noexcept
    size_t rmq_resync_find(const rmq_window *w, size_t pos, int32_t *code, rmq_record *rec) noexcept
    size_t rmq_used_bytes(const uint8_t *buf, size_t len) noexcept

cdef extern from "split.h" nogil:
    enum:
        RMQ_SPLIT_MORE, RMQ_SPLIT_ODD
    int64_t rmq_split_start(const rmq_window *w, size_t boundary, uint32_t max_record_size, int anchored) noexcept

cdef extern from "filter.h" nogil:
    ctypedef struct rmq_text_set:
        const rmq_slice *items
        const uint32_t *slots
        uint32_t mask
        int active
    void rmq_text_set_build(uint32_t *slots, uint32_t mask, const rmq_slice *items, uint32_t count) noexcept
    ctypedef struct rmq_filter:
        rmq_text_set topics, tags, keys
        const int32_t *queue_ids
        int64_t queue_id_count, since_ms, until_ms, start_phy_offset, end_phy_offset

cdef extern from "batch.h" nogil:
    enum:
        RMQ_COL_PUBLIC, RMQ_COL_COUNT, RMQ_COL_TOPIC_ID, RMQ_COL_KEY_HASHES
        RMQ_COL_PHY_OFFSET, RMQ_COL_MSG_SIZE, RMQ_COL_QUEUE_ID, RMQ_COL_QUEUE_OFFSET, RMQ_COL_SYS_FLAG
        RMQ_COL_STORE_TIMESTAMP_MS, RMQ_COL_TAGS_CODE, RMQ_COL_PROPERTIES
        RMQ_KIND_I32, RMQ_KIND_I64, RMQ_KIND_HASHES
    ctypedef struct rmq_column_type:
        const char *name
        uint8_t kind, nullable
    const rmq_column_type rmq_column_types[]
    ctypedef union rmq_values "rmq_column.values":
        void *any
        int32_t *i32
        int64_t *i64
    ctypedef struct rmq_column:
        rmq_values values
        int32_t *offsets
    ctypedef struct rmq_pool:
        pass
    ctypedef struct rmq_batch:
        int64_t rows
        size_t bytes
        rmq_column columns[25]
    rmq_pool *rmq_pool_new(uint32_t wanted, int64_t rows) noexcept
    void rmq_pool_close(rmq_pool *pool) noexcept
    rmq_batch *rmq_batch_take(rmq_pool *pool) noexcept
    void rmq_batch_release(rmq_batch *batch) noexcept

cdef extern from "topics.h" nogil:
    ctypedef struct rmq_topic:
        rmq_slice name
        uint32_t key_seed
    ctypedef struct rmq_topics:
        pass
    rmq_topics *rmq_topics_new() noexcept
    void rmq_topics_free(rmq_topics *topics) noexcept
    int32_t rmq_topics_count(const rmq_topics *topics) noexcept
    const rmq_topic *rmq_topics_get(const rmq_topics *topics, int32_t id) noexcept

cdef extern from "columns.h" nogil:
    enum:
        RMQ_S_END, RMQ_S_FULL, RMQ_S_STOP, RMQ_S_MEMORY, RMQ_S_RECORD
    ctypedef struct rmq_scan:
        const rmq_filter *filter
        rmq_delay_levels levels
        rmq_topics *topics
        uint32_t wanted
        int64_t batch_rows
        size_t batch_bytes
        int64_t stop_offset
    int32_t rmq_scan_columns(rmq_scan *scan, rmq_batch *batch, const rmq_window *w, size_t *pos, rmq_record *rec) noexcept
    int32_t rmq_scan_next(rmq_scan *scan, const rmq_window *w, size_t *pos, rmq_record *rec) noexcept
    int rmq_batch_add_properties(rmq_batch *batch, const uint8_t *props, size_t len, size_t before, size_t after) noexcept

cdef extern from "arrow_abi.h" nogil:
    struct ArrowSchema:
        void (*release)(ArrowSchema *) noexcept
    struct ArrowArray:
        void (*release)(ArrowArray *) noexcept
    struct ArrowArrayStream:
        int (*get_schema)(ArrowArrayStream *, ArrowSchema *) noexcept
        int (*get_next)(ArrowArrayStream *, ArrowArray *) noexcept
        const char *(*get_last_error)(ArrowArrayStream *) noexcept
        void (*release)(ArrowArrayStream *) noexcept
        void *private_data

cdef extern from "arrow_export.h" nogil:
    ctypedef struct rmq_shared_batch:
        pass
    rmq_shared_batch *rmq_shared_new(rmq_batch *batch) noexcept
    void rmq_shared_hold(rmq_shared_batch *shared) noexcept
    void rmq_shared_drop(rmq_shared_batch *shared) noexcept
    const rmq_batch *rmq_shared_batch_of(const rmq_shared_batch *shared) noexcept
    int rmq_arrow_schema(const int32_t *columns, int64_t count, ArrowSchema *out) noexcept
    int rmq_arrow_array(rmq_shared_batch *shared, const int32_t *columns, int64_t count, ArrowArray *out) noexcept
