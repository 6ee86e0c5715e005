cimport cython
from libc.stdint cimport int32_t, int64_t


@cython.final
cdef class TagFilter:
    cdef readonly object codes
    cdef int32_t *hashes
    cdef Py_ssize_t count


# Whether the low 32 bits of a tags code are the hash of one of the tags.
cdef inline bint holds_code(TagFilter tags, int64_t tags_code) noexcept:
    cdef int32_t code = <int32_t> tags_code
    cdef Py_ssize_t i
    for i in range(tags.count):
        if tags.hashes[i] == code:
            return True
    return False
