from libc.stdint cimport int32_t, int64_t, uint32_t

from .codec cimport DelayLevels
from .kernels cimport (
    rmq_batch, rmq_filter, rmq_pool, rmq_scan, rmq_shared_batch, rmq_slice, rmq_text_set, rmq_topics,
)


cdef class _TextSet:
    cdef rmq_text_set table
    cdef list texts
    cdef rmq_slice *items
    cdef uint32_t *slots


cdef class Filter:
    cdef rmq_filter filter
    cdef _TextSet topics, tags, keys
    cdef int32_t *queue_ids


cdef class ColumnList:
    cdef readonly tuple names
    cdef int32_t ids[64]
    cdef int64_t count
    cdef uint32_t mask


cdef class Batch:
    # rmq_shared_batch_of(shared) is the memory of the columns, alive as long as this object.
    cdef rmq_shared_batch *shared
    cdef ColumnList columns


cdef class _Scan:
    cdef rmq_scan scan
    cdef Filter filter
    cdef DelayLevels levels

    cdef _configure(self, Filter filter, DelayLevels levels, stop_offset)


cdef class ColumnScan(_Scan):
    cdef readonly ColumnList columns
    cdef rmq_pool *pool
    cdef rmq_batch *batch
    cdef rmq_topics *topic_table  # numbers of the column topic_id; grows only
