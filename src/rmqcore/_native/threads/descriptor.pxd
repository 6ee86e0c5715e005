cdef class Descriptor:
    cdef int number  # -1 once it is closed

    cdef void close_now(self) noexcept
