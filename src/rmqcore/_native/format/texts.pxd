from libc.stdint cimport uint8_t

from rmqcore._native.kernels cimport rmq_slice


cdef str text_of(const uint8_t *p, Py_ssize_t length)
cdef str frequent_text_of(const uint8_t *p, Py_ssize_t length)
cdef object text_or_none(const rmq_slice *value)
cdef tuple words_of(const rmq_slice *keys)
cdef dict properties_dict(const uint8_t *props, size_t length, size_t before)
