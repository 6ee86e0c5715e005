from libc.stdint cimport int64_t

from rmqcore._native.scan.batch cimport ColumnList
from rmqcore._native.format.codec cimport DelayLevels
from rmqcore._native.scan.filter cimport Filter
from rmqcore._native.kernels cimport rmq_batch, rmq_pool, rmq_scan, rmq_topics


cdef class _Scan:
    cdef rmq_scan scan
    cdef Filter filter
    cdef DelayLevels levels

    cdef _configure(self, Filter filter, DelayLevels levels, stop_offset)


cdef class ColumnScan(_Scan):
    cdef readonly ColumnList columns
    cdef rmq_pool *pool
    cdef rmq_batch *batch
    cdef rmq_topics *topic_table  # numbers of the column topic_id
    cdef rmq_topics *tag_table  # of tag_id
    cdef size_t topic_room
    cdef readonly int64_t numbering
    cdef bint ended  # by `end_batch`

    cdef bint is_over(self) noexcept
