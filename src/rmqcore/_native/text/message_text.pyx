"""A message as a line of text: a JSON object, or a row of CSV. `rmqcore.offline.export.message_rows` says what is in it."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport uint8_t

from rmqcore._native.kernels cimport *
from rmqcore._native.format.codec cimport MessageView
from rmqcore._native.format.lost_pages cimport raise_if_lost

import json

cdef enum:
    FEW = 2048  # bytes of a line that take no memory of their own
    MUCH = 4096  # bytes of a body that let other threads run meanwhile


def json_line(MessageView view not None, str body):
    """A JSON object with a line end, in UTF-8; `body` None is null."""
    return line(view, body, RMQ_ROW_JSON)


def csv_line(MessageView view not None, str body, bint csv_safe):
    """A row of CSV with a line end, in UTF-8; with `csv_safe` an apostrophe comes before what begins as a formula."""
    return line(view, body, RMQ_ROW_CSV_SAFE if csv_safe else RMQ_ROW_CSV)


cdef bytes line(MessageView view, str body, rmq_row_kind kind):
    cdef uint8_t few[FEW]
    cdef rmq_out out
    cdef rmq_row_text text
    cdef rmq_row_text properties
    cdef bytes listed
    cdef int code
    text.p = properties.p = NULL
    text.len = properties.len = 0
    if body is not None:
        try:
            set_text(&text, body)
        except UnicodeEncodeError:  # surrogates
            body = body.encode("utf-8", "replace").decode()
            set_text(&text, body)
    rmq_out_begin(&out, few, FEW)
    try:
        code = write(view, kind, text, properties, &out)
        if code == RMQ_ROW_NAMES:
            listed = json.dumps(view.properties, ensure_ascii=False).encode()
            properties.p = <const uint8_t *> PyBytes_AS_STRING(listed)
            properties.len = PyBytes_GET_SIZE(listed)
            out.len = 0
            code = write(view, kind, text, properties, &out)
        if code != RMQ_ROW_DONE:
            raise MemoryError
        raise_if_lost(view.owner)
        return PyBytes_FromStringAndSize(<const char *> out.at, out.len)
    finally:
        rmq_out_end(&out)


cdef int set_text(rmq_row_text *out, str text) except -1:
    cdef Py_ssize_t length
    out.p = <const uint8_t *> PyUnicode_AsUTF8AndSize(text, &length)
    out.len = length
    return 0


cdef int write(MessageView view, rmq_row_kind kind, rmq_row_text body, rmq_row_text properties, rmq_out *out) noexcept:
    cdef const rmq_record *rec = &view.rec
    cdef const rmq_delay_levels *levels = &view.delay_levels.levels
    cdef int code
    if body.len < MUCH:
        return rmq_row_write(rec, levels, kind, body, properties, out)
    with nogil:
        code = rmq_row_write(rec, levels, kind, body, properties, out)
    return code
