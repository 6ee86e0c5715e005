"""Records that are too long to be brought in whole: their ends and the beginning of the body, and the body's CRC piece by piece.

Nobody needs the body of a record of a gibibyte to check a store, to rebuild its queues, or to show the first mebibytes of it.
"""

from __future__ import annotations

import mmap
import zlib
from dataclasses import dataclass

from rmqcore._native.format.layout import CRC_MASK, REC_BODYCRC, REC_SYSFLAG, body_pos
from rmqcore.disk.log_window import ReadInto

MOST_WHOLE = 32 * 1024 * 1024
"""A longer record is brought in without the most of its body, where the body is not asked for."""

PIECE = 1024 * 1024
HEADER = 256
"""Bytes that hold all fields before the body, also with two hosts of IPv6."""


@dataclass(frozen=True, slots=True)
class LongRecords:
    """How much of very long records is looked at.

    Attributes
    ----------
    body : int
        Bytes from the beginning of the body that are brought in; the others read as zeros.
    check_crc : bool
        Compare the CRC of the whole body.
    most_whole : int
        Bytes of the longest record that is brought in whole; more than a window has at once.
    """

    body: int = 0
    check_crc: bool = True
    most_whole: int = MOST_WHOLE


def body_crcs(read_into: ReadInto, pos: int, msg_size: int) -> tuple[int, int]:
    """The CRC that a record says its body has, and the one it has.

    Parameters
    ----------
    read_into : callable
        See `LogWindow`; bytes that it does not fill count as zeros.
    pos, msg_size : int
        Where the record lies in its file, and its bytes; its shape was checked.
    """
    header = bytearray(HEADER)
    read_into(memoryview(header), pos)
    begin, length = _body(header, msg_size)
    crc = 0
    piece = bytearray(PIECE)
    with memoryview(piece) as view:
        for at in range(0, length, PIECE):
            part = view[: min(PIECE, length - at)]
            got = read_into(part, pos + begin + at)
            part[got:] = bytes(len(part) - got)
            crc = zlib.crc32(part, crc)
    stored = int.from_bytes(header[REC_BODYCRC : REC_BODYCRC + 4], "big", signed=True)
    return stored, crc & CRC_MASK


def without_body(read_into: ReadInto, pos: int, msg_size: int, most_body: int) -> memoryview:
    """The record in memory as long as it is, of which only what was read takes room: all but the body behind its first bytes.

    The parameters are those of `body_crcs`; `most_body` bytes of the body are read.
    """
    # Pages of it that nobody writes are one page of zeros.
    memory = memoryview(mmap.mmap(-1, msg_size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    read_into(memory[:HEADER], pos)
    begin, length = _body(memory, msg_size)
    for first, end in ((HEADER, begin + min(most_body, length)), (begin + length, msg_size)):
        if first < end:
            read_into(memory[first:end], pos + first)
    return memory


def _body(header: bytearray | memoryview, msg_size: int) -> tuple[int, int]:
    """Where the body begins in a record, and its bytes; inside the record, whatever the header says by now."""
    sys_flag = int.from_bytes(header[REC_SYSFLAG : REC_SYSFLAG + 4], "big", signed=True)
    begin = body_pos(sys_flag)
    length = int.from_bytes(header[begin - 4 : begin], "big", signed=True)
    return begin, max(0, min(length, msg_size - begin))
