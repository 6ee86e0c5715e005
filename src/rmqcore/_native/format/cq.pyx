"""ConsumeQueue entries in bulk: packing, unpacking, and where the valid ones end."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t

import numpy as np

cdef extern from "format/cq.h" nogil:
    enum:
        RMQ_CQ_STORE_UNIT_SIZE
    ctypedef struct rmq_cq_entry:
        int64_t phy_offset
        int32_t msg_size
        int64_t tags_code
    int rmq_has_queue_entry(int32_t sys_flag) noexcept
    void rmq_cq_store(uint8_t *p, rmq_cq_entry e) noexcept

cdef extern from "format/cq_bulk.h" nogil:
    ctypedef struct rmq_cq_columns:
        const int64_t *phy_offset
        const int32_t *msg_size
        const int64_t *tags_code
    size_t rmq_cq_valid_prefix(const uint8_t *buf, size_t len) noexcept
    size_t rmq_cq_prefix_below(const uint8_t *buf, size_t len, int64_t phy_offset) noexcept
    size_t rmq_cq_rising_prefix(const uint8_t *buf, size_t len, int64_t log_end, int64_t *last_end) noexcept
    int64_t rmq_cq_pack(const rmq_cq_columns *columns, size_t count, uint8_t *out, size_t room) noexcept


CQ_DTYPE = np.dtype([("phy_offset", ">i8"), ("msg_size", ">i4"), ("tags_code", ">i8")])


def pack_cq(phy_offset, msg_size, tags_code):
    """Pack entries; three ints give one entry, equal-length columns an entry a row."""
    if isinstance(phy_offset, int) and isinstance(msg_size, int) and isinstance(tags_code, int):
        return pack_one(phy_offset, msg_size, tags_code)
    phy_offset = column("phy_offset", phy_offset, np.int64)
    msg_size = column("msg_size", msg_size, np.int32)
    tags_code = column("tags_code", tags_code, np.int64)
    if not len(phy_offset) == len(msg_size) == len(tags_code):
        raise ValueError(
            f"columns of different lengths: phy_offset {len(phy_offset)}, msg_size {len(msg_size)}, "
            f"tags_code {len(tags_code)}"
        )
    cdef const int64_t[::1] offsets = phy_offset
    cdef const int32_t[::1] sizes = msg_size
    cdef const int64_t[::1] codes = tags_code
    cdef rmq_cq_columns columns
    cdef Py_ssize_t count = len(phy_offset)
    cdef bytes out = PyBytes_FromStringAndSize(NULL, count * RMQ_CQ_STORE_UNIT_SIZE)
    if count == 0:
        return out
    columns.phy_offset = &offsets[0]
    columns.msg_size = &sizes[0]
    columns.tags_code = &codes[0]
    rmq_cq_pack(&columns, count, <uint8_t *> PyBytes_AS_STRING(out), count * RMQ_CQ_STORE_UNIT_SIZE)
    return out


cdef bytes pack_one(phy_offset, msg_size, tags_code):
    cdef bytes out = PyBytes_FromStringAndSize(NULL, RMQ_CQ_STORE_UNIT_SIZE)
    cdef rmq_cq_entry entry
    entry.phy_offset = phy_offset
    entry.msg_size = msg_size
    entry.tags_code = tags_code
    rmq_cq_store(<uint8_t *> PyBytes_AS_STRING(out), entry)
    return out


cdef object column(str name, values, dtype):
    """A contiguous array of the field's width; a value without room in the field is an error, never cut."""
    given = np.asarray(values)
    if given.ndim != 1:
        raise ValueError(f"{name}: expected one dimension, got {given.ndim}")
    if given.size == 0:
        return np.empty(0, dtype)
    if given.dtype.kind == "O" and all(isinstance(value, int) for value in given):
        # NumPy has no integer that wide.
        raise OverflowError(f"{name}: a value has no room in {np.iinfo(dtype).bits} bits")
    if given.dtype.kind not in "iu":
        raise TypeError(f"{name}: expected integers, got {given.dtype}")
    limits = np.iinfo(dtype)
    if given.min() < limits.min or given.max() > limits.max:
        raise OverflowError(f"{name}: a value has no room in {limits.bits} bits")
    return np.ascontiguousarray(given, dtype=dtype)


def unpack_cq(buf):
    """Entries of a buffer as a structured array over the buffer's own bytes (big-endian fields, no copy)."""
    array = np.frombuffer(buf, dtype=np.uint8)
    if array.size % RMQ_CQ_STORE_UNIT_SIZE:
        raise ValueError(f"{array.size} bytes are no whole number of {RMQ_CQ_STORE_UNIT_SIZE}-byte entries")
    return array.view(CQ_DTYPE)


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
    """Whether a record has an entry in its queue, by its SYSFLAG: an int, or a column of them (``int32``), which gives a mask.

    Records of no transaction and of a committed transaction have an entry; PREPARED and ROLLBACK records have not. No other bit
    makes a difference.

    Source: RocketMQ 5.5.0 DefaultMessageStore.CommitLogDispatcherBuildConsumeQueue#dispatch.
    """
    if isinstance(sys_flag, int):
        return rmq_has_queue_entry(sys_flag) != 0
    cdef const int32_t[:] flags = np.asarray(sys_flag)
    cdef Py_ssize_t row, rows = flags.shape[0]
    found = np.empty(rows, np.bool_)
    cdef uint8_t[::1] mask = found.view(np.uint8)
    with nogil:
        for row in range(rows):
            mask[row] = <uint8_t> rmq_has_queue_entry(flags[row])
    return found
