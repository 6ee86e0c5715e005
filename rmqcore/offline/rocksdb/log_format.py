"""The frames of RocksDB's MANIFEST: checked before RocksDB reads them, because it can loop forever over a damaged one.

The file is a sequence of blocks of 32 KiB. A block holds records: checksum (4 bytes), length (2), type (1), little-endian, and
the data; a record does not cross the end of a block, and less than 7 bytes at the end of a block are zeros. The checksum is the
CRC-32C of type and data, rotated right by 15 bits, plus a constant. Source: RocksDB db/log_format.h, util/crc32c.h.
"""

from __future__ import annotations

import struct
from pathlib import Path

from rmqcore.disk.read_range import read_range
from rmqcore.offline.rocksdb.damaged import rocksdb_error

BLOCK_SIZE = 32 << 10
HEADER = struct.Struct("<IHB")
TYPES = (1, 2, 3, 4)
"""A whole record, and the first, a middle and the last part of one."""
MOST_BYTES = 64 << 20
"""The largest MANIFEST that is accepted: RocksDB writes a few hundred bytes for each file that it makes."""
MOST_SUMMED = 2 << 20
"""Bytes whose checksums are compared, from the start: Python needs one second for about ten million."""


def _table() -> tuple[int, ...]:
    found = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        found.append(crc)
    return tuple(found)


_TABLE = _table()


def check_manifest(path: Path, size: int) -> None:
    """Check the frames of a MANIFEST; an incomplete record, as during a write, ends the file.

    Raises
    ------
    RocksdbError
        The file is too large, a record has an unknown type, or its checksum is wrong.
    """
    if size > MOST_BYTES:
        raise rocksdb_error(path, f"file size is {size}, expected at most {MOST_BYTES}")
    data = read_range(path, 0, size)
    pos = 0
    while pos + HEADER.size <= len(data):
        left = BLOCK_SIZE - pos % BLOCK_SIZE
        if left < HEADER.size:
            pos += left
            continue
        checksum, length, kind = HEADER.unpack_from(data, pos)
        if (checksum, length, kind) == (0, 0, 0):
            return  # allocated ahead, and not written
        end = pos + HEADER.size + length
        if kind not in TYPES:
            raise rocksdb_error(path, f"the record at byte {pos} has type {kind}, expected 1 to 4")
        if HEADER.size + length > left:
            raise rocksdb_error(
                path,
                f"the record at byte {pos} has {length} bytes, expected at most {left - HEADER.size}",
            )
        if end > len(data):
            return
        if end <= MOST_SUMMED and checksum != masked_crc32c(data[pos + HEADER.size - 1 : end]):
            raise rocksdb_error(path, f"the record at byte {pos} fails its checksum")
        pos = end


def masked_crc32c(data: bytes) -> int:
    """Return the checksum of a record, over its type byte and its data."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
