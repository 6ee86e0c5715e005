from libc.stdint cimport int32_t, int64_t, uint8_t

from rmqcore._native.kernels cimport rmq_put


cdef class PutResult:
    cdef readonly object status
    cdef readonly int64_t phy_offset, queue_offset, store_timestamp_ms, msg_size
    cdef readonly Py_ssize_t count
    cdef tuple offsets  # of a batch's records; None: one record
    cdef uint8_t store_host[20]
    cdef int store_host_size

    cdef str _id(self, int64_t phy_offset)


# `put` is the stored message, or the first of a stored batch; `offsets` are the phy offsets of a batch's records.
cdef PutResult stored_result(const rmq_put *put, int64_t msg_size, Py_ssize_t count, tuple offsets)
cpdef PutResult refused_result(status)
cdef tuple unstored_rows(Py_ssize_t count, int32_t code)
cdef PutResult refused_code(int32_t code)  # by a code RMQ_PUT_* of append.h
