from libc.stdint cimport int32_t, int64_t, uint8_t

cdef extern from "cq_table.h" nogil:
    ctypedef struct rmq_cq:
        int32_t topic, queue_id
        int64_t first_file, last_file
    ctypedef struct rmq_cq_table:
        pass
    int64_t rmq_cq_read(rmq_cq_table *table, rmq_cq *queue, int64_t index, int64_t count, uint8_t *out, int nowait) noexcept
    int64_t rmq_cq_end(const rmq_cq *queue) noexcept
    int64_t rmq_cq_min(const rmq_cq *queue) noexcept
    int64_t rmq_cq_max_phy(const rmq_cq *queue) noexcept


cdef class ConsumeQueue


cdef class QueueTable:
    cdef rmq_cq_table *table
    cdef readonly str root
    cdef readonly int64_t file_size
    cdef dict topic_numbers
    cdef list names  # of the topics by number
    cdef object scan  # whose topic ids `topic_of` is for
    cdef int32_t *topic_of
    cdef int32_t topics_known, topics_room

    cdef int32_t topic_number(self, str topic) except -2
    cdef int translate(self, object scan) except -1
    cdef ConsumeQueue _queue(self, str topic, rmq_cq *queue)


cdef class ConsumeQueue:
    cdef QueueTable table  # keeps `queue` alive
    cdef rmq_cq *queue
    cdef readonly str topic
    cdef readonly int32_t queue_id
    # The block of entries that a reader in order is in; an entry never changes while the queue can be read by offset.
    cdef uint8_t *block
    cdef int64_t block_begin, block_count, next_in_order

    # Entries from queue offset `start` on, at most `count` and not past the end of a file: how many, 0 none there, -1 the file is
    # missing. Lets go of the GIL only when the disk has to be waited for.
    cdef int64_t read(self, int64_t start, int64_t count, uint8_t *out) except -2
    # The same; who reads in order gets most calls answered without a system call.
    cdef int64_t read_in_order(self, int64_t start, int64_t count, uint8_t *out) except -2
