from libc.stdint cimport int64_t, uint8_t

from rmqcore._native.kernels cimport rmq_crc32_states, rmq_prover
from rmqcore._native.threads.descriptor cimport Descriptor

cdef enum:
    PAGE_BYTES = 4096
    PAGE_COUNT = 256


cdef struct small_pages:
    # Page n of the file lies in slot n % PAGE_COUNT, if numbers[] of that slot says so.
    uint8_t *bytes
    int64_t numbers[PAGE_COUNT]
    int64_t read  # pages so far
    int fd  # -1 when the owner's read_into is asked for each page
    int64_t end  # of the bytes that may be read from fd
    void *owner  # the Prover, which holds this


cdef class Prover:
    cdef rmq_prover prover
    cdef rmq_crc32_states states
    cdef size_t state_room, extent_room
    cdef object read_into
    cdef object error
    cdef Descriptor descriptor
    cdef bytearray memory
    cdef list pages
    cdef small_pages small
    cdef bint busy  # C looks at the window and the states, and may be calling read_into
    cdef readonly bint has_states

    cdef int look(self, Py_buffer *exported, Py_ssize_t length, Py_ssize_t pos, int64_t phy_offset,
                  int64_t end_offset) except -1
    cdef int make_room(self, Py_ssize_t length, int64_t pos) except -1
    cdef int need_idle(self) except -1
    cdef int need_states(self) except -1
    cdef int raise_error(self) except -1
    cpdef forget(self)
    cdef int read_page(self, int64_t number) except -1
