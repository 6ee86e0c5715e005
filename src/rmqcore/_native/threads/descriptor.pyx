"""Descriptor: an open file whose number no interrupt can lose, and whose close is one step."""

cimport cython
from libc.errno cimport errno
from posix.stat cimport fstat, struct_stat
from posix.unistd cimport close as posix_close

import os as _os


@cython.final
cdef class Descriptor:
    """A file that is open until `close`, or until nobody holds this object any more.

    Between the answer of ``os.open`` and the variable that keeps it, or between ``os.close`` and the note of it, the exception
    of a signal handler leaves a number that nobody closes, with its locks, or one that is closed twice.

    Parameters
    ----------
    path : path-like
    flags : int
        Of ``os.open``; O_CLOEXEC is added.
    folder : Descriptor, optional
        A directory that is open: a relative `path` begins there.
    mode : int
        Of a file that is made, less the process's umask.

    Raises
    ------
    OSError
        It cannot be opened.
    """

    def __cinit__(self, path, int flags, Descriptor folder=None, int mode=0o644):
        self.number = -1
        flags |= getattr(_os, "O_CLOEXEC", 0)
        if folder is None:
            self.number = _os.open(path, flags, mode)
        else:
            self.number = _os.open(path, flags, mode, dir_fd=folder.number)

    def __dealloc__(self):
        self.close_now()

    def fileno(self):
        """The number; -1 when it is closed."""
        return self.number

    @property
    def mode(self):
        """Kind and permissions of what is open (``st_mode``).

        Raises
        ------
        OSError
            It is closed.
        """
        cdef struct_stat status
        if fstat(self.number, &status) < 0:
            raise OSError(errno, _os.strerror(errno))
        return status.st_mode

    def close(self):
        """Close it; may be repeated."""
        self.close_now()

    cdef void close_now(self) noexcept:
        cdef int number = self.number
        self.number = -1
        if number >= 0:
            posix_close(number)
