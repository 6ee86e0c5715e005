from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t

from rmqcore._native.format.lost_pages cimport raise_if_lost
from rmqcore._native.kernels cimport rmq_delay_levels, rmq_known_props, rmq_record


cdef class DelayLevels:
    cdef rmq_delay_levels levels
    cdef readonly tuple delays_ms


cdef class MessageView:
    # `owner` keeps rec.at readable: a bytes object, or a memoryview whose export forbids resizing and closing.
    cdef object owner
    cdef rmq_record rec
    cdef DelayLevels delay_levels

    cdef void find_known(self, rmq_known_props *known) noexcept


cdef Py_ssize_t position(object pos, Py_ssize_t length) except -1
cdef Py_ssize_t position_or_none(object pos, Py_ssize_t length) except -2
# `levels` None: Java's default ones.
cdef MessageView new_view(object owner, const rmq_record *rec, DelayLevels levels)
cdef MessageView decoded(object buf, object pos, DelayLevels levels)
cdef object corrupt_message(str path, long long phy_offset, int code, const rmq_record *rec)


# Bytes of a record, copied.
cdef inline bytes bytes_at(const rmq_record *rec, Py_ssize_t pos, Py_ssize_t length):
    return PyBytes_FromStringAndSize(<const char *> rec.at + pos, length)


# What was read of a view's record, unless its file has lost pages: then it may have been zeros.
cdef inline object unless_lost(MessageView view, object found):
    raise_if_lost(view.owner)
    return found
