"""Mutex: a lock that is held for one call. Calls: which threads are inside such calls of one store.

A signal handler runs between any two bytecodes of the main thread and may raise there. A ``with lock:`` block of Python has
bytecodes between its last line and the release; here both are one native call.
"""

cimport cython

import os
from _thread import allocate_lock

from rmqcore.errors import StoreClosedError

cdef extern from "Python.h":
    void PyErr_WriteUnraisable(object where)

cdef int forks = 0  # between the first process that imported this module and this one


def _count_fork():
    global forks
    forks += 1


os.register_at_fork(after_in_child=_count_fork)


@cython.final
cdef class Calls:
    """Threads that hold a Mutex of one store, and work that waits until such a thread holds none.

    Notes
    -----
    Thread safety: all methods may be called at once, also by a signal handler.
    """

    def __cinit__(self):
        self.depths = {}
        self.work_later = {}

    @property
    def inside(self):
        """Return True if this thread holds a Mutex: this code is then a signal handler, destructor or callback inside a call."""
        return PyThread_get_thread_ident() in self.depths

    def when_left(self, work):
        """Have this thread call `work()` when it lets go of its last Mutex, also when an exception passes there.

        An Exception of `work` is shown on standard error and goes no further.
        """
        self.work_later[PyThread_get_thread_ident()] = work

    cdef int enter(self, unsigned long me) except -1:
        self.depths[me] = self.depths.get(me, 0) + 1
        return 0

    cdef int leave(self, unsigned long me) except -1:
        depth = self.depths.get(me, 1) - 1
        if depth:
            self.depths[me] = depth
            return 0
        self.depths.pop(me, None)
        work = self.work_later.pop(me, None)
        if work is not None:
            try:
                work()
            except Exception:
                PyErr_WriteUnraisable(work)
        return 0


@cython.final
cdef class Mutex:
    """A lock that is held for one call, and let go of in any case.

    Parameters
    ----------
    calls : Calls, optional
        Told which thread is inside.
    again : bool
        A thread that is inside may come in once more, from a signal handler. Without this that is a RuntimeError, as it is for a
        file of Python: such a thread would wait for itself for ever.

    Notes
    -----
    Thread safety: all methods may be called at once.

    A forked child has only the thread that forked. A lock that was held at the fork is never let go of there, and what it guards
    is half-way: who wants it gets a StoreClosedError at once.
    """

    def __cinit__(self, Calls calls=None, *, bint again=False):
        self.born = forks
        self.lock = allocate_lock()
        self.calls = calls
        self.again = again

    @property
    def held_here(self):
        """Return True if this thread holds it."""
        return self.owner == PyThread_get_thread_ident()

    def run(self, function, *args):
        """Call ``function(*args)`` with the lock held and give its answer.

        A wait for the lock ends with the exception of a signal handler; then the lock is not taken.
        """
        self.take(function)
        try:
            return function(*args)
        finally:
            self.give_back()

    def __enter__(self):
        """Take the lock for a block, whose end an interrupt can cut off: only where the object with the lock is then dropped."""
        self.take(self)

    def __exit__(self, *_):
        self.give_back()

    cdef int take(self, object what) except -1:
        cdef unsigned long me = PyThread_get_thread_ident()
        if self.born != forks:
            # Not by its owner: a new thread may have the id of one that is not here.
            if not self.lock.acquire(False):
                name = getattr(what, "__qualname__", what)
                raise StoreClosedError(f"{name}: a thread of the process of which this is a fork has the lock")
            self.born = forks  # it was free at the fork: from now on it is this process's own
        elif self.owner == me:
            if not self.again:
                name = getattr(what, "__qualname__", what)
                raise RuntimeError(f"{name}: reentrant call, on top of a call of the same thread that is not over")
            self.depth += 1
            return 0
        else:
            self.lock.acquire()
        self.owner = me
        self.depth = 1
        if self.calls is not None:
            self.calls.enter(me)
        return 0

    cdef int give_back(self) except -1:
        self.depth -= 1
        if self.depth == 0:
            self.owner = 0
            self.lock.release()
            if self.calls is not None:
                self.calls.leave(PyThread_get_thread_ident())
        return 0


def run_with(tuple locks not None, function, *args):
    """Call ``function(*args)`` with several locks and give its answer.

    The locks are taken in the order of the tuple, each as by `Mutex.run`, and let go of in the reverse order.
    """
    cdef Mutex lock
    if not locks:
        return function(*args)
    lock = locks[0]
    lock.take(function)
    try:
        return run_with(locks[1:], function, *args)
    finally:
        lock.give_back()
