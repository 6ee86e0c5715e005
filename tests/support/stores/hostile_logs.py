"""Logs that were made up to cost time: each shape is one CommitLog file, of any size, in which a reader has to find its way.

Reading costs a constant for each byte on the disk, whatever the bytes claim (docs/reading-damaged-stores.md): the tests count
the work that each shape makes, and ``python -m bench --only hostile`` takes the time.
"""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable
from pathlib import Path

from rmqcore import codec
from rmqcore._native.format.layout import (
    MAGIC_BLANK,
    MAGIC_V1,
    REC_MIN_SIZE_V1,
    REC_PHYSICALOFFSET,
    body_pos,
)
from rmqcore.codec.message import Message
from rmqcore.vocabulary.units import PAGE

BODY_POS = body_pos(0)

STEP = 44
"""Bytes from header to header where they overlap as far as they can: behind PHYSICALOFFSET and SYSFLAG, the four bytes that say
how long the body of the header before is."""

HOLE = 2 << 20
"""From page to page of `sparse`."""


def record(pos: int, body: bytes = b"") -> bytes:
    """A sound record."""
    return codec.encode(Message("T", body), phy_offset=pos, queue_offset=0, store_timestamp_ms=1)


def header(pos: int, msg_size: int) -> bytes:
    """The first 40 bytes of a record: MAGIC and place are right, BODYCRC is wrong."""
    data = bytearray(STEP - 4)
    struct.pack_into(">iii", data, 0, msg_size, MAGIC_V1, 5)
    struct.pack_into(">q", data, REC_PHYSICALOFFSET, pos)
    return bytes(data)


def _headers(size: int, end_of: Callable[[int], int]) -> bytes:
    """Headers, each of them of a record without topic and properties that ends where `end_of` says, if zeros lie there."""
    data = bytearray()
    before = 0
    while len(data) < size:
        msg_size = end_of(len(data)) - len(data)
        data += header(len(data), msg_size) + struct.pack(">i", before)
        before = msg_size - REC_MIN_SIZE_V1
    del data[size:]
    data[-4:] = bytes(4)
    data[REC_PHYSICALOFFSET] ^= 1  # the walk searches from the first byte on
    return bytes(data)


def _zeros_near(pos: int) -> int:
    """Behind three zeros of a header at or before `pos`."""
    return pos - pos % STEP + 20


def each(size: int, part: Callable[[int], bytes]) -> bytes:
    """Bytes of a file, part after part, each told where it lies; zeros where the last one does not fit."""
    data = bytearray()
    while len(more := part(len(data))) <= size - len(data):
        data += more
    return bytes(data) + bytes(size - len(data))


def sound(size: int) -> bytes:
    """Records of a kibibyte, to compare with."""
    return each(size, lambda pos: record(pos, b"x" * 930))


def to_the_end(size: int) -> bytes:
    """All headers reach to the end of the file."""
    return _headers(size, lambda pos: size)


def past_the_window(size: int) -> bytes:
    """All headers reach behind what a reader holds."""
    return _headers(size, lambda pos: min(size, _zeros_near(pos + HOLE + PAGE)))


def anywhere(size: int) -> bytes:
    """Each header reaches to a place of its own."""
    rng = random.Random(1)
    return _headers(
        size, lambda pos: max(_zeros_near(rng.randrange(pos, size)), _zeros_near(pos + 4 * STEP))
    )


def bad_bytes(size: int) -> bytes:
    """Empty records with a byte between each two that does not belong there."""
    return each(size, lambda pos: record(pos) + b"\xff")


def one_giant(size: int) -> bytes:
    """Many damaged headers say that they end where a giant begins, of which all but the body is right."""
    giant = size // 2

    def part(pos: int) -> bytes:
        if pos >= giant:
            return record(pos)
        bad = bytearray(header(pos, giant - pos)) + bytes(BODY_POS - STEP + 4)
        bad[REC_PHYSICALOFFSET] ^= 1
        return bytes(bad) + record(pos + len(bad))

    data = bytearray(each(size, part))
    data[giant : giant + STEP - 4] = header(giant, size - giant)
    struct.pack_into(">i", data, giant + BODY_POS - 4, size - giant - REC_MIN_SIZE_V1)
    data[-3:] = bytes(3)
    return bytes(data)


def lengths_that_disagree(size: int) -> bytes:
    """Between each two records a header that claims two mebibytes and has a body of less than none."""
    return each(size, lambda pos: header(pos, HOLE - 1) + b"\xff" * 60 + record(pos + STEP + 56))


def lies_behind_bad_bytes(size: int) -> bytes:
    """The same with a byte before each header, so that a reader meets it when it searches."""
    return each(
        size,
        lambda pos: b"\xff" + header(pos + 1, HOLE - 1) + b"\xff" * 60 + record(pos + STEP + 57),
    )


def lies_about_topics(size: int) -> bytes:
    """Between each two records a header whose body ends a mebibyte further on, where no topic can be."""

    def part(pos: int) -> bytes:
        lie = header(pos, HOLE - 1) + bytes(BODY_POS - STEP) + struct.pack(">i", 1 << 20)
        return lie + record(pos + len(lie))

    return each(size, part)


def failing_bodies(size: int) -> bytes:
    """Records that all fail their CRC."""

    def part(pos: int) -> bytes:
        whole = bytearray(record(pos, b"body"))
        whole[BODY_POS] ^= 1
        return bytes(whole)

    return each(size, part)


def of_another_place(size: int) -> bytes:
    """Sound records that all say they lie elsewhere."""
    return each(size, lambda pos: record(pos + 1, b"y" * 100))


def magic_everywhere(size: int) -> bytes:
    """MAGIC, and nothing else."""
    return struct.pack(">i", MAGIC_V1) * (size // 4)


def blanks(size: int) -> bytes:
    """BLANKs, none of which reaches to the end of the file."""
    return struct.pack(">ii", 1 << 30, MAGIC_BLANK) * (size // 8)


SHAPES: dict[str, Callable[[int], bytes]] = {
    shape.__name__: shape
    for shape in (
        to_the_end,
        past_the_window,
        anywhere,
        bad_bytes,
        one_giant,
        lengths_that_disagree,
        lies_behind_bad_bytes,
        lies_about_topics,
        failing_bodies,
        of_another_place,
        magic_everywhere,
        blanks,
    )
}
"""Those whose files have no holes."""


def write_log(root: Path, data: bytes) -> Path:
    """Make a store whose log is one file of these bytes; answers the file."""
    path = root / "commitlog" / f"{0:020}"
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    return path


def write_sparse_log(root: Path, size: int) -> Path:
    """Make a store whose log has `size` bytes on the disk: a page with a record every two mebibytes, and holes between them."""
    path = write_log(root, b"")
    with path.open("r+b") as file:
        for number in range(size // PAGE):
            file.seek(number * HOLE)
            file.write(record(number * HOLE, b"z" * 1000).ljust(PAGE, b"\0"))
    os.truncate(path, size // PAGE * HOLE)
    return path
