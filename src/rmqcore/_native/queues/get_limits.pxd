from libc.stdint cimport int64_t


cdef class GetLimits:
    cdef int64_t bytes_in_memory, bytes_on_disk, count_in_memory, count_on_disk, filter_bytes, files
    cdef int64_t memory  # a message that is at most so far from the log's end counts as in memory
    cdef bint keeps_offsets  # a slave does not correct offsets


cdef inline bint is_enough(GetLimits limits, int64_t count, int64_t total, int64_t msg_size, int64_t most,
                           int64_t most_bytes, bint in_memory) noexcept:
    """The rule of `GetLimits.is_full` for a get that has a message."""
    if count >= most or total >= most_bytes or total + msg_size > most_bytes:
        return True
    if in_memory:
        return count >= limits.count_in_memory or total + msg_size > limits.bytes_in_memory
    return count >= limits.count_on_disk or total + msg_size > limits.bytes_on_disk


cdef GetLimits limits_of(config)
cdef int64_t clipped(object number) except? -1
cpdef int64_t messages_of_get(max_messages) except? -1
cpdef int64_t bytes_of_get(max_bytes) except? -1
