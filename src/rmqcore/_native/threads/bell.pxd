from rmqcore._native.kernels cimport rmq_ring


cdef class Bell:
    cdef object lock  # taken while the bell has not rung
    cdef rmq_ring heard  # the same for a thread that works or naps without the GIL
