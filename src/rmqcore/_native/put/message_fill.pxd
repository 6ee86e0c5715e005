from libc.stdint cimport int32_t, int64_t, uint8_t

from rmqcore._native.kernels cimport RMQ_PUT_MESSAGE_ILLEGAL, RMQ_PUT_WAITING, rmq_log, rmq_put, rmq_put_check
from rmqcore._native.put.message cimport Message

cdef enum:
    PROPS_ROOM = 32768  # more bytes than the properties of a record may have

    # What write_properties noticed.
    HAS_DELAY = 2
    HAS_INNER_NUM = 4


# Encodes properties as far as there is room, and answers the bytes that all of them have.
cdef Py_ssize_t write_properties(dict properties, bint drop_crc, uint8_t *out, Py_ssize_t room, int *seen) except -1

# A number that has room in 32 bits.
cdef int32_t narrow(int64_t value, str name) except? -1

# Fills in all but the body, with properties encoded to props, and answers the bytes used there. put.msg.topic points into
# m.topic: the caller holds that str for as long as the put is used.
# `topic` is the message's, held by the caller as long as `put` is used: it points into its text.
cdef Py_ssize_t fill(
    Message m, topic, rmq_put *put, bint drop_crc, uint8_t *props, Py_ssize_t room, int *seen
) except -1


# Checks a filled put, body included, against the limits of the log and sets its msg_size and status.
cdef inline void check(const rmq_log *log, rmq_put *put, int seen) noexcept:
    rmq_put_check(log, put)
    if put.status == RMQ_PUT_WAITING and seen & HAS_INNER_NUM:
        put.status = RMQ_PUT_MESSAGE_ILLEGAL
