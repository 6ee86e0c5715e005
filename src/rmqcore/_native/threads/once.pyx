"""Once: a callback that is called at most once, whoever comes first, and whatever interrupts."""

cimport cython


@cython.final
cdef class Once:
    """Calls a callback with the first call, and nothing with any other.

    Between the note that it is called and the call lies no line of Python: no exception of a signal handler comes between them.

    Parameters
    ----------
    callback : callable

    Attributes
    ----------
    called : bool

    Notes
    -----
    Thread safety: may be called at once by several threads.
    """

    cdef object callback

    def __cinit__(self, callback not None):
        if not callable(callback):
            raise TypeError(f"callback: expected a callable, got {type(callback).__name__}")
        self.callback = callback

    def __call__(self, *args):
        """Call the callback with these arguments, unless it was called before; what it raises goes through."""
        cdef object callback
        with cython.critical_section(self):
            callback = self.callback
            self.callback = None
        if callback is not None:
            callback(*args)

    @property
    def called(self):
        """True if it was called."""
        return self.callback is None
