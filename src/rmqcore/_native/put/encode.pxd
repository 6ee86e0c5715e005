from libc.stdint cimport int64_t

from rmqcore._native.kernels cimport rmq_message, rmq_put, rmq_queue_offsets, rmq_queue_recent


cdef struct Places:
    # Of the first of many records.
    int64_t phy_offset, queue_offset, store_timestamp_ms


# The error for a message that makes no record: a length has no room in its field, which rmq_record_encoded_size names.
cdef object no_room(const rmq_message *msg, int64_t code)

# Sets the place and the time of the next of many records, before which `used` bytes are written, and counts it in its queue.
cdef int place_next(
    rmq_put *put, Places *places, rmq_queue_offsets *queues, rmq_queue_recent *recent, int64_t used
) except -1


cdef inline void place(rmq_put *put, int64_t phy_offset, int64_t queue_offset, int64_t store_timestamp_ms) noexcept:
    put.msg.phy_offset = phy_offset
    put.msg.queue_offset = queue_offset
    put.msg.store_timestamp = store_timestamp_ms
    if put.born_now:
        put.msg.born_timestamp = store_timestamp_ms
