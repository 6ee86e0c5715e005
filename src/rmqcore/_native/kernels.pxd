# Declarations of the C kernels, in one place for every extension. The headers say what each one promises. Those that other
# projects may use are in rmqcore/c_api/__init__.pxd.
from libc.stdlib cimport getenv
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from rmqcore.c_api cimport *

cdef extern from "crc32/crc32.h" nogil:
    int rmq_crc32_select(const char *name) noexcept
    enum:
        RMQ_CRC_OK, RMQ_CRC_NO_SUCH_KERNEL, RMQ_CRC_NOT_BUILT, RMQ_CRC_NO_CPU

cdef extern from "crc32/crc32_states.h" nogil:
    ctypedef struct rmq_crc32_powers:
        pass
    void rmq_crc32_powers_init(rmq_crc32_powers *powers) noexcept
    ctypedef struct rmq_crc32_extent:
        int64_t start, end
    ctypedef struct rmq_crc32_states:
        rmq_crc32_powers powers
        uint32_t *states
        rmq_crc32_extent *extents
        size_t state_count, extent_count, block
    void rmq_crc32_begin_extent(rmq_crc32_states *states, int64_t start) noexcept
    void rmq_crc32_add(rmq_crc32_states *states, const uint8_t *buf, size_t len) noexcept

# An extension that computes CRCs calls this at its import: each extension has its own copy of the kernels and of the choice.
# A name that is refused has raised before, at the import of codec, which every import of rmqcore begins with.
cdef inline void choose_crc32() noexcept:
    rmq_crc32_select(getenv("RMQCORE_CRC32"))

cdef extern from "format/prop_crc_scan.h" nogil:
    ctypedef struct rmq_prop_crc_failure:
        size_t pos
        int64_t expected, found
    int64_t rmq_prop_crc_scan(const uint8_t *buf, size_t len, int required, rmq_prop_crc_failure *out, size_t room,
                              int64_t *checked) noexcept

cdef extern from "format/message_batch.h" nogil:
    enum:
        RMQ_BATCH_MIN_SIZE
        RMQ_B_E_SHORT, RMQ_B_E_TOTALSIZE, RMQ_B_E_BODYLENGTH, RMQ_B_E_PROPERTIESLENGTH, RMQ_B_E_LENGTHS
    ctypedef struct rmq_batch_message:
        int32_t flag
        const uint8_t *body
        const uint8_t *props
        uint32_t body_len, props_len
    ctypedef struct rmq_batch_fault:
        int64_t pos, found, expected
    int64_t rmq_message_batch_next(
        const uint8_t *buf, size_t left, int check_size, rmq_batch_message *out, rmq_batch_fault *fault
    ) noexcept
    int64_t rmq_message_batch_size(const rmq_batch_message *message) noexcept
    void rmq_message_batch_write(const rmq_batch_message *message, uint8_t *out) noexcept

cdef extern from "text/text_out.h" nogil:
    ctypedef struct rmq_out:
        uint8_t *at
        size_t len
    void rmq_out_begin(rmq_out *out, uint8_t *few, size_t room) noexcept
    void rmq_out_end(rmq_out *out) noexcept

cdef extern from "text/text_rows.h" nogil:
    ctypedef enum rmq_row_kind:
        RMQ_ROW_JSON, RMQ_ROW_CSV, RMQ_ROW_CSV_SAFE
    enum:
        RMQ_ROW_DONE, RMQ_ROW_MEMORY, RMQ_ROW_NAMES
    ctypedef struct rmq_row_text:
        const uint8_t *p
        size_t len
    int rmq_row_write(const rmq_record *rec, const rmq_delay_levels *levels, rmq_row_kind kind, rmq_row_text body,
                      rmq_row_text properties, rmq_out *out) noexcept

cdef extern from "scan/window.h" nogil:
    ctypedef struct rmq_window:
        const uint8_t *buf
        size_t len
        int64_t phy_offset, end_offset
        int check_place, check_crc
        int64_t trusted
    int32_t rmq_window_step(const rmq_window *w, size_t pos, rmq_record *rec) noexcept

