from libc.stdint cimport int32_t, int64_t

from rmqcore._native.kernels cimport rmq_fill, rmq_log, rmq_put
from rmqcore._native.files.mapped_file cimport MappedFile
from rmqcore._native.put.put_chunk cimport PutChunk
from rmqcore._native.put.put_result cimport PutResult
from rmqcore._native.threads.mutex cimport Calls

cdef enum:
    # Bytes of records that are appended with the GIL, as a single put is: some ten microseconds, less than it costs to get the
    # GIL back from another thread.
    BRIEF = 128 * 1024

cdef enum Puts:
    TAKEN
    PAUSED  # refused with a status
    ENDED  # refused with an error, for good


cdef class Appender:
    cdef rmq_log *log
    cdef rmq_fill filling
    cdef bint can_fill  # `filling` is made
    cdef readonly MappedFile file  # what log.base points into
    cdef readonly MappedFile next_file
    cdef object clock, make_room
    cdef Puts puts
    cdef object raise_ended  # where puts are ENDED: raises what ended them
    cdef Calls calls
    cdef unsigned long clock_caller  # the thread that reads the injected clock, with the C lock held; else 0
    cdef object on_append, on_low_space
    cdef int64_t alarm  # smallest of the two below
    cdef int64_t append_alarm, space_alarm  # ends of the log at which the hooks are called; INT64_MAX: not armed
    cdef bint append_prop_crc
    cdef bint forbidden  # this is a forked child: nothing is appended, and the C lock is not waited for
    cdef PutChunk spare

    cdef int append(self, rmq_put *puts, size_t n, bint whole, bint briefly, size_t *done) except -1
    cdef int append_by_steps(self, rmq_put *puts, size_t n, bint whole, size_t *done, list light) except -1
    cdef int append_held(self, rmq_put *puts, size_t n, bint whole, int64_t *now, size_t *done, list light) except -1
    cdef int append_at_once(self, rmq_put *puts, size_t n, bint whole, bint briefly) except -1
    cdef int64_t end_offset(self) noexcept  # max_phy_offset
    cdef int refuse(self) except -1
    cdef PutResult refusal(self)
    cdef int ring(self) except -1
    cdef int appended(self) except -1
    cdef int lock(self) except -1
    cdef int64_t exchange(self, str topic, int32_t queue_id, int64_t expected, int64_t value) except? -1
    cdef PutChunk take_chunk(self)
    cdef int give_chunk(self, PutChunk chunk) except -1
    cdef PutResult put_chunk(self, PutChunk chunk)
