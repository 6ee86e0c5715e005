"""The six longs of the checkpoint file (StoreCheckpoint)."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t

cdef extern from "format/checkpoint.h" nogil:
    enum:
        RMQ_CKP_USED_SIZE, RMQ_CKP_FILE_SIZE
    ctypedef struct rmq_checkpoint:
        int64_t physic_msg_timestamp, logics_msg_timestamp, index_msg_timestamp
        int64_t master_flushed_offset, confirm_phy_offset, logics_physical_offset
    int rmq_checkpoint_decode(const uint8_t *buf, size_t len, rmq_checkpoint *out) noexcept
    int rmq_checkpoint_encode(const rmq_checkpoint *checkpoint, uint8_t *out, size_t room) noexcept


def decode_checkpoint(buf):
    """The six longs of a checkpoint file; ValueError below 48 bytes."""
    cdef Py_buffer view
    cdef rmq_checkpoint c
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        if rmq_checkpoint_decode(<const uint8_t *> view.buf, view.len, &c):
            raise ValueError(f"a checkpoint has {RMQ_CKP_USED_SIZE} bytes at least, got {view.len}")
    finally:
        PyBuffer_Release(&view)
    return (
        c.physic_msg_timestamp, c.logics_msg_timestamp, c.index_msg_timestamp,
        c.master_flushed_offset, c.confirm_phy_offset, c.logics_physical_offset,
    )


def encode_checkpoint(longs):
    """The 4096 bytes of a checkpoint file: six longs, then zeros."""
    cdef rmq_checkpoint c
    cdef bytearray out = bytearray(RMQ_CKP_FILE_SIZE)
    cdef char *room = out
    c.physic_msg_timestamp = longs[0]
    c.logics_msg_timestamp = longs[1]
    c.index_msg_timestamp = longs[2]
    c.master_flushed_offset = longs[3]
    c.confirm_phy_offset = longs[4]
    c.logics_physical_offset = longs[5]
    rmq_checkpoint_encode(&c, <uint8_t *> room, RMQ_CKP_FILE_SIZE)
    return bytes(out)
