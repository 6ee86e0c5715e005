"""Records from fields: what `rmqcore.codec.encode` gives."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from rmqcore._native.kernels cimport *

choose_crc32()


cdef int host_bytes(bytes packed, uint8_t *out) except -1:
    """Copies a packed host and answers whether it is IPv6."""
    if len(packed) not in (RMQ_HOST_V4_SIZE, RMQ_HOST_V6_SIZE):
        raise ValueError(f"a packed host has {len(packed)} bytes")
    memcpy(out, PyBytes_AS_STRING(packed), len(packed))
    return len(packed) == RMQ_HOST_V6_SIZE


def encode_fields(bytes topic not None, body, bytes properties not None, *, bytes born_host, bytes store_host, queue_id,
                  flag, sys_flag, reconsume_times, queue_offset, phy_offset, born_timestamp_ms, store_timestamp_ms,
                  prepared_transaction_offset, append_prop_crc):
    """One record from fields already turned to bytes; `rmqcore.codec.encode` is the public form."""
    cdef Py_buffer exported
    cdef rmq_message msg
    cdef int64_t size
    cdef bytes out
    msg.topic = <const uint8_t *> PyBytes_AS_STRING(topic)
    msg.topic_len = len(topic)
    msg.props = <const uint8_t *> PyBytes_AS_STRING(properties)
    msg.props_len = len(properties)
    msg.queue_id = queue_id
    msg.flag = flag
    msg.sys_flag = sys_flag
    msg.reconsume_times = reconsume_times
    msg.queue_offset = queue_offset
    msg.phy_offset = phy_offset
    msg.born_timestamp = born_timestamp_ms
    msg.store_timestamp = store_timestamp_ms
    msg.prepared_transaction_offset = prepared_transaction_offset
    msg.born_host_v6 = host_bytes(born_host, msg.born_host)
    msg.store_host_v6 = host_bytes(store_host, msg.store_host)
    msg.append_prop_crc = bool(append_prop_crc)
    PyObject_GetBuffer(body, &exported, PyBUF_SIMPLE)
    try:
        msg.body = <const uint8_t *> exported.buf
        msg.body_len = exported.len
        size = rmq_record_encoded_size(&msg)
        if size < 0:
            limits = {RMQ_E_TOPICLENGTH: "topic", RMQ_E_PROPERTIESLENGTH: "properties", RMQ_E_BODYLENGTH: "body"}
            lengths = {"topic": len(topic), "properties": len(properties), "body": exported.len}
            name = limits[size]
            most = 2**31 - 1 if name == "body" else 32767
            raise ValueError(f"{name} of {lengths[name]} bytes has no room in the record, at most {most} bytes go there")
        out = PyBytes_FromStringAndSize(NULL, size)
        rmq_record_encode(&msg, <uint8_t *> PyBytes_AS_STRING(out), size)
        return out
    finally:
        PyBuffer_Release(&exported)
