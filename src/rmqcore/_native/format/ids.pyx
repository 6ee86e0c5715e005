"""Hosts, message ids and Java's hashes of texts, one call each."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from rmqcore._native.kernels cimport *

from collections import namedtuple

from rmqcore.errors.arguments import wrong_type

MsgId = namedtuple("MsgId", "store_host phy_offset", module="rmqcore.codec")
MsgId.__doc__ = "What an offset message id says: the broker that stored the message, and where."
MsgId.store_host.__doc__ = '``"ip:port"`` or ``"[v6]:port"``.'
MsgId.phy_offset.__doc__ = "CommitLog offset of the record, bytes."

cdef object new_tuple = tuple.__new__


cdef size_t parse_host(str text, uint8_t *out) except 0:
    cdef Py_ssize_t length
    if text is None:
        raise wrong_type("host", "str", text)
    cdef const char *utf8 = PyUnicode_AsUTF8AndSize(text, &length)
    cdef size_t size = rmq_host_parse(utf8, length, out)
    if size == 0:
        raise ValueError(f"host {text!r}: expected 'ip:port' or '[v6]:port'")
    return size


cdef str checked(str name, value):
    if not isinstance(value, str):
        raise wrong_type(name, "str", value)
    return str.__str__(value)


cdef str host_text(const uint8_t *packed, bint v6):
    cdef char out[RMQ_HOST_TEXT_ROOM]
    cdef size_t n = rmq_host_text(packed, v6, out)
    return out[:n].decode("ascii")


def pack_host(text):
    """Return the address bytes and the 4-byte port (big-endian) of ``"ip:port"`` or ``"[v6]:port"``: 8 or 20 bytes.

    Raises
    ------
    ValueError
        `text` has neither form.
    TypeError
        `text` is not a str.

    Notes
    -----
    Thread safety: any thread. Source: RocketMQ 5.5.0 MessageExt#socketAddress2ByteBuffer.
    """
    cdef uint8_t packed[HOST_V6_SIZE]
    cdef size_t size = parse_host(checked("text", text), packed)
    return PyBytes_FromStringAndSize(<const char *> packed, size)


def unpack_host(packed):
    """Return ``"ip:port"`` or ``"[v6]:port"`` of address bytes and a 4-byte port, as a record holds them.

    Raises
    ------
    ValueError
        `packed` has neither 8 nor 20 bytes.
    TypeError
        `packed` is not a buffer.

    Notes
    -----
    Thread safety: any thread. Source: RocketMQ 5.5.0 MessageDecoder#decode.
    """
    cdef Py_buffer exported
    PyObject_GetBuffer(packed, &exported, PyBUF_SIMPLE)
    try:
        if exported.len != RMQ_HOST_V4_SIZE and exported.len != RMQ_HOST_V6_SIZE:
            raise ValueError(f"packed: expected 8 bytes (IPv4) or 20 (IPv6), got {exported.len}")
        return host_text(<const uint8_t *> exported.buf, exported.len == RMQ_HOST_V6_SIZE)
    finally:
        PyBuffer_Release(&exported)


def msg_id(store_host, phy_offset):
    """Return the offset message id of a record: its store host and CommitLog offset, 32 upper-case hex digits, or 56 with IPv6.

    Parameters
    ----------
    store_host : str
        ``"ip:port"`` or ``"[v6]:port"``.
    phy_offset : int
        CommitLog offset of the record, bytes.

    Raises
    ------
    ValueError
        `store_host` has neither form.
    OverflowError
        `phy_offset` does not fit a Java long.
    TypeError
        An argument of another type; it is named.

    Notes
    -----
    Thread safety: any thread. Source: RocketMQ 5.5.0 MessageDecoder#createMessageId.
    """
    cdef uint8_t host[HOST_V6_SIZE]
    cdef char out[RMQ_MSG_ID_V6_LEN]
    cdef size_t size = parse_host(checked("store_host", store_host), host)
    if type(phy_offset) is not int and not hasattr(phy_offset, "__index__"):
        raise wrong_type("phy_offset", "int", phy_offset)
    size = rmq_msg_id_text(host, size == RMQ_HOST_V6_SIZE, phy_offset, out)
    return out[:size].decode("ascii")


def parse_msg_id(msg_id):
    """Return what an offset message id says; spaces around it are ignored, and lower-case digits are read.

    Returns
    -------
    MsgId
        ``store_host`` and ``phy_offset``.

    Raises
    ------
    ValueError
        `msg_id` is not 32 or 56 hex digits.
    TypeError
        `msg_id` is not a str.

    Notes
    -----
    Thread safety: any thread. Source: RocketMQ 5.5.0 MessageDecoder#decodeMessageId.
    """
    cdef uint8_t host[HOST_V6_SIZE]
    cdef int v6 = 0
    cdef int64_t phy_offset = 0
    cdef Py_ssize_t length
    cdef str digits = checked("msg_id", msg_id).strip()
    if digits.isascii():
        if rmq_msg_id_parse(PyUnicode_AsUTF8AndSize(digits, &length), len(digits), host, &v6, &phy_offset):
            return new_tuple(MsgId, (host_text(host, v6), phy_offset))
    raise ValueError(f"message id {msg_id!r}: expected 32 or 56 hex digits")


def java_hash(text):
    """Compute Java's ``String.hashCode``, a signed 32-bit number over UTF-16 units.

    The tags code of an ordinary message is ``java_hash(tags)``.

    Raises
    ------
    TypeError
        `text` is not a str.

    Notes
    -----
    Thread safety: any thread. Source: java.lang.String#hashCode.
    """
    cdef uint32_t value = 0
    cdef uint32_t cp
    for ch in checked("text", text):
        cp = <uint32_t> ch
        if cp >= 0x10000:
            value = value * 31 + (0xD7C0 + (cp >> 10))
            cp = 0xDC00 + (cp & 0x3FF)
        value = value * 31 + cp
    return <int32_t> value


def index_key_hash(topic, key):
    """Return the hash under which an index file holds a key of a topic, 0 to 2147483647.

    Parameters
    ----------
    topic : str
    key : str
        A word of KEYS, the UNIQ_KEY, or ``"T#"`` and a tag. Half of a surrogate pair, which no stored text has, counts as ``?``.

    Raises
    ------
    TypeError
        An argument of another type; it is named.

    Notes
    -----
    Thread safety: any thread. Source: RocketMQ 5.5.0 IndexService#buildKey, IndexFile#indexKeyHashMethod.
    """
    cdef Py_ssize_t topic_size, key_size
    cdef str topic_text = checked("topic", topic), key_text = checked("key", key)
    cdef const char *topic_utf8
    cdef const char *key_utf8
    try:
        topic_utf8 = PyUnicode_AsUTF8AndSize(topic_text, &topic_size)
        key_utf8 = PyUnicode_AsUTF8AndSize(key_text, &key_size)
    except UnicodeEncodeError:
        return index_key_hash(
            topic_text.encode("utf-8", "replace").decode(), key_text.encode("utf-8", "replace").decode()
        )
    return rmq_index_hash(<const uint8_t *> topic_utf8, topic_size, <const uint8_t *> key_utf8, key_size)
