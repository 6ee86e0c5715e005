from libc.stdint cimport int32_t, int64_t, uint32_t

from rmqcore._native.kernels cimport rmq_batch, rmq_shared_batch


cdef class ColumnList:
    cdef readonly tuple names
    cdef int32_t ids[64]
    cdef int64_t count
    cdef uint32_t mask


cdef class Batch:
    # rmq_shared_batch_of(shared) is the memory of the columns, alive as long as this object.
    cdef rmq_shared_batch *shared
    cdef ColumnList columns


cdef Batch new_batch(rmq_batch *rows, ColumnList columns)