cdef extern from "scan/dledger.h" nogil:
    enum:
        RMQ_DLEDGER_HEAD, RMQ_DLEDGER_NEED
    int32_t rmq_dledger_step(const uint8_t *buf, size_t left, int64_t at, int64_t left_in_file, rmq_record *rec) noexcept

cdef extern from "scan/resync.h" nogil:
    enum:
        RMQ_RESYNC_COSTLY
    size_t rmq_resync_find(const rmq_window *w, size_t pos, uint64_t *credit, int32_t *code, rmq_record *rec) noexcept
    size_t rmq_used_bytes(const uint8_t *buf, size_t len) noexcept

cdef extern from "scan/proof.h" nogil:
    enum:
        RMQ_PROOF_FETCH, RMQ_PROOF_BLOCK
    ctypedef struct rmq_prover:
        rmq_window window
        int64_t file_from_offset
        int (*fetch)(void *context, int64_t pos, size_t len, uint8_t *out) noexcept
        void *context
    int32_t rmq_proof_shape(const rmq_prover *p, int64_t pos, rmq_record *rec, int32_t *body_crc) noexcept
    int32_t rmq_proof_step(const rmq_prover *p, const rmq_crc32_states *states, int64_t pos, rmq_record *rec) noexcept
    int64_t rmq_proof_find(const rmq_prover *p, const rmq_crc32_states *states, int64_t pos, int32_t *code,
                           rmq_record *rec) noexcept
    int rmq_proof_guesses(const rmq_prover *p, int64_t pos, int64_t *guesses) noexcept

cdef extern from "scan/skip.h" nogil:
    enum:
        RMQ_SKIP_HEAD
    ctypedef struct rmq_skipped:
        int64_t start, end
        int64_t found, expected
        int32_t code
    ctypedef struct rmq_skip:
        rmq_prover *prover
        const rmq_crc32_states *states
        rmq_skipped *notes
        size_t count, room
        size_t settled
        int leave_out, dledger
        int64_t credit_from, in_vain
    int rmq_skip_damage(rmq_skip *skip, size_t *pos, int32_t code, const rmq_record *rec, int64_t *trusted) noexcept

cdef extern from "scan/split.h" nogil:
    enum:
        RMQ_SPLIT_MORE, RMQ_SPLIT_NOTHING, RMQ_SPLIT_ODD
    int64_t rmq_split_start(const rmq_window *w, size_t boundary, uint32_t max_record_size, int anchored,
                            int dledger) noexcept

cdef extern from "scan/filter.h" nogil:
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

cdef extern from "scan/batch.h" nogil:
    enum:
        RMQ_COL_PUBLIC, RMQ_COL_COUNT, RMQ_COL_TOPIC_ID, RMQ_COL_KEY_HASHES, RMQ_COL_TAG_ID
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

cdef extern from "scan/topics.h" nogil:
    ctypedef struct rmq_topic:
        rmq_slice name
        uint32_t key_seed
    ctypedef struct rmq_topics:
        pass
    rmq_topics *rmq_topics_new() noexcept
    void rmq_topics_free(rmq_topics *topics) noexcept
    int32_t rmq_topics_count(const rmq_topics *topics) noexcept
    size_t rmq_topics_bytes(const rmq_topics *topics) noexcept
    void rmq_topics_clear(rmq_topics *topics) noexcept
    const rmq_topic *rmq_topics_get(const rmq_topics *topics, int32_t id) noexcept
    int32_t rmq_topics_intern(rmq_topics *topics, const uint8_t *name, uint32_t len) noexcept

