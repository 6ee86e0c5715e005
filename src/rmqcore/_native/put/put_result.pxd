from libc.stdint cimport int32_t, int64_t, uint8_t

from rmqcore._native.kernels cimport rmq_log, rmq_put


cdef class PutResult:
    cdef readonly object status
    cdef readonly int64_t phy_offset, queue_offset, store_timestamp_ms, msg_size
    cdef readonly Py_ssize_t count
    # Of a batch the CommitLog offsets of its records, of a put that was refused its reason; None of a put of one message, which
    # must not pay for a member more.
    cdef tuple rest
    cdef uint8_t store_host[20]
    cdef int store_host_size

    cdef str _id(self, int64_t phy_offset)


# `put` is the stored message, or the first of a stored batch; `offsets` are the phy offsets of a batch's records.
cdef PutResult stored_result(const rmq_put *put, int64_t msg_size, Py_ssize_t count, tuple offsets)
cpdef PutResult refused_result(status, str reason=*)
# Why rmq_put_check, or a check that follows it, refused a message; None where that says nothing.
cdef str put_reason(const rmq_log *log, const rmq_put *put)
cdef inline str no_body():
    return "body is None, expected bytes; an empty body is b''"
cdef PutResult refused_put(const rmq_log *log, const rmq_put *put)
cdef tuple unstored_rows(Py_ssize_t count, int32_t code)
cdef PutResult refused_code(int32_t code, str reason=*)  # by a code RMQ_PUT_* of append.h
