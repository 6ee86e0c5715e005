"""Bytes of another log, as they are, at the end of this one: how the log of a slave grows."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t

from rmqcore._native.kernels cimport *
from rmqcore._native.put.appender cimport TAKEN, Appender


def append_raw(Appender appender not None, data, Py_ssize_t begin, Py_ssize_t end, int64_t phy_offset,
               int64_t store_timestamp_ms):
    """Append ``data[begin:end]`` at the end of the log, which must be `phy_offset`; answer whether that is so, and there is room.

    Parameters
    ----------
    appender : Appender
    data : buffer
        Whole records that were checked, or all that is left of a file, a BLANK first.
    begin, end : int
    phy_offset : int
    store_timestamp_ms : int
        Of the last record.

    Raises
    ------
    StoreError
        The store has failed, or is closed.

    Notes
    -----
    Thread safety: any thread, at any time.
    """
    cdef Py_buffer exported
    cdef int code
    PyObject_GetBuffer(data, &exported, PyBUF_SIMPLE)
    try:
        if not 0 <= begin <= end <= exported.len or end - begin < RMQ_BLANK_MIN_SIZE:
            raise ValueError(f"bytes {begin} to {end} of {exported.len}")
        while True:
            if appender.puts != TAKEN:
                appender.refusal()  # raises, unless puts are paused because the disk has no room
                return False
            appender.lock()
            code = rmq_log_append_raw(
                appender.log, <const uint8_t *> exported.buf + begin, end - begin, phy_offset, store_timestamp_ms
            )
            rmq_log_unlock(appender.log)
            if code == RMQ_A_STOPPED:
                appender.refuse()
            if code == RMQ_A_DONE or code == RMQ_A_ELSEWHERE or not appender.make_room(end - begin):
                break
    finally:
        PyBuffer_Release(&exported)
    appender.appended()
    return code == RMQ_A_DONE
