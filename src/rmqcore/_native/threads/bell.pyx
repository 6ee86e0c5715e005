"""Bells: what wakes a thread that sleeps. A ring is one native call, so no interrupt makes it half a ring.

``threading.Event`` and ``threading.Condition`` take their locks in Python code: a signal handler that raises there leaves the
lock taken, and the thread that sleeps would never wake up again.
"""

cimport cython

from rmqcore._native.kernels cimport rmq_ring_clear, rmq_ring_ring, rmq_ring_rung

from _thread import TIMEOUT_MAX as _LONGEST
from _thread import allocate_lock


@cython.final
cdef class Bell:
    """Wakes one thread. A ring while nobody sleeps is kept, once, for the next `wait`.

    Attributes
    ----------
    rung : bool
        Whether it has rung since it was last cleared or waited for.

    Notes
    -----
    Thread safety: all methods may be called at once, also by a signal handler; one thread waits. A native call of that thread
    that runs without the GIL looks at the ring itself, and need not come back for it.
    """

    def __cinit__(self):
        self.lock = allocate_lock()
        self.lock.acquire()

    def ring(self):
        """Wake the thread that waits, or the next one that will."""
        rmq_ring_ring(&self.heard)
        try:
            self.lock.release()
        except RuntimeError:
            pass  # it has rung already

    def wait(self, timeout=None):
        """Sleep until the bell rings, and take the ring away; False after `timeout` seconds without a ring."""
        cdef bint rang
        if timeout is None:
            rang = self.lock.acquire()
        else:
            rang = self.lock.acquire(True, min(max(timeout, 0), _LONGEST))
        if rang:
            rmq_ring_clear(&self.heard)
        return rang

    def clear(self):
        """Take a ring away that nobody waited for."""
        rmq_ring_clear(&self.heard)
        self.lock.acquire(False)

    @property
    def rung(self):
        return rmq_ring_rung(&self.heard) != 0


@cython.final
cdef class Bells:
    """Several bells that ring together, once for each `add`. A bell that raises keeps no other from ringing.

    Notes
    -----
    Thread safety: all methods may be called at once, also by a signal handler.
    """

    cdef list waiting

    def __cinit__(self):
        self.waiting = []

    def add(self, ring):
        """Call ``ring()`` once, with the next `ring`."""
        if not callable(ring):
            raise TypeError(f"expected a callable, got {type(ring).__name__}")
        if ring not in self.waiting:
            self.waiting.append(ring)

    def ring(self):
        """Ring all bells that were added since the last ring."""
        waiting, self.waiting = self.waiting, []
        ring_each(waiting)


cdef int ring_each(list waiting) except -1:
    if waiting:
        try:
            waiting.pop(0)()
        finally:
            ring_each(waiting)
    return 0
