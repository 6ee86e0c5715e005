"""`rmqcore.codec.encode_many` of Arrow columns."""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memset

from rmqcore._native.kernels cimport *
from rmqcore._native.put.arrow_rows cimport (
    ArrowRows, describe_refusal, refused_column, refused_reason, rmq_import_fault, rows_of,
)
from rmqcore._native.put.encode cimport Places, no_room, place_next
from rmqcore._native.put.growing cimport (
    rmq_growing, rmq_growing_begin, rmq_growing_drop, rmq_growing_end, rmq_growing_room,
)

choose_crc32()

cdef enum:
    FIRST_ROOM = 65536


def encode_arrow(data, int64_t phy_offset, int64_t queue_offset, int64_t store_timestamp_ms, bint append_prop_crc):
    """The records of all rows; the arguments are those of `encode_many`."""
    cdef ArrowRows rows = rows_of("encode_many", data, append_prop_crc)
    cdef rmq_queue_offsets *queues = rmq_queue_offsets_new()
    cdef rmq_growing out
    cdef Places places
    places.phy_offset = phy_offset
    places.queue_offset = queue_offset
    places.store_timestamp_ms = store_timestamp_ms
    if queues == NULL:
        raise MemoryError
    try:
        rmq_growing_begin(&out, FIRST_ROOM)
        try:
            write_rows(rows, &places, queues, &out)
            found = rmq_growing_end(&out)
        finally:
            rmq_growing_drop(&out)
    finally:
        rmq_queue_offsets_free(queues)
    rows.end()
    return found


cdef int write_rows(ArrowRows rows, Places *places, rmq_queue_offsets *queues, rmq_growing *out) except -1:
    cdef rmq_put *puts = rows.puts
    cdef rmq_put *put
    cdef rmq_queue_recent recent
    cdef int64_t at, n, i, total
    cdef uint8_t *to
    while rows.next_batch():
        at = 0
        while at < rows.batch.rows:
            n = rows.fill(NULL, at, "")
            memset(&recent, 0, sizeof(recent))  # it points into rows, which may have gone
            total = 0
            i = 0
            try:
                while i < n:
                    put = &puts[i]
                    if put.status != RMQ_PUT_WAITING:
                        raise refused_row(rows, put, at + i)
                    place_next(put, places, queues, &recent, out.used + total)
                    total += put.msg_size
                    i += 1
            except OverflowError as error:
                raise OverflowError(f"row {rows.before + at + i}: {error}") from None
            to = rmq_growing_room(out, total)
            with nogil:
                for i in range(n):
                    rmq_record_write(&puts[i].msg, puts[i].msg_size, to)
                    to += puts[i].msg_size
            out.used += total
            at += n
    return 0


cdef object refused_row(ArrowRows rows, const rmq_put *put, int64_t row):
    cdef int64_t code = rmq_record_encoded_size(&put.msg)
    limit = str(no_room(&put.msg, code)) if code < 0 else None
    cdef const rmq_import_fault *fault = &rows.scratch.state.refusal
    reason = refused_reason(fault, f"makes no record: {limit}")
    return ValueError(describe_refusal(rows.before + row, refused_column(fault), reason))
