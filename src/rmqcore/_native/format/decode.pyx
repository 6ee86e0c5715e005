"""Reading records: the functions of `rmqcore.codec` that check and decode them."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromObject
from libc.stdint cimport int32_t, uint8_t, uint32_t

from rmqcore._native.format.codec cimport corrupt_message, decoded, new_view, position
from rmqcore._native.kernels cimport *

choose_crc32()


def decode(buf, pos=0):
    """Return a lazy view of the record at `pos`, without copying it.

    Magic and all lengths are checked, the body CRC is not: `check` or `MessageView.crc_ok` do that.

    Parameters
    ----------
    buf : buffer
        Must stay unchanged while the view is used, or the view's values change with it.
    pos : int
        Bytes before the record in `buf`.

    Raises
    ------
    CorruptMessageError
        No whole, well-formed record starts at `pos`; a BLANK record and zeros do not count as records here.
    ValueError
        `pos` lies outside `buf`.
    TypeError
        `buf` is not a buffer, or `pos` is not an int.

    Notes
    -----
    Thread safety: any thread. Source: RocketMQ 5.5.0 MessageDecoder#decode.
    """
    return decoded(buf, pos, None)


cdef list views_from(object owner, const uint8_t *buf, Py_ssize_t length, object pos, bint check_crc, bint copy):
    cdef Py_ssize_t at = position(pos, length)
    cdef rmq_record rec
    cdef int32_t code = 0
    cdef list found = []
    cdef bytes own = None
    while at < length:
        code = rmq_record_parse(buf + at, length - at, &rec)
        if code > 0 and copy:
            # What counts is what the copy holds: the bytes that it was made from may change.
            own = PyBytes_FromStringAndSize(<const char *> buf + at, code)
            code = rmq_record_parse(<const uint8_t *> PyBytes_AS_STRING(own), code, &rec)
        if code > 0 and check_crc:
            code = min(rmq_record_check_body_crc(&rec), 0) or code
        if code <= 0:
            break
        found.append(new_view(own if copy else owner, &rec, None))
        at += code
    if at == length or code == RMQ_R_BLANK or code == RMQ_E_ZERO:
        return found
    raise corrupt_message("<buffer>", at, code, &rec)


def decode_all(buf, pos=0, *, bint check_crc=False, bint copy=False):
    """Return views of the records that lie one after the other from `pos` on.

    The list ends with `buf`, or before a BLANK record or eight zeros, as a CommitLog file ends: a piece of a file, or the body of
    a broker's answer to a pull.

    Parameters
    ----------
    buf : buffer
    pos : int
        Bytes before the first record in `buf`.
    check_crc : bool
        Also compare the CRC of each body.
    copy : bool
        Let each view own the bytes of its record. Otherwise all views hold `buf`: it must stay unchanged while they are used, and
        one of them that is kept keeps all of it.

    Returns
    -------
    list of MessageView

    Raises
    ------
    CorruptMessageError
        Bytes that are not a whole, well-formed record. Its ``phy_offset`` is their position in `buf`:
        ``decode_all(buf[:error.phy_offset])`` returns the views before it.
    ValueError
        `pos` lies outside `buf`.
    TypeError
        `buf` is not a buffer, or `pos` is not an int.

    Notes
    -----
    Thread safety: any thread. Source: RocketMQ 5.5.0 MessageDecoder#decodesBatch.
    """
    cdef Py_buffer exported
    if type(buf) is bytes:
        return views_from(buf, <const uint8_t *> PyBytes_AS_STRING(buf), PyBytes_GET_SIZE(buf), pos, check_crc, copy)
    owner = PyMemoryView_FromObject(buf)
    PyObject_GetBuffer(owner, &exported, PyBUF_SIMPLE)
    try:
        return views_from(owner, <const uint8_t *> exported.buf, exported.len, pos, check_crc, copy)
    finally:
        PyBuffer_Release(&exported)


def check(buf, pos=0, *, bint check_crc=True, bint check_prop_crc=False):
    """Validate the record at `pos` without copying it, and return its size in bytes; 0 at a BLANK record.

    Parameters
    ----------
    buf : buffer
    pos : int
        Bytes before the record in `buf`.
    check_crc : bool
        Also compare the body's CRC.
    check_prop_crc : bool
        Also require and compare the appended ``__CRC32#`` over the whole record (forceVerifyPropCRC).

    Raises
    ------
    CorruptMessageError
        Bad magic, lengths that disagree or leave the buffer, a CRC mismatch.
    ValueError
        `pos` lies outside `buf`.
    TypeError
        `buf` is not a buffer, or `pos` is not an int.

    Notes
    -----
    Thread safety: any thread. Source: RocketMQ 5.5.0 CommitLog#checkMessageAndReturnSize.
    """
    cdef Py_buffer exported
    cdef Py_ssize_t start
    cdef rmq_record rec
    cdef int32_t size, code
    PyObject_GetBuffer(buf, &exported, PyBUF_SIMPLE)
    try:
        start = position(pos, exported.len)
        size = rmq_record_parse(<const uint8_t *> exported.buf + start, exported.len - start, &rec)
        code = min(size, 0)
        if size > 0 and check_crc:
            code = rmq_record_check_body_crc(&rec)
        if size > 0 and code == 0 and check_prop_crc:
            code = rmq_record_check_prop_crc(&rec)
        if code < 0:
            raise corrupt_message("<buffer>", start, code, &rec)
        return size
    finally:
        PyBuffer_Release(&exported)


def body_crc(buf):
    """Compute a body's CRC as records store it: CRC-32 & 0x7FFFFFFF, 0 for an empty body.

    Raises
    ------
    TypeError
        `buf` is not a buffer.

    Notes
    -----
    Thread safety: any thread; the GIL is released above 4 KiB. Source: RocketMQ 5.5.0 UtilAll#crc32.
    """
    cdef Py_buffer exported
    cdef uint32_t value
    PyObject_GetBuffer(buf, &exported, PyBUF_SIMPLE)
    try:
        if exported.len > 4096:
            with nogil:
                value = rmq_crc32(<const uint8_t *> exported.buf, exported.len)
        else:
            value = rmq_crc32(<const uint8_t *> exported.buf, exported.len)
    finally:
        PyBuffer_Release(&exported)
    return value & RMQ_CRC_MASK