cdef extern from "scan/columns.h" nogil:
    enum:
        RMQ_S_END, RMQ_S_FULL, RMQ_S_STOP, RMQ_S_MEMORY, RMQ_S_RECORD
    ctypedef struct rmq_scan:
        const rmq_filter *filter
        rmq_delay_levels levels
        rmq_topics *topics
        rmq_topics *tags
        uint32_t wanted
        int64_t batch_rows
        size_t batch_bytes
        int64_t stop_offset
    int32_t rmq_scan_columns(rmq_scan *scan, rmq_batch *batch, const rmq_window *w, size_t *pos, rmq_record *rec) noexcept
    int32_t rmq_scan_next(rmq_scan *scan, const rmq_window *w, size_t *pos, rmq_record *rec) noexcept
    int rmq_batch_add_properties(rmq_batch *batch, const uint8_t *props, size_t len, size_t before, size_t after) noexcept

cdef extern from "format/arrow_abi.h" nogil:
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

cdef extern from "scan/arrow_export.h" nogil:
    ctypedef struct rmq_shared_batch:
        pass
    rmq_shared_batch *rmq_shared_new(rmq_batch *batch) noexcept
    void rmq_shared_hold(rmq_shared_batch *shared) noexcept
    void rmq_shared_drop(rmq_shared_batch *shared) noexcept
    const rmq_batch *rmq_shared_batch_of(const rmq_shared_batch *shared) noexcept
    int rmq_arrow_schema(const int32_t *columns, int64_t count, ArrowSchema *out) noexcept
    int rmq_arrow_array(rmq_shared_batch *shared, const int32_t *columns, int64_t count, ArrowArray *out) noexcept

cdef extern from "put/append.h" nogil:
    enum:
        RMQ_PUT_OK, RMQ_PUT_WAITING, RMQ_PUT_MESSAGE_ILLEGAL, RMQ_PUT_PROPERTIES_SIZE_EXCEEDED, RMQ_PUT_UNKNOWN_ERROR
        RMQ_PUT_CREATE_MAPPED_FILE_FAILED, RMQ_PUT_SERVICE_NOT_AVAILABLE, RMQ_PUT_BATCH_TOPIC
        RMQ_LIMIT_NONE, RMQ_LIMIT_TOPIC_LENGTH, RMQ_LIMIT_TOPIC_NAME, RMQ_LIMIT_QUEUE_ID, RMQ_LIMIT_INNER_BATCH
        RMQ_LIMIT_PROPERTIES, RMQ_LIMIT_BODY, RMQ_LIMIT_RECORD, RMQ_LIMIT_FILE, RMQ_LIMIT_V2, RMQ_LIMIT_IPV6
        RMQ_A_DONE, RMQ_A_NEED_FILE, RMQ_A_NEED_SPACE, RMQ_A_STOPPED, RMQ_A_ELSEWHERE
        RMQ_NO_CLOCK
    ctypedef struct rmq_put:
        rmq_message msg
        int born_now
        int32_t status, msg_size
        int64_t given_queue_id
    ctypedef struct rmq_log:
        pass
    ctypedef struct rmq_log_limits:
        int64_t file_size, max_message_size
        int append_prop_crc
        int64_t most_topic_bytes
        int ipv4_hosts_only
    rmq_log *rmq_log_new(const rmq_log_limits *limits) noexcept
    void rmq_log_free(rmq_log *log) noexcept
    int rmq_log_try_lock(rmq_log *log) noexcept
    void rmq_log_lock(rmq_log *log) noexcept
    void rmq_log_unlock(rmq_log *log) noexcept
    void rmq_log_set_file(rmq_log *log, uint8_t *base, int64_t file_from_offset, int64_t wrote, int64_t allocated) noexcept
    void rmq_log_set_next(rmq_log *log, uint8_t *base, int64_t file_from_offset, int64_t allocated) noexcept
    int64_t rmq_log_room_end(const rmq_log *log, int64_t file_from_offset) noexcept
    void rmq_log_stop(rmq_log *log) noexcept
    int64_t rmq_log_wrote(const rmq_log *log) noexcept
    int64_t rmq_log_file_from_offset(const rmq_log *log) noexcept
    int64_t rmq_log_allocated(const rmq_log *log) noexcept
    int rmq_log_has_next(const rmq_log *log) noexcept
    int64_t rmq_log_max_message_size(const rmq_log *log) noexcept
    void rmq_log_state(const rmq_log *log, int64_t *wrote, int64_t *store_timestamp) noexcept
    int64_t *rmq_log_queue_offset(rmq_log *log, const uint8_t *topic, size_t topic_len, int32_t queue_id) noexcept
    int rmq_log_close_topic(rmq_log *log, const uint8_t *topic, size_t topic_len) noexcept
    void rmq_put_check(const rmq_log *log, rmq_put *put) noexcept
    void rmq_put_check_record(rmq_put *put, int append_prop_crc) noexcept
    int rmq_put_limit(const rmq_log *log, const rmq_put *put, int64_t *found, int64_t *most) noexcept
    int rmq_log_append_any(rmq_log *log, rmq_put *puts, size_t count, int whole, int64_t now_ms, size_t *done) noexcept
    int rmq_log_append_raw(
        rmq_log *log, const uint8_t *bytes, int64_t size, int64_t at, int64_t store_timestamp
    ) noexcept
    int rmq_copy_text(uint8_t *out, const uint8_t *text, size_t len) noexcept
    int64_t rmq_props_separators(const uint8_t *props, int64_t len) noexcept
    int rmq_topic_is_legal(const uint8_t *topic, size_t length) noexcept

