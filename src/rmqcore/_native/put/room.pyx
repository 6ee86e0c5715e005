"""Room for an Appender: pages of its files, made ahead of the log."""

from libc.stdint cimport INT64_MAX, int64_t

cimport cython

from rmqcore._native.kernels cimport rmq_fill_file, rmq_fill_up_to, rmq_log_room_end, rmq_log_unlock
from rmqcore._native.put.appender cimport Appender
from rmqcore._native.files.mapped_file cimport MappedFile, raise_for


def room_end(Appender appender not None, MappedFile file not None):
    """The log offset up to which the appender may store to a file; None when the log has left it, or never comes to it."""
    cdef int64_t end
    appender.lock()
    end = rmq_log_room_end(appender.log, file.file_from_offset)
    rmq_log_unlock(appender.log)
    return None if end == INT64_MAX else end


def fill(Appender appender not None, MappedFile file not None, int64_t end_offset, *, bint urgent):
    """Give the appender room in a file up to a log offset, in pieces of 256 KiB; each counts as soon as it is there.

    What lies in the file behind the room so far becomes zeros. Where the file is neither the current nor the next one, or the
    appender is stopped, nothing is done.

    Parameters
    ----------
    appender : Appender
    file : MappedFile
        Has blocks up to `end_offset`.
    urgent : bool
        A put waits for it: it comes before a call that is not urgent.

    Raises
    ------
    LostPagesError
        The file is shorter than it was.
    OSError
        The zeros cannot be written.

    Notes
    -----
    Thread safety: any thread, at any time.
    """
    cdef rmq_fill_file where
    cdef int code
    if not file.file_from_offset <= end_offset <= file.file_from_offset + file.file_size:
        raise ValueError(f"{file!r}: room up to {end_offset}")
    if appender.forbidden:
        appender.refuse()
    if file.sealed:
        return
    file.check_writable(0, 0)
    file.raise_if_lost()  # or zeros behind the place of a cut would hide it
    with cython.critical_section(file):  # a sealed file's descriptor may be another file's soon
        where.fd = file.fd
        file.allocating += 1
    where.base = file.base
    where.file_from_offset = file.file_from_offset
    with nogil:
        code = rmq_fill_up_to(&appender.filling, appender.log, &where, end_offset, urgent)
    with cython.critical_section(file):
        file.allocating -= 1
        file.close_unused()
    raise_for(code, file.path, f"make room up to byte {end_offset - file.file_from_offset}")
