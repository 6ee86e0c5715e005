from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t

from .codec cimport DelayLevels, MessageView
from .kernels cimport rmq_message
from .mapped_file cimport MappedFile, MappedFiles
from .message cimport Message


cdef extern from "append.h" nogil:
    enum:
        RMQ_PUT_OK, RMQ_PUT_WAITING, RMQ_PUT_MESSAGE_ILLEGAL, RMQ_PUT_PROPERTIES_SIZE_EXCEEDED, RMQ_PUT_UNKNOWN_ERROR
        RMQ_PUT_CREATE_MAPPED_FILE_FAILED
        RMQ_A_DONE, RMQ_A_NEED_FILE, RMQ_A_NEED_SPACE, RMQ_A_STOPPED
        RMQ_NO_CLOCK
    ctypedef struct rmq_put:
        rmq_message msg
        int born_now
        int32_t status, msg_size
    ctypedef struct rmq_log:
        pass
    ctypedef struct rmq_log_limits:
        int64_t file_size, max_message_size
        int append_prop_crc
    rmq_log *rmq_log_new(const rmq_log_limits *limits) noexcept
    void rmq_log_free(rmq_log *log) noexcept
    int rmq_log_try_lock(rmq_log *log) noexcept
    void rmq_log_lock(rmq_log *log) noexcept
    void rmq_log_unlock(rmq_log *log) noexcept
    void rmq_log_set_file(rmq_log *log, uint8_t *base, int64_t file_from_offset, int64_t wrote, int64_t allocated) noexcept
    void rmq_log_set_next(rmq_log *log, uint8_t *base, int64_t file_from_offset, int64_t allocated) noexcept
    void rmq_log_set_allocated(rmq_log *log, int64_t allocated) noexcept
    void rmq_log_stop(rmq_log *log) noexcept
    int64_t rmq_log_wrote(const rmq_log *log) noexcept
    int64_t rmq_log_file_from_offset(const rmq_log *log) noexcept
    int64_t rmq_log_allocated(const rmq_log *log) noexcept
    int rmq_log_has_next(const rmq_log *log) noexcept
    int64_t rmq_log_max_message_size(const rmq_log *log) noexcept
    void rmq_log_state(const rmq_log *log, int64_t *wrote, int64_t *store_timestamp) noexcept
    int64_t *rmq_log_queue_offset(rmq_log *log, const uint8_t *topic, size_t topic_len, int32_t queue_id) noexcept
    void rmq_log_forget_queues(rmq_log *log) noexcept
    void rmq_put_check(const rmq_log *log, rmq_put *put) noexcept
    int rmq_log_append(rmq_log *log, rmq_put *puts, size_t count, int64_t now_ms, size_t *done) noexcept
    int rmq_log_append_batch(rmq_log *log, rmq_put *puts, size_t count, int64_t now_ms) noexcept
    int rmq_copy_text(uint8_t *out, const uint8_t *text, size_t len) noexcept
    int64_t rmq_props_separators(const uint8_t *props, int64_t len) noexcept
    int rmq_topic_is_legal(const uint8_t *topic, size_t length) noexcept


cdef class PutResult:
    cdef readonly object status
    cdef readonly int64_t phy_offset, queue_offset, store_timestamp_ms, msg_size
    cdef readonly Py_ssize_t count
    cdef tuple offsets  # of a batch's records; None: one record
    cdef uint8_t store_host[20]
    cdef int store_host_size

    cdef str _id(self, int64_t phy_offset)


cdef class _Chunk:
    cdef rmq_put *puts
    cdef uint8_t *props
    cdef Py_ssize_t count, capacity, props_used, props_room
    cdef int64_t total  # bytes of their records
    cdef PyObject **held  # two a message: topic, body
    cdef Py_buffer *buffers
    cdef Py_ssize_t buffer_count
    cdef int seen

    cdef void clear(self) noexcept
    cdef bint has_room(self) noexcept
    cdef int add(self, Appender appender, Message m) except -1
    cdef int add_refused(self) except -1


cdef class Appender:
    cdef rmq_log *log
    cdef readonly MappedFile file  # what log.base points into
    cdef readonly MappedFile next_file
    cdef object clock, make_room, refused
    cdef object on_append, on_low_space
    cdef int64_t alarm  # smallest of the two below
    cdef int64_t append_alarm, space_alarm  # ends of the log at which the hooks are called; INT64_MAX: not armed
    cdef bint append_prop_crc
    cdef _Chunk spare

    # Appends n prepared items (rmq_put_check was called on each), rolling and asking for room as needed; the GIL is let go.
    # Answers how many are settled: fewer than n only when no room could be made.
    cdef size_t append_prepared(self, rmq_put *puts, size_t n, bint briefly) except? 0
    cdef int64_t end_offset(self) noexcept  # max_phy_offset
    cdef int refuse(self) except -1
    cdef int64_t read_clock(self) except? -1
    cdef int append_one(self, rmq_put *put) except -1
    cdef int ring(self) except -1
    cdef int lock(self) except -1
    cdef _Chunk take_chunk(self)
    cdef Py_ssize_t fill_chunk(self, _Chunk chunk, list messages, Py_ssize_t at, Py_ssize_t count) except -1
    cdef int give_chunk(self, _Chunk chunk) except -1
    cdef PutResult put_chunk(self, _Chunk chunk, Py_ssize_t count)


# The message whose record starts at `phy_offset` and ends at or before `end_offset`; None: there is none.
cdef MessageView view_of(MappedFiles files, int64_t phy_offset, int64_t end_offset, DelayLevels levels)