cdef extern from "put/next_queue_offsets.h" nogil:
    ctypedef struct rmq_queue_offsets:
        pass
    ctypedef struct rmq_queue_recent:
        const uint8_t *topic
    rmq_queue_offsets *rmq_queue_offsets_new() noexcept
    void rmq_queue_offsets_free(rmq_queue_offsets *table) noexcept
    enum:
        RMQ_QUEUE_CLOSED
    int64_t *rmq_queue_offsets_again(
        rmq_queue_offsets *table, rmq_queue_recent *recent, const uint8_t *topic, size_t topic_len, int32_t queue_id
    ) noexcept

cdef extern from "put/fill.h" nogil:
    ctypedef struct rmq_fill:
        pass
    ctypedef struct rmq_fill_file:
        int fd
        uint8_t *base
        int64_t file_from_offset
    int rmq_fill_init(rmq_fill *fill) noexcept
    void rmq_fill_destroy(rmq_fill *fill) noexcept
    int rmq_fill_up_to(rmq_fill *fill, rmq_log *log, const rmq_fill_file *file, int64_t end, int urgent) noexcept
    void rmq_fill_stop(rmq_fill *fill) noexcept

cdef extern from "queues/cq_table.h" nogil:
    ctypedef struct rmq_cq:
        int32_t topic, queue_id
        int64_t first_file, last_file
    ctypedef struct rmq_cq_table:
        pass
    const int64_t RMQ_CQ_MAX_END
    int64_t rmq_cq_read(rmq_cq_table *table, rmq_cq *queue, int64_t index, int64_t count, uint8_t *out, int nowait) noexcept
    int64_t rmq_cq_end(const rmq_cq *queue) noexcept
    int64_t rmq_cq_min(const rmq_cq *queue) noexcept
    int64_t rmq_cq_max_phy(const rmq_cq *queue) noexcept
    ctypedef struct rmq_cq_rows:
        const int64_t *phy_offset
        const int32_t *msg_size
        const int32_t *queue_id
        const int64_t *queue_offset
        const int32_t *sys_flag
        const int64_t *tags_code
        const int32_t *topic_id
        int64_t count
    ctypedef struct rmq_cq_counts:
        int64_t refused, repeats, gaps
    rmq_cq_table *rmq_cq_table_new(const char *root, int64_t file_size, int32_t open_files) noexcept
    void rmq_cq_table_free(rmq_cq_table *table) noexcept
    int32_t rmq_cq_topic_add(rmq_cq_table *table, const char *name) noexcept
    rmq_cq *rmq_cq_find(rmq_cq_table *table, int32_t topic, int32_t queue_id) noexcept
    rmq_cq *rmq_cq_find_or_add(rmq_cq_table *table, int32_t topic, int32_t queue_id) noexcept
    int32_t rmq_cq_count(const rmq_cq_table *table) noexcept
    rmq_cq *rmq_cq_at(const rmq_cq_table *table, int32_t number) noexcept
    int RMQ_CQ_GO_BACK
    int rmq_cq_put(rmq_cq_table *table, const rmq_cq_rows *rows, int64_t from_phy_offset, int64_t covered_from,
                   const int32_t *topic_of, int32_t topic_count, int64_t *back_to) noexcept
    int64_t rmq_cq_put_run(rmq_cq_table *table, rmq_cq *queue, const int64_t *queue_offsets, const uint8_t *entries,
                           int64_t count) noexcept
    int64_t rmq_cq_most_queue_offset(int64_t file_size) noexcept
    int64_t rmq_cq_room(const char *topic, int64_t begin, int64_t end, int64_t to) noexcept
    rmq_cq_counts rmq_cq_counted(const rmq_cq_table *table) noexcept
    int rmq_cq_flush_at_once(rmq_cq_table *table) noexcept
    void rmq_cq_assume_flushed(rmq_cq *queue) noexcept
    int rmq_cq_flush(rmq_cq_table *table, rmq_cq *queue, int32_t least_pages) noexcept
    void rmq_cq_set(rmq_cq_table *table, rmq_cq *queue, int64_t first_file, int64_t last_file, int64_t end,
                    int64_t max_phy) noexcept
    void rmq_cq_set_min(rmq_cq_table *table, rmq_cq *queue, int64_t min) noexcept
    void rmq_cq_set_first_file(rmq_cq_table *table, rmq_cq *queue, int64_t first_file) noexcept
    void rmq_cq_close(rmq_cq_table *table, rmq_cq *queue) noexcept
    const char *rmq_cq_put_failed_path(const rmq_cq_table *table) noexcept
    const char *rmq_cq_flush_failed_path(const rmq_cq_table *table) noexcept
    int32_t rmq_cq_open_count(rmq_cq_table *table) noexcept
    int64_t rmq_cq_first_file(const rmq_cq *queue) noexcept
    int64_t rmq_cq_last_file(const rmq_cq *queue) noexcept

