from libc.stdint cimport int32_t, int64_t, uint8_t

from rmqcore._native.kernels cimport rmq_cq, rmq_cq_table


cdef class ConsumeQueue:
    cdef object owner  # the QueueTable, which keeps `table` and `queue` alive
    cdef rmq_cq_table *table
    cdef rmq_cq *queue
    cdef str root
    cdef int64_t file_size
    cdef readonly str topic
    cdef readonly int32_t queue_id
    # The block of entries that a sequential reader is in; an entry never changes while the queue can be read by offset.
    cdef uint8_t *block
    cdef int64_t block_begin, block_count, next_in_order

    # Reads entries from queue offset `start` on, at most `count` and not past the end of a file. Answers how many there were;
    # -1 when the file is missing. It lets go of the GIL only when the disk has to be waited for.
    cdef int64_t read(self, int64_t start, int64_t count, uint8_t *out) except -2
    # The same for reads in order, most of which then need no system call.
    cdef int64_t read_in_order(self, int64_t start, int64_t count, uint8_t *out) except -2


cdef ConsumeQueue new_consume_queue()  # empty: the table fills it
