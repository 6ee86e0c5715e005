"""Bytes to messages and back: the part that works alone.

Importing it loads NumPy and the compiled kernels, nothing else. Every function takes any contiguous buffer: ``bytes``,
``bytearray``, ``memoryview``, ``mmap``, a NumPy array. Damaged bytes raise `rmqcore.errors.CorruptMessageError`, which names
the position, the field, what it should hold and what it holds. All functions are safe to call from several threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from rmqcore._native.format import codec as _codec
from rmqcore._native.format import cq as _cq
from rmqcore._native.format.codec import MessageView
from rmqcore._native.format.encode import encode_fields
from rmqcore._native.format.layout import CQ_STORE_UNIT_SIZE, REC_MIN_SIZE_V1
from rmqcore._native.scan import scan as _scan
from rmqcore.errors.arguments import check_ints, wrong_type
from rmqcore.message import Message, pack_host
from rmqcore.scan_result import ScanBatches, ScanResult, end_of_scan

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Buffer

__all__ = [
    "CqEntry",
    "MessageView",
    "ScanBatches",
    "ScanResult",
    "body_crc",
    "check",
    "decode",
    "decode_properties",
    "encode",
    "encode_properties",
    "java_hash",
    "pack_cq",
    "scan",
    "scan_batches",
    "unpack_cq",
    "unpack_cq_entries",
]


def encode(
    message: Message,
    *,
    phy_offset: int,
    queue_offset: int,
    store_timestamp_ms: int,
    append_prop_crc: bool = False,
) -> bytes:
    """Encode one CommitLog record, big-endian.

    V2 (2-byte topic length) is chosen when the topic has more than 127 UTF-8 bytes. Java counts UTF-16 units and then writes
    a V1 length that nobody can read back (docs/compat.md).

    Parameters
    ----------
    message : Message
    phy_offset : int
        CommitLog bytes before the record.
    queue_offset : int
        Index in the message's (topic, queue_id).
    store_timestamp_ms : int
        Milliseconds since the epoch.
    append_prop_crc : bool
        Append the ``__CRC32#`` property over the whole record (enabledAppendPropCRC).

    Raises
    ------
    ValueError
        A property name or value contains a separator (0x01, 0x02), a text is no valid Unicode, or the topic, properties or body
        are too long for their length fields.
    OverflowError
        A number does not fit its field.
    TypeError
        An argument of another type; it is named.

    Notes
    -----
    Source: RocketMQ 5.5.0 MessageExtEncoder#encode, CommitLog.DefaultAppendMessageCallback#doAppend.
    """
    if not isinstance(message, Message):
        raise wrong_type("message", "a Message", message)
    check_ints(
        phy_offset=phy_offset, queue_offset=queue_offset, store_timestamp_ms=store_timestamp_ms
    )
    born_timestamp_ms = message.born_timestamp_ms
    properties = message.properties
    if append_prop_crc and "__CRC32#" in properties:
        properties = {name: value for name, value in properties.items() if name != "__CRC32#"}
    return encode_fields(
        message.topic.encode(),
        message.body,
        encode_properties(properties),
        born_host=pack_host(message.born_host),
        store_host=pack_host(message.store_host),
        queue_id=message.queue_id,
        flag=message.flag,
        sys_flag=message.sys_flag,
        reconsume_times=message.reconsume_times,
        queue_offset=queue_offset,
        phy_offset=phy_offset,
        born_timestamp_ms=store_timestamp_ms if born_timestamp_ms is None else born_timestamp_ms,
        store_timestamp_ms=store_timestamp_ms,
        prepared_transaction_offset=message.prepared_transaction_offset,
        append_prop_crc=append_prop_crc,
    )


def decode(buf: Buffer, pos: int = 0) -> MessageView:
    """Give a lazy view of the record at `pos`, without copying it.

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

    Notes
    -----
    Source: RocketMQ 5.5.0 MessageDecoder#decode.
    """
    return _codec.decode(buf, pos)


def check(
    buf: Buffer, pos: int = 0, *, check_crc: bool = True, check_prop_crc: bool = False
) -> int:
    """Validate the record at `pos` without copying it, and answer its size in bytes; 0 at a BLANK record.

    Parameters
    ----------
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

    Notes
    -----
    Source: RocketMQ 5.5.0 CommitLog#checkMessageAndReturnSize.
    """
    return _codec.check(buf, pos, check_crc=check_crc, check_prop_crc=check_prop_crc)


def body_crc(buf: Buffer) -> int:
    """Compute a body's CRC as records store it: CRC-32 & 0x7FFFFFFF, 0 for an empty body.

    Source: RocketMQ 5.5.0 UtilAll#crc32.
    """
    return _codec.body_crc(buf)


def java_hash(text: str) -> int:
    """Compute Java's ``String.hashCode``, a signed 32-bit number over UTF-16 units.

    The tags code of an ordinary message is ``java_hash(tags)``.
    """
    return _codec.java_hash(text)


def encode_properties(properties: Mapping[str, str | None]) -> bytes:
    """Encode properties in their order: name 0x01 value 0x02 each; a value None is left out.

    An empty value is written, and vanishes when read, as in Java.

    Raises
    ------
    ValueError
        A name contains 0x01 or 0x02 or a value 0x02, and would read back as something else; or a text is no valid Unicode.

    Notes
    -----
    Source: RocketMQ 5.5.0 MessageDecoder#messageProperties2String.
    """
    parts = []
    for name, value in properties.items():
        if value is None:
            continue
        if "\x01" in name or "\x02" in name or "\x02" in value:
            raise ValueError(f"property {name!r}={value!r} holds a separator (0x01 or 0x02)")
        parts.append(f"{name}\x01{value}\x02")
    return "".join(parts).encode()


def decode_properties(buf: Buffer) -> dict[str, str]:
    """Decode a properties string; of a repeated name the last value counts, empty names and values vanish.

    Malformed UTF-8 becomes U+FFFD, as in Java.

    Source: RocketMQ 5.5.0 MessageDecoder#string2messageProperties.
    """
    return _codec.decode_properties(buf)


def scan(
    buf: Buffer,
    *,
    base_offset: int = 0,
    columns: Iterable[str] | None = None,
    verify_crc: bool = False,
) -> ScanResult:
    """Decode the records that lie one after the other from the start of `buf`, into columns.

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
    A scan stops at the first bytes that are no record and says what is wrong with them. `rmqcore.read`, which knows where each
    record has to lie, goes on behind damage.

    All columns take half as much memory again as the records do. `scan_batches` takes a few mebibytes, and less time.
    """
    view = memoryview(buf).cast("B")
    # The smallest record has 91 bytes, so a batch of this many rows takes all records.
    rows = max(1, min(len(view) // REC_MIN_SIZE_V1 + 1, 1 << 24))
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
            f"buf of {len(view)} bytes holds more records than one batch takes; see scan_batches"
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
        Of any length. It is held until the last batch was taken or `ScanBatches.close`.
    base_offset, columns, verify_crc
        As for `scan`.
    batch_rows, batch_bytes : int
        A batch ends with the record that reaches either limit. Two mebibytes stay in a core's cache from the scan to the
        consumer.

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


class CqEntry(NamedTuple):
    """One ConsumeQueue entry."""

    phy_offset: int
    """CommitLog offset of the record, bytes."""
    msg_size: int
    """Bytes of the record; 0x7FFFFFFF in a filler."""
    tags_code: int
    """Hash of TAGS, or a deliver time, or an address in consumequeue_ext."""


def pack_cq(phy_offset: _cq.Column, msg_size: _cq.Column, tags_code: _cq.Column) -> bytes:
    """Encode ConsumeQueue entries, 20 bytes each, big-endian; three ints give one entry, equal-length columns an entry a row.

    Raises
    ------
    OverflowError
        A number does not fit its field.
    ValueError
        The columns have different lengths.

    Notes
    -----
    Source: RocketMQ 5.5.0 ConsumeQueue#putMessagePositionInfo.
    """
    return _cq.pack_cq(phy_offset, msg_size, tags_code)


def unpack_cq(buf: Buffer, pos: int = 0) -> CqEntry:
    """Decode the ConsumeQueue entry at `pos` (bytes).

    Raises
    ------
    ValueError
        Fewer than 20 bytes are left at `pos`.
    """
    view = memoryview(buf).cast("B")
    if not 0 <= pos <= len(view) - CQ_STORE_UNIT_SIZE:
        raise ValueError(f"no whole entry at pos {pos} of a buffer of {len(view)} bytes")
    entry = _cq.unpack_cq(view[pos : pos + CQ_STORE_UNIT_SIZE])[0]
    return CqEntry(int(entry["phy_offset"]), int(entry["msg_size"]), int(entry["tags_code"]))


def unpack_cq_entries(buf: Buffer) -> NDArray[np.void]:
    """Look at ConsumeQueue entries as a NumPy array of (phy_offset, msg_size, tags_code), big-endian, without a copy.

    Raises
    ------
    ValueError
        The length is no multiple of 20.
    """
    return _cq.unpack_cq(buf)