cdef extern from "queues/cq_place.h" nogil:
    enum:
        RMQ_CQ_DIFFERS
        RMQ_CQ_HELD
        RMQ_CQ_BACK
        RMQ_CQ_REFUSED
        RMQ_CQ_TAGS
    const int64_t RMQ_CQ_EXT_ADDRESS_MAX
    ctypedef struct rmq_cq_seen:
        int32_t topic, queue_id
        int64_t rows, first, last, first_phy, last_phy, last_end, low, low_phy, backs, since
        int64_t prev_first, prev_last, prev_first_phy, prev_last_phy, prev_last_end, prev_low, prev_low_phy
    ctypedef struct rmq_cq_compare:
        pass
    rmq_cq_compare *rmq_cq_compare_new(rmq_cq_table *table, int with_ext, int none_held) noexcept
    void rmq_cq_compare_free(rmq_cq_compare *compare) noexcept
    int64_t rmq_cq_compare_rows(rmq_cq_compare *compare, const rmq_cq_rows *rows, const int32_t *topic_of,
                                int32_t topic_count, uint8_t *flags, int32_t *seen) noexcept
    void rmq_cq_compare_restart(rmq_cq_compare *compare) noexcept
    int32_t rmq_cq_compare_count(const rmq_cq_compare *compare) noexcept
    rmq_cq_seen rmq_cq_compare_seen(const rmq_cq_compare *compare, int32_t number) noexcept
    int rmq_cq_write_at(rmq_cq_table *table, rmq_cq *queue, int64_t index, const uint8_t *entries, int64_t count) noexcept

cdef extern from "threads/ring.h" nogil:
    ctypedef struct rmq_ring:
        pass
    void rmq_ring_ring(rmq_ring *ring) noexcept
    void rmq_ring_clear(rmq_ring *ring) noexcept
    int rmq_ring_rung(const rmq_ring *ring) noexcept
