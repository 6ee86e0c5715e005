"""Where the first record at or after an offset of a file begins."""

from __future__ import annotations

import errno
from dataclasses import dataclass

from rmqcore._native import scan
from rmqcore._native.scan import ColumnScan
from rmqcore.offline.damage import DamageRange
from rmqcore.offline.files import LogFile, LogShape
from rmqcore.offline.walk import LogWalk

BEHIND = 64 * 1024
"""Bytes read behind a boundary at first: nearly every record that lies across it ends in them."""

TAIL_RECORDS = 16
"""No boundary is told in so many largest records before a file's end: the BLANK there can be longer than the largest record
(a batch that does not fit leaves its whole stored size, 11 times the size at which it was accepted), and what lies under it
may be records of an earlier life of the file, sound and in their place."""


@dataclass(frozen=True, slots=True)
class SplitStart:
    """A place where a split's walk begins.

    Attributes
    ----------
    phy_offset : int or None
        CommitLog offset of the first record or damage at or after the boundary; None when the file's log ends before.
    resynced : bool
        The record there was found by search, behind damage.
    """

    phy_offset: int | None
    resynced: bool


def find_split_start(
    file: LogFile, shape: LogShape, boundary: int, max_record_size: int
) -> SplitStart:
    """Find where the first record at or after a boundary begins, as a walk from the file's beginning would meet it.

    Told from the bytes around the boundary where they are of one voice (`unanimous_start`), else by that walk.
    """
    if boundary <= file.file_from_offset:
        return SplitStart(file.file_from_offset, resynced=False)
    found = unanimous_start(file, shape, boundary, max_record_size)
    if found is not None:
        return SplitStart(found, resynced=False)
    return walk_to(file, shape, boundary)


def last_boundary(file: LogFile, shape: LogShape, max_record_size: int) -> int:
    """The offset behind which `unanimous_start` tells nothing: stale records may lie there, in the tail file everywhere."""
    if file.file_from_offset >= shape.tail_from:
        return file.file_from_offset
    return file.end_offset - TAIL_RECORDS * max_record_size


def unanimous_start(
    file: LogFile, shape: LogShape, boundary: int, max_record_size: int
) -> int | None:
    """The first record at or after a boundary by the rule of strict unanimity; None where the bytes do not tell.

    The rule and its proof: ``src/rmqcore/_native/split.h``. Wrong only where a record is longer than `max_record_size`, or a
    header just before the boundary is damaged, and a body there holds forged records; the task before finds that out
    (`rmqcore.spark.split_scan.SplitScan`).

    Parameters
    ----------
    file : LogFile
    shape : LogShape
    boundary : int
        CommitLog offset in the file, not its first.
    max_record_size : int
        Bytes of the largest record. So many are read before the boundary, and behind it where a record needs them.
    """
    if boundary > last_boundary(file, shape, max_record_size):
        return None
    boundary -= file.file_from_offset
    begin = max(0, boundary - max_record_size)
    bad: list[OSError] = []
    with file.open(lambda start, end, error: bad.append(error)) as source:
        buf, found = bytearray(), scan.SPLIT_MORE
        for most in (min(BEHIND, max_record_size), max_record_size):
            length = len(buf)
            buf += bytes(min(boundary + most, file.size) - begin - length)
            with memoryview(buf) as view:
                got = source.read_into(view[length:], begin + length)
            if bad or length + got < len(buf):  # a bad sector, or a file that was cut since
                return None
            found = scan.split_start(
                buf,
                len(buf),
                boundary - begin,
                file.file_from_offset + begin,
                file.end_offset,
                max_record_size,
                anchored=begin == 0,
            )
            if found != scan.SPLIT_MORE:
                break
    return None if found <= 0 else file.file_from_offset + begin + found


def walk_to(file: LogFile, shape: LogShape, boundary: int) -> SplitStart:
    """Walk a file from its beginning to the first record at or after a boundary: the authority.

    Raises
    ------
    FileNotFoundError
        The file is gone.
    """
    damage: list[DamageRange] = []
    sink = ColumnScan(["phy_offset"], stop_offset=boundary)
    walk = LogWalk([file.read_until(boundary)], sink, damage, stop=boundary, shape=shape)
    for _ in walk.run():
        pass
    if any(one.kind == "missing_file" for one in damage):
        raise FileNotFoundError(errno.ENOENT, "deleted while it was read", file.name)
    if walk.end_phy_offset < boundary:
        return SplitStart(None, resynced=False)
    return SplitStart(walk.end_phy_offset, ends_resynced(damage, walk.end_phy_offset))


def ends_resynced(damage: list[DamageRange], end_phy_offset: int) -> bool:
    """Whether what begins where a walk ended was found by search, behind damage."""
    return any(one.end_phy_offset == end_phy_offset and is_skipped(one) for one in damage)


def is_skipped(one: DamageRange) -> bool:
    """Whether a walk went on by search behind a range; bad sectors are told as they are read, apart from that."""
    return one.kind not in {"crc", "unreadable"}
