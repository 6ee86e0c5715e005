from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint8_t

from rmqcore._native.kernels cimport rmq_log, rmq_put
from rmqcore._native.put.message cimport Message
from rmqcore._native.put.put_result cimport PutResult

cdef enum:
    CHUNK = 512  # messages prepared before the lock is taken
    CHUNK_PROPS = 1 << 20


cdef class PutChunk:
    cdef const rmq_log *log  # its limits decide what can be stored
    cdef bint append_prop_crc
    cdef rmq_put *puts
    cdef uint8_t *props
    cdef Py_ssize_t count, capacity, props_used, props_room
    cdef int64_t total  # bytes of their records
    cdef PyObject **held  # two a message: topic, body
    cdef Py_buffer *buffers
    cdef Py_ssize_t buffer_count
    cdef int seen
    cdef str fault  # what is wrong with the first message that cannot be encoded

    cdef void clear(self) noexcept
    cdef bint has_room(self) noexcept
    cdef int add(self, Message m) except -1
    cdef int add_refused(self, error) except -1
    cdef str reason(self, Py_ssize_t at)
    cdef PutResult refused(self, Py_ssize_t at)
    cdef str broken_rule(self, int64_t image)
    cdef Py_ssize_t add_from(self, list messages, Py_ssize_t at, Py_ssize_t count) except -1


cdef PutChunk new_chunk(const rmq_log *log, bint append_prop_crc, Py_ssize_t capacity, Py_ssize_t props_room)
cdef PutChunk batch_chunk(const rmq_log *log, bint append_prop_crc, list messages)  # with room for all of them
cdef int check_types(list messages) except -1
cdef int check_batch(list messages) except -1
