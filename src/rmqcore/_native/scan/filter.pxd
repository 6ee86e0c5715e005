from libc.stdint cimport int32_t, uint32_t

from rmqcore._native.kernels cimport rmq_filter, rmq_slice, rmq_text_set


cdef class _TextSet:
    cdef rmq_text_set table
    cdef list texts
    cdef rmq_slice *items
    cdef uint32_t *slots


cdef class Filter:
    cdef rmq_filter filter
    cdef _TextSet topics, tags, keys
    cdef int32_t *queue_ids
