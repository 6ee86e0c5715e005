"""The body of a producer's batch: its messages. What writes one is beside the messages, in put/encode.pyx."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t

from rmqcore._native.format.texts cimport properties_dict
from rmqcore._native.format.triples cimport rmq_new_triple, rmq_set_item
from rmqcore._native.kernels cimport *

from collections import namedtuple

from rmqcore.errors import CorruptMessageError

BatchMessage = namedtuple("BatchMessage", "flag body properties", module="rmqcore.codec")
BatchMessage.__doc__ = "One message of a batch."
BatchMessage.flag.__doc__ = "FLAG: the user's own number."
BatchMessage.body.__doc__ = "The body, bytes."
BatchMessage.properties.__doc__ = "The properties, a dict of str to str in stored order."
cdef object message_type = BatchMessage


cdef object fault_of(int64_t code, int64_t at, const rmq_batch_fault *fault):
    if code == RMQ_B_E_SHORT:
        field = "TOTALSIZE"
        expected = f"the {RMQ_BATCH_MIN_SIZE} bytes of a message at least"
        found = f"cut off after {fault.found} bytes"
    elif code == RMQ_B_E_TOTALSIZE:
        field, expected, found = "TOTALSIZE", f"{RMQ_BATCH_MIN_SIZE} to {fault.expected}", fault.found
    elif code == RMQ_B_E_LENGTHS:
        field, expected, found = "TOTALSIZE", fault.expected, fault.found
    else:
        field = "BODYLENGTH" if code == RMQ_B_E_BODYLENGTH else "PROPERTIESLENGTH"
        expected, found = f"0 to {fault.expected}", fault.found
    return CorruptMessageError("<batch>", at + fault.pos, field, expected, found)


def decode_batch(body, *, bint check_size=True):
    """Return the messages of a batch, in order: of the body of a producer's batch, or the plain body of a stored one.

    Parameters
    ----------
    body : buffer
    check_size : bool
        Also compare TOTALSIZE of each message with its other lengths. Java's readers skip that field.

    Returns
    -------
    list of BatchMessage
        They own their bytes.

    Raises
    ------
    CorruptMessageError
        A length is negative or goes past the end, or the lengths disagree; ``phy_offset`` is the field's position in `body`.
    TypeError
        `body` is not a buffer.

    Notes
    -----
    Thread safety: any thread. Source: RocketMQ 5.5.0 MessageDecoder#decodeMessages, MessageExtEncoder#encode(MessageExtBatch).
    """
    cdef Py_buffer exported
    cdef rmq_batch_message message
    cdef rmq_batch_fault fault
    cdef int64_t at = 0, size
    cdef const uint8_t *buf
    cdef list found = []
    PyObject_GetBuffer(body, &exported, PyBUF_SIMPLE)
    try:
        buf = <const uint8_t *> exported.buf
        while at < exported.len:
            size = rmq_message_batch_next(buf + at, exported.len - at, check_size, &message, &fault)
            if size < 0:
                raise fault_of(size, at, &fault)
            own = PyBytes_FromStringAndSize(<const char *> message.body, message.body_len)
            properties = properties_dict(message.props, message.props_len, RMQ_BATCH_MIN_SIZE)
            flag = message.flag
            one = rmq_new_triple(message_type)
            rmq_set_item(one, 0, flag)
            rmq_set_item(one, 1, own)
            rmq_set_item(one, 2, properties)
            found.append(one)
            at += size
        return found
    finally:
        PyBuffer_Release(&exported)
