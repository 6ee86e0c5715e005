"""ConsumeQueue entries as columns and arrays: this module loads NumPy, and is imported where an array is asked for."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t

from rmqcore._native.kernels cimport *

import numpy as np

from rmqcore.errors.arguments import wrong_type


CQ_DTYPE = np.dtype([("phy_offset", ">i8"), ("msg_size", ">i4"), ("tags_code", ">i8")])


def pack_columns(phy_offset, msg_size, tags_code):
    """Pack equal-length columns, one entry per row."""
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


cdef object column(str name, values, dtype):
    """A contiguous array of the field's width; a value without room in the field is an error, never cut."""
    given = np.asarray(values)
    if given.ndim == 0:
        raise wrong_type(name, "int or a column of ints", values)
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


def unpack_cq_entries(buf):
    """Entries of a buffer as a structured array over the buffer's own bytes (big-endian fields, no copy)."""
    array = np.frombuffer(buf, dtype=np.uint8)
    if array.size % RMQ_CQ_STORE_UNIT_SIZE:
        raise ValueError(f"{array.size} bytes are not a whole number of {RMQ_CQ_STORE_UNIT_SIZE}-byte entries")
    return array.view(CQ_DTYPE)
