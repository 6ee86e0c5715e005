"""Close gaps between records that are too small for a filler record: lengthen the record before the gap.

A DLedger log has 48 bytes between its records. The record before a gap is padded with property separators, which every reader
skips, so the records behind it keep their offsets. A record at the start of a file has no record before it, and moves there.

Source: RocketMQ 5.5.0 MessageDecoder#string2messageProperties, 4.3.2 the same (parts that are empty are passed over).
"""

from __future__ import annotations

import struct
import zlib

from rmqcore._native.format.layout import (
    CRC_MASK,
    MAGIC_V2,
    MAX_PROPERTIES_LEN,
    REC_MAGIC,
    REC_PHYSICALOFFSET,
    REC_SYSFLAG,
    body_pos,
)
from rmqcore.maintenance.salvage.filler import PROP_CRC_SIZE
from rmqcore.vocabulary.units import INT_MAX

PROP_CRC = b"__CRC32#\x01"
SEPARATOR = b"\x02"
MOST_TOTALSIZE = INT_MAX


def with_longer_properties(record: bytes, more: int) -> bytes | None:
    """Return the record with `more` bytes of padding in its properties; None if they would exceed 32,767 bytes."""
    at = _properties_length_pos(record)
    length = _int(record, at, 2)
    if length + more > MAX_PROPERTIES_LEN or len(record) + more > MOST_TOTALSIZE:
        return None
    properties = record[at + 2 :]
    area = properties[-PROP_CRC_SIZE:] if _has_prop_crc(record) else b""
    kept = properties[: len(properties) - len(area)]
    changed = bytearray(record[:at])
    struct.pack_into(">i", changed, 0, len(record) + more)
    changed += struct.pack(">h", length + more) + kept + SEPARATOR * more + area
    return _with_prop_crc(changed)


def moved_to(record: bytes, phy_offset: int) -> bytes:
    """Return the record with another PHYSICALOFFSET."""
    changed = bytearray(record)
    struct.pack_into(">q", changed, REC_PHYSICALOFFSET, phy_offset)
    return _with_prop_crc(changed)


def _properties_length_pos(record: bytes) -> int:
    magic = _int(record, REC_MAGIC, 4)
    body = body_pos(_int(record, REC_SYSFLAG, 4))
    at = body + _int(record, body - 4, 4)
    if magic == MAGIC_V2:
        return at + 2 + _int(record, at, 2)
    return at + 1 + record[at]


def _int(record: bytes, pos: int, size: int) -> int:
    return int.from_bytes(record[pos : pos + size], "big", signed=True)


def _has_prop_crc(record: bytes | bytearray) -> bool:
    area = record[-PROP_CRC_SIZE:]
    return (
        area.startswith(PROP_CRC)
        and area[len(PROP_CRC) : -1].isdigit()
        and area.endswith(SEPARATOR)
    )


def _with_prop_crc(record: bytearray) -> bytes:
    """Return the record with its ``__CRC32#``, if it has one, computed anew."""
    if _has_prop_crc(record):
        crc = zlib.crc32(record[:-PROP_CRC_SIZE]) & CRC_MASK
        digits = f"{crc:010}"[::-1].encode()  # the last digit first
        record[-PROP_CRC_SIZE + len(PROP_CRC) : -1] = digits
    return bytes(record)
