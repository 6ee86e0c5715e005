"""Bytes to messages and back: the part that works alone.

Importing it loads NumPy and the compiled kernels, nothing else. Every function takes any contiguous buffer: ``bytes``,
``bytearray``, ``memoryview``, ``mmap``, a NumPy array. Damaged bytes raise `rmqcore.errors.CorruptMessageError`, which names
the position, the field, what it should hold and what it holds. All functions are safe to call from several threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rmqcore._native import codec as _codec
from rmqcore._native.codec import MessageView
from rmqcore.message import Message, pack_host

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "MessageView",
    "body_crc",
    "check",
    "decode",
    "decode_properties",
    "encode",
    "encode_properties",
    "java_hash",
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
        A property name or value with a separator (0x01, 0x02) in it, text that is no valid Unicode, a topic, properties
        or body with no room in their length fields.
    OverflowError
        A number with no room in its field.

    Notes
    -----
    Source: RocketMQ 5.5.0 MessageExtEncoder#encode, CommitLog.DefaultAppendMessageCallback#doAppend.
    """
    born_timestamp_ms = message.born_timestamp_ms
    properties = message.properties
    if append_prop_crc and "__CRC32#" in properties:
        properties = {name: value for name, value in properties.items() if name != "__CRC32#"}
    return _codec.encode_fields(
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
        No whole, well-formed record starts at `pos`; a BLANK record and zeros are none either.
    ValueError
        `pos` lies outside `buf`.

    Notes
    -----
    Source: RocketMQ 5.5.0 MessageDecoder#decode.
    """
    return _codec.decode(buf, pos)


def check(buf: Buffer, pos: int = 0, *, check_crc: bool = True, check_prop_crc: bool = False) -> int:
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
        A name with 0x01 or 0x02 or a value with 0x02, which would read back as something else; text that is no valid Unicode.

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
