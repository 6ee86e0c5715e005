"""ConsumeQueue entries: one at a time, and where the valid ones of many end. Columns of them are in cq_arrays.pyx."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t

from rmqcore._native.format.codec cimport position_or_none
from rmqcore._native.format.triples cimport rmq_new_triple, rmq_set_item
from rmqcore._native.kernels cimport *

from collections import namedtuple

CqEntry = namedtuple("CqEntry", "phy_offset msg_size tags_code", module="rmqcore.codec")
CqEntry.__doc__ = "One ConsumeQueue entry."
CqEntry.phy_offset.__doc__ = "CommitLog offset of the record, bytes."
CqEntry.msg_size.__doc__ = "Bytes of the record; 0x7FFFFFFF in a filler."
CqEntry.tags_code.__doc__ = "Hash of TAGS, or a deliver time, or an address in consumequeue_ext."
cdef object entry_type = CqEntry


def pack_cq(phy_offset, msg_size, tags_code):
    """Encode ConsumeQueue entries, 20 bytes each, big-endian; three ints make one entry, equal-length columns one entry per row.

    Parameters
    ----------
    phy_offset, tags_code : int or array of int64
    msg_size : int or array of int32

    Raises
    ------
    OverflowError
        A number does not fit its field.
    ValueError
        The columns have different lengths.
    TypeError
        A column holds something else than integers.

    Notes
    -----
    Thread safety: any thread. Source: RocketMQ 5.5.0 ConsumeQueue#putMessagePositionInfo.
    """
    cdef bytes out
    cdef rmq_cq_entry entry
    if isinstance(phy_offset, int) and isinstance(msg_size, int) and isinstance(tags_code, int):
        entry.phy_offset = phy_offset
        entry.msg_size = msg_size
        entry.tags_code = tags_code
        out = PyBytes_FromStringAndSize(NULL, RMQ_CQ_STORE_UNIT_SIZE)
        rmq_cq_store(<uint8_t *> PyBytes_AS_STRING(out), entry)
        return out
    from rmqcore._native.format.cq_arrays import pack_columns
    return pack_columns(phy_offset, msg_size, tags_code)


def unpack_cq(buf, pos=0):
    """Decode the ConsumeQueue entry at `pos` (bytes).

    Returns
    -------
    CqEntry

    Raises
    ------
    ValueError
        Fewer than 20 bytes are left at `pos`.
    TypeError
        `buf` is not a buffer, or `pos` is not an int.

    Notes
    -----
    Thread safety: any thread. Source: RocketMQ 5.5.0 ConsumeQueue#iterateFrom.
    """
    cdef Py_buffer exported
    if type(buf) is bytes:
        return entry_at(<const uint8_t *> PyBytes_AS_STRING(buf), PyBytes_GET_SIZE(buf), pos)
    PyObject_GetBuffer(buf, &exported, PyBUF_SIMPLE)
    try:
        return entry_at(<const uint8_t *> exported.buf, exported.len, pos)
    finally:
        PyBuffer_Release(&exported)


cdef object entry_at(const uint8_t *buf, Py_ssize_t length, object pos):
    cdef Py_ssize_t at = position_or_none(pos, length)
    cdef rmq_cq_entry entry
    if at < 0 or length - at < RMQ_CQ_STORE_UNIT_SIZE:
        raise ValueError(f"no whole entry at pos {pos} of a buffer of {length} bytes")
    entry = rmq_cq_load(buf + at)
    phy_offset, msg_size, tags_code = entry.phy_offset, entry.msg_size, entry.tags_code
    found = rmq_new_triple(entry_type)
    rmq_set_item(found, 0, phy_offset)
    rmq_set_item(found, 1, msg_size)
    rmq_set_item(found, 2, tags_code)
    return found


def valid_prefix(buf):
    """Number of entries before the first invalid one (offset below 0 or size not above 0)."""
    cdef Py_buffer view
    cdef size_t count
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        with nogil:
            count = rmq_cq_valid_prefix(<const uint8_t *> view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
    return count


def prefix_below(buf, phy_offset):
    """Number of entries before the first that is invalid or starts at or after `phy_offset`."""
    cdef Py_buffer view
    cdef size_t count
    cdef int64_t bound = phy_offset
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        with nogil:
            count = rmq_cq_prefix_below(<const uint8_t *> view.buf, view.len, bound)
    finally:
        PyBuffer_Release(&view)
    return count


def rising_prefix(buf, log_end, last_end):
    """Number of entries before the first that is no message of a log, or not behind the one before it; and where the last ends.

    Parameters
    ----------
    buf : buffer
    log_end : int
        CommitLog offset at which the log ends.
    last_end : int
        CommitLog offset at which the message before the first entry ends.
    """
    cdef Py_buffer view
    cdef size_t count
    cdef int64_t limit = log_end, end = last_end
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        with nogil:
            count = rmq_cq_rising_prefix(<const uint8_t *> view.buf, view.len, limit, &end)
    finally:
        PyBuffer_Release(&view)
    return count, end


def has_queue_entry(sys_flag):
    """Return True if a record has a queue entry by its SYSFLAG: an int, or a column (``int32``), for which it returns a mask.

    Records of no transaction and of a committed transaction have an entry; PREPARED and ROLLBACK records have not. No other bit
    makes a difference.

    Source: RocketMQ 5.5.0 DefaultMessageStore.CommitLogDispatcherBuildConsumeQueue#dispatch.
    """
    if isinstance(sys_flag, int):
        return rmq_has_queue_entry(sys_flag) != 0
    import numpy as np
    cdef const int32_t[:] flags = np.asarray(sys_flag)
    cdef Py_ssize_t row, rows = flags.shape[0]
    found = np.empty(rows, np.bool_)
    cdef uint8_t[::1] mask = found.view(np.uint8)
    with nogil:
        for row in range(rows):
            mask[row] = <uint8_t> rmq_has_queue_entry(flags[row])
    return found
