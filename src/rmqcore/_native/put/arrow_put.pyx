"""put_arrow: rows of Arrow columns into the append."""

from libc.stdint cimport int8_t, int64_t

from rmqcore._native.put.appender cimport TAKEN, Appender
from rmqcore._native.put.arrow_rows cimport ArrowRows, describe_refusal, refused_column, refused_reason, rows_of
from rmqcore._native.kernels cimport (
    RMQ_A_STOPPED, RMQ_PUT_BATCH_TOPIC, RMQ_PUT_CREATE_MAPPED_FILE_FAILED, RMQ_PUT_OK, RMQ_PUT_SERVICE_NOT_AVAILABLE,
    rmq_log, rmq_put,
)
from rmqcore._native.put.put_result cimport put_reason, unstored_rows

import numpy as np


cdef tuple put_rows(Appender appender, ArrowRows rows, list parts):
    """Append all batches, or as many as the store takes; return the number of the first row that makes no message, and why.

    The last two values are the row's column and what is wrong there, if it is one column.
    """
    cdef rmq_put *puts = rows.puts
    cdef rmq_log *log = appender.log
    cdef int64_t at, n, i
    cdef size_t settled
    cdef int code = 0
    cdef int64_t refused_at = -1
    cdef str refusal = None, column = None, reason = None
    cdef int8_t[::1] code_of
    cdef int64_t[::1] phy_offset_of, queue_offset_of, timestamp_of
    while rows.next_batch():
        codes, phy_offsets, queue_offsets, timestamps = unstored_rows(rows.batch.rows, RMQ_PUT_CREATE_MAPPED_FILE_FAILED)
        parts.append((codes, phy_offsets, queue_offsets, timestamps))
        code_of = codes
        phy_offset_of = phy_offsets
        queue_offset_of = queue_offsets
        timestamp_of = timestamps
        at = n = 0
        settled = 0
        while at < rows.batch.rows and <int64_t> settled == n:
            n = rows.fill(log, at, "; the rows before it are stored")
            settled = 0
            code = appender.append(puts, n, False, False, &settled)
            if code == RMQ_A_STOPPED and rows.before + at == 0 and settled == 0:
                appender.refuse()  # no message is stored, so this is the only error
            for i in range(<int64_t> settled):
                code_of[at + i] = <int8_t> puts[i].status
                if puts[i].status == RMQ_PUT_OK:
                    phy_offset_of[at + i] = puts[i].msg.phy_offset
                    queue_offset_of[at + i] = puts[i].msg.queue_offset
                    timestamp_of[at + i] = puts[i].msg.store_timestamp
                elif puts[i].status == RMQ_PUT_BATCH_TOPIC and refused_at < 0:
                    refused_at = rows.before + at + i
                    refusal = f"row {refused_at}: {put_reason(log, &puts[i])}"
            i = rows.scratch.state.refusal.row - at
            if rows.scratch.state.refusal.code != 0 and refused_at < 0 and 0 <= i < n:
                limit = f"the store does not take: {put_reason(log, &puts[i])}"
                refused_at = rows.before + rows.scratch.state.refusal.row
                column = refused_column(&rows.scratch.state.refusal)
                reason = refused_reason(&rows.scratch.state.refusal, limit)
                refusal = describe_refusal(refused_at, column, reason)
            at += settled
        if at < rows.batch.rows:
            if code == RMQ_A_STOPPED:
                codes[at:] = RMQ_PUT_SERVICE_NOT_AVAILABLE
            break
    return refused_at, refusal, column, reason


def put_arrow(Appender appender not None, data):
    """Append the rows of anything with ``__arrow_c_stream__`` or ``__arrow_c_array__``, in order.

    Returns
    -------
    tuple
        Arrays of int8 status codes, int64 phy offsets and queue offsets (-1: not stored), and int64 store timestamps, as of
        `Appender.put_many`; the number of the first row that makes no message, -1 when all rows do, and what is wrong with it;
        the column of that row that is invalid, and the reason, None for a row that breaks a limit as a whole. When the store
        can take no more, batches of the stream that were not asked for have no rows here.

    Raises
    ------
    TypeError
        `data` is not Arrow data, or a column has a wrong type.
    ValueError
        An unknown, missing or repeated column; a producer that breaks the rules of the interface.
    OSError
        The stream says that it failed. Rows of the batches before are stored.
    """
    cdef ArrowRows rows
    cdef list parts = []
    if appender.puts != TAKEN:
        appender.refusal().raise_for_status()
    rows = rows_of("put_arrow", data, appender.append_prop_crc)
    refused = put_rows(appender, rows, parts)
    rows.end()
    if len(parts) == 1:
        return *parts[0], *refused
    empty = unstored_rows(0, 0)
    return *[np.concatenate(column) for column in zip(empty, *parts)], *refused
