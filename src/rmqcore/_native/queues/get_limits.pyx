"""Limits of a get: from the configuration, and from the caller."""

cimport cython
from cpython.long cimport PyLong_AsLongLongAndOverflow
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int64_t

import os

cdef int64_t MOST_BYTES = 128 * 1024 * 1024
cdef int64_t LEAST_BYTES = 100


@cython.final
cdef class GetLimits:
    """Limits of a get in a configuration, read once.

    Parameters
    ----------
    config : MessageStoreConfig
    memory_bytes : int, optional
        Bytes of physical memory; that of the machine when None.
    """

    def __cinit__(self, config, memory_bytes=None):
        if memory_bytes is None:
            memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        self.memory = <int64_t> (<double> memory_bytes * (config.access_message_in_memory_max_ratio / 100.0))
        self.bytes_in_memory = config.max_transfer_bytes_on_message_in_memory
        self.bytes_on_disk = config.max_transfer_bytes_on_message_in_disk
        self.count_in_memory = config.max_transfer_count_on_message_in_memory
        self.count_on_disk = config.max_transfer_count_on_message_in_disk
        self.filter_bytes = config.max_filter_message_size
        self.files = config.travel_cq_file_num_when_get_message
        self.keeps_offsets = not config.corrects_offsets

    def is_full(self, int64_t count, int64_t total, int64_t msg_size, int64_t most, int64_t most_bytes, bint in_memory):
        """Return True if a get with this number of messages and bytes ends before one of `msg_size` bytes; the first always fits.

        `most` and `most_bytes` are those of `messages_of_get` and `bytes_of_get`; `in_memory` is of the message that would come.
        """
        return count > 0 and is_enough(self, count, total, msg_size, most, most_bytes, in_memory)


cdef GetLimits last_limits = None
cdef object last_config = None

cdef GetLimits limits_of(config):
    global last_limits, last_config
    if type(config) is GetLimits:
        return <GetLimits> config
    if config is not last_config:
        last_limits = GetLimits(config)
        last_config = config
    return last_limits


cdef int64_t clipped(object number) except? -1:
    """A number as a Java long; a number outside its range becomes the nearest bound."""
    cdef int overflow = 0
    cdef int64_t value = PyLong_AsLongLongAndOverflow(number, &overflow)
    if overflow:
        return INT64_MAX if overflow > 0 else INT64_MIN
    return value


cpdef int64_t messages_of_get(max_messages) except? -1:
    """How many messages a get gives at most, of what it is asked for."""
    return min(clipped(max_messages), <int64_t> INT32_MAX)


cpdef int64_t bytes_of_get(max_bytes) except? -1:
    """How many bytes of messages a get gives at most, of what it is asked for: 100 bytes to 128 MiB; None is 128 MiB."""
    return MOST_BYTES if max_bytes is None else min(max(clipped(max_bytes), LEAST_BYTES), MOST_BYTES)
