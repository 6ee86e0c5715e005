from libc.stdint cimport int32_t, int64_t

from rmqcore._native.queues.consume_queue cimport ConsumeQueue
from rmqcore._native.kernels cimport rmq_cq, rmq_cq_table


# Raises OSError for an error code below 0, with the path of the file that it is about.
cdef int raise_for(int64_t code, const char *path) except -1


cdef class QueueTable:
    cdef rmq_cq_table *table
    cdef readonly str root
    cdef readonly int64_t file_size
    cdef dict topic_numbers
    cdef list names  # of the topics by number
    cdef set emptied  # places whose files were deleted; they may have got new ones since
    cdef object scan  # the scan whose topic ids `topic_of` translates, as it numbers them now
    cdef int64_t numbering
    cdef int32_t *topic_of
    cdef int32_t topics_known, topics_room

    cdef int32_t topic_number(self, str topic) except -2
    cdef rmq_cq *added(self, str topic, int32_t queue_id) except NULL
    cdef int translate(self, object scan) except -1
    cdef ConsumeQueue _queue(self, str topic, rmq_cq *queue)
