"""Bytes to messages and back: the part that works alone.

The import loads only the compiled kernels; the first array imports NumPy. Every function takes any contiguous buffer:
``bytes``, ``bytearray``, ``memoryview``, ``mmap``, a NumPy array. Damaged bytes raise
`rmqcore.errors.CorruptMessageError`, which names the position, the field, what it should hold and what it holds. All
functions are safe to call from several threads. docs/codec.md has an example of each, and what it costs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rmqcore._native.format.codec import MessageView
from rmqcore._native.format.cq import CqEntry, pack_cq, unpack_cq
from rmqcore._native.format.decode import body_crc, check, decode, decode_all
from rmqcore._native.format.ids import (
    MsgId,
    index_key_hash,
    java_hash,
    msg_id,
    pack_host,
    parse_msg_id,
    unpack_host,
)
from rmqcore._native.format.layout import REC_MIN_SIZE_V1 as _REC_MIN_SIZE
from rmqcore._native.format.message_batch import BatchMessage, decode_batch
from rmqcore._native.format.properties import Properties, decode_properties, properties
from rmqcore._native.put.encode import (
    encode,
    encode_batch,
    encode_into,
    encode_many,
    encode_properties,
)
from rmqcore._native.put.message import Message as _Message
from rmqcore._native.scan import scan as _scan
from rmqcore.codec.scan_result import ScanBatches, ScanResult, end_of_scan
from rmqcore.errors import CorruptMessageError
from rmqcore.vocabulary import sysflag as _sysflag

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Buffer

__all__ = [
    "BatchMessage",
    "CqEntry",
    "MessageView",
    "MsgId",
    "Properties",
    "ScanBatches",
    "ScanResult",
    "body_crc",
    "check",
    "decode",
    "decode_all",
    "decode_batch",
    "decode_properties",
    "encode",
    "encode_batch",
    "encode_into",
    "encode_many",
    "encode_properties",
    "index_key_hash",
    "java_hash",
    "msg_id",
    "pack_cq",
    "pack_host",
    "parse_msg_id",
    "properties",
    "scan",
    "scan_batches",
    "unpack_cq",
    "unpack_cq_entries",
    "unpack_host",
    "unwrap",
]

_WRAPPED = _sysflag.NEED_UNWRAP | _sysflag.INNER_BATCH
_OF_THE_BATCH = _WRAPPED | _sysflag.COMPRESSED | _sysflag.COMPRESSION_TYPE_MASK


def __dir__() -> list[str]:
    return __all__


def scan(
    buf: Buffer,
    *,
    base_offset: int = 0,
    columns: Iterable[str] | None = None,
    verify_crc: bool = False,
) -> ScanResult:
    """Decode consecutive records from the start of `buf` into columns.

    Parameters
    ----------
    buf : buffer
        Less than 2 GiB of records, for example a whole CommitLog file.
    base_offset : int
        CommitLog offset of ``buf[0]``, for the offset that `ScanResult.error` names. The column ``phy_offset`` is the
        record's own PHYSICALOFFSET, and is not compared with it: records from anywhere can be scanned.
    columns : iterable of str, optional
        MessageView names in the order wanted, also ``raw``; all but ``raw`` when None.
    verify_crc : bool
        Stop with an error at a body that fails its CRC.

    Raises
    ------
    ValueError
        An unknown column, a negative `base_offset`.

    Notes
    -----
    A scan stops at the first bytes that are not a record and reports the wrong field. `rmqcore.read`, which knows the
    offset of each record, continues behind damage.

    All columns need half as much memory again as the records. `scan_batches` needs a few mebibytes, and less time.
    """
    view = memoryview(buf).cast("B")
    # The smallest record has 91 bytes, so a batch of this many rows takes all records.
    rows = max(1, min(len(view) // _REC_MIN_SIZE + 1, 1 << 24))
    sink = _scan.ColumnScan(columns, batch_rows=rows, batch_bytes=1 << 30)
    stop = sink.feed(
        view,
        len(view),
        0,
        base_offset,
        base_offset + len(view),
        check_place=False,
        check_crc=verify_crc,
    )
    if stop.code == _scan.FULL and stop.pos < len(view):
        raise ValueError(
            f"buf of {len(view)} bytes holds more records than fit one batch; use scan_batches"
        )
    return ScanResult(sink.take(), stop.pos, *end_of_scan(stop, len(view), base_offset))


def scan_batches(
    buf: Buffer,
    *,
    base_offset: int = 0,
    columns: Iterable[str] | None = None,
    verify_crc: bool = False,
    batch_rows: int = 8192,
    batch_bytes: int = 2 << 20,
) -> ScanBatches:
    """Decode the same records as `scan`, a batch at a time: in the memory of a few batches, whatever the length of `buf`.

    Parameters
    ----------
    buf : buffer
        A buffer of any length. It is held until the last batch was returned or `ScanBatches.close`.
    base_offset, columns, verify_crc
        As for `scan`.
    batch_rows, batch_bytes : int
        A batch ends with the record that reaches either limit. Two mebibytes stay in a core's cache from the scan to
        the consumer.

    Raises
    ------
    ValueError
        An unknown column, a negative `base_offset`, a limit below 1.

    Examples
    --------
    >>> sum(batch.num_rows for batch in scan_batches(b""))
    0
    """
    view = memoryview(buf).cast("B")
    if base_offset < 0:
        raise ValueError(f"base_offset {base_offset} is negative")
    sink = _scan.ColumnScan(columns, batch_rows=batch_rows, batch_bytes=batch_bytes)
    return ScanBatches(view, sink, base_offset, verify_crc=verify_crc)


def unpack_cq_entries(buf: Buffer) -> NDArray[np.void]:
    """Look at ConsumeQueue entries as a NumPy array of (phy_offset, msg_size, tags_code), big-endian, without a copy.

    Raises
    ------
    ValueError
        The length is not a multiple of 20.
    """
    from rmqcore._native.format.cq_arrays import unpack_cq_entries as array_of

    return array_of(buf)


def unwrap(view: MessageView) -> list[MessageView]:
    """Return the messages of a batch that was stored as one record; any other message alone, as it is.

    Each message is a record of its own, at the place of the batch: topic, queue, times, hosts and PHYSICALOFFSET are
    those of the batch; flag, body and properties are its own, and the queue offsets count up from that of the batch.

    Raises
    ------
    CorruptMessageError
        The body is not a list of messages, or a message of it does not fit into a record.
    CompressionError
        The body of the batch cannot be decompressed.

    Notes
    -----
    Thread safety: any thread. Source: RocketMQ 5.5.0 MessageDecoder#decodeMessage(MessageExt, List).

    Examples
    --------
    >>> wrapped = Message("t", encode_batch([Message("t", b"one"), Message("t", b"two")]), sys_flag=0xC0)
    >>> batch = decode(encode(wrapped, phy_offset=0, queue_offset=7, store_timestamp_ms=1))
    >>> [(message.queue_offset, message.body) for message in unwrap(batch)]
    [(7, b'one'), (8, b'two')]
    """
    if view.sys_flag & _WRAPPED != _WRAPPED:
        return [view]
    parts = decode_batch(view.decompress(), check_size=False)
    return [_inner(view, number, part) for number, part in enumerate(parts)]


def _inner(batch: MessageView, number: int, part: BatchMessage) -> MessageView:
    """Return a message of a stored batch as a record of its own."""
    try:
        message = _Message(
            batch.topic,
            part.body,
            batch.queue_id,
            properties=part.properties,
            flag=part.flag,
            sys_flag=batch.sys_flag & ~_OF_THE_BATCH,
            born_timestamp_ms=batch.born_timestamp_ms,
            born_host=batch.born_host,
            store_host=batch.store_host,
            reconsume_times=batch.reconsume_times,
            prepared_transaction_offset=batch.prepared_transaction_offset,
        )
        record = encode(
            message,
            phy_offset=batch.phy_offset,
            queue_offset=batch.queue_offset + number,
            store_timestamp_ms=batch.store_timestamp_ms,
        )
    except (ValueError, OverflowError) as error:  # damage: a text that is not UTF-8 grew
        raise CorruptMessageError(
            "<batch>", 0, f"message {number}", "one that fits into a record", str(error)
        ) from error
    return decode(record)
