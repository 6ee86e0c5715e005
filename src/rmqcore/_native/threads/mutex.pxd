cdef extern from "pythread.h" nogil:
    unsigned long PyThread_get_thread_ident() noexcept


cdef class Calls:
    cdef dict depths  # of each thread that is inside, by its id
    cdef dict work_later

    cdef int enter(self, unsigned long me) except -1
    cdef int leave(self, unsigned long me) except -1


cdef class Mutex:
    cdef object lock
    cdef unsigned long owner  # id of the thread that has it, or 0
    cdef Calls calls
    cdef bint again
    cdef int born  # value of `forks` in the process that it belongs to
    cdef int depth  # calls of the owner, one on top of the other

    cdef int take(self, object what) except -1
    cdef int give_back(self) except -1
