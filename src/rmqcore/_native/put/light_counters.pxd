# Counters of light queues beside the appender's lock.

from libc.stdint cimport int64_t

from rmqcore._native.kernels cimport *


cdef inline int expect_light(rmq_log *log, list light) except -1:
    """Return True if the light queues still have the offsets in the record. The lock is held."""
    cdef int64_t *counter
    cdef bytes name
    cdef int64_t expected
    for name, expected, _ in light:
        counter = rmq_log_queue_offset(log, name, len(name), 0)
        if counter == NULL:
            raise MemoryError
        if counter[0] != expected:
            return 0
    return 1


cdef inline int count_light(rmq_log *log, list light) except -1:
    """Move the counters of light queues, all of which are there: nothing is allocated. The lock is held."""
    cdef bytes name
    for name, _, moves in light:
        if moves:
            rmq_log_queue_offset(log, name, len(name), 0)[0] += 1
    return 0
