from libc.stdint cimport uint8_t

from rmqcore._native.format.lost_pages cimport rmq_watched


# OSError for a negated errno that a call on a file answered.
cdef int raise_for(int code, str path, str what) except -1


cdef class MappedFile:
    cdef uint8_t *base  # NULL until mapped; then valid as long as this object lives
    cdef rmq_watched *watched  # NULL until mapped
    cdef int fd  # -1 unless writable and mapped
    cdef readonly Py_ssize_t file_size
    cdef readonly long long file_from_offset
    cdef readonly str path
    cdef readonly bint writable
    cdef bint sealed  # full and on disk
    cdef int allocating  # calls that use the descriptor without the GIL: `seal` leaves it to the last of them
    cdef int sync_failure  # minus errno of the first sync that failed, or 0

    cdef int map(self) except -1
    cdef int check(self, Py_ssize_t begin, Py_ssize_t end) except -1
    cdef int check_writable(self, Py_ssize_t begin, Py_ssize_t end) except -1
    cdef void close_unused(self) noexcept
    # Where in [begin, end) the first byte is that a disk has to be waited for; `end`: there is no such byte, or nobody knows.
    cdef Py_ssize_t first_cold(self, Py_ssize_t begin, Py_ssize_t end) noexcept
    # Waits for the bytes, without the GIL. The file is mapped.
    cdef int read_in(self, Py_ssize_t begin, Py_ssize_t end) except -1


cdef class MappedFiles:
    cdef readonly Py_ssize_t file_size
    cdef tuple items  # of MappedFile, ascending; replaced as a whole, so that a reader sees the old or the new tuple

    # The mapped file that holds the byte at offset, or None.
    cdef MappedFile find(self, long long offset)
