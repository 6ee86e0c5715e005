from libc.stdint cimport int64_t

from rmqcore._native.kernels cimport rmq_skip
from rmqcore._native.scan.proof cimport Prover


cdef class Skips:
    cdef rmq_skip skip
    cdef readonly Prover prover

    cdef void drop_heads(self) noexcept
    cdef int begin(self, Py_buffer *exported, Py_ssize_t length, Py_ssize_t pos, int64_t phy_offset,
                   int64_t end_offset) except -1
    cdef int end(self) except -1
