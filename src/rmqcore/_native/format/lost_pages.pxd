from libc.stdint cimport int64_t, uint8_t


cdef extern from "format/lost_pages.h" nogil:
    ctypedef struct rmq_watched:
        pass


# Of all mappings of this process. The one module lost_pages has it: each extension links kernels of its own.
cdef const int64_t *all_lost

# Watch a mapping; `forget` comes before it is unmapped.
cdef rmq_watched *watch(uint8_t *base, size_t size, bint writable) except NULL
cdef void forget(rmq_watched *watched) noexcept
cdef int64_t lost_of(const rmq_watched *watched) noexcept
cdef int ask(object owner) except -1


# Raise LostPagesError when `owner`, a mapped file or a memoryview of one, has lost pages: called behind every access.
cdef inline int raise_if_lost(object owner) except -1:
    if all_lost[0] != 0:
        return ask(owner)
    return 0
