from libc.stdint cimport int32_t, int64_t

from rmqcore._native.kernels cimport rmq_record, rmq_window


cdef class Place:
    cdef readonly Py_ssize_t pos
    cdef readonly int32_t code
    cdef readonly int64_t size, found, expected


cdef class Gaps:
    cdef int64_t *bounds
    cdef Py_ssize_t count

    cdef int make_room(self, Py_ssize_t count) except -1


cdef Place new_place(Py_ssize_t pos, int32_t code, const rmq_record *rec)
cdef int fill_window(rmq_window *window, Py_buffer *buffer, Py_ssize_t length, Py_ssize_t pos, int64_t phy_offset,
                     int64_t end_offset, bint check_place, bint check_crc, int64_t trusted) except -1
