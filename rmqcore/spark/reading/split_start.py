"""Where a split of a file begins: the first record at or after an offset."""

from __future__ import annotations

import errno
from dataclasses import dataclass

from rmqcore._native.scan import places
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.log_files import LogFile, LogShape
from rmqcore.offline.log.walk import LogWalk
from rmqcore.spark.splits.split import last_boundary
from rmqcore.spark.splits.written import is_skipped

BEHIND = 64 * 1024
"""Bytes that are read behind a boundary at first: nearly every record across the boundary ends in them."""


@dataclass(frozen=True, slots=True)
class SplitStart:
    """A place where a split's walk begins.

    Attributes
    ----------
    phy_offset : int or None
        CommitLog offset of the first record or damage at or after the boundary; None if the file's log ends before it.
    resynced : bool
        The record there was found by search, behind damage.
    """

    phy_offset: int | None
    resynced: bool


@dataclass(frozen=True, slots=True)
class BoundaryAnswer:
    """The result of testing the bytes around a boundary.

    Attributes
    ----------
    phy_offset : int or None
        CommitLog offset of the first record at or after the boundary, by the rule of strict unanimity; None if the
        bytes do not prove one.
    is_none : bool
        The bytes do not prove a start, so the boundary does not count. False if the bytes that decide this could not be
        read, since another task may be able to read them.
    is_cut : bool
        The file ends before bytes that it had when it was listed.
    """

    phy_offset: int | None
    is_none: bool
    is_cut: bool = False


NO_BOUNDARY = BoundaryAnswer(None, is_none=True)
UNREAD = BoundaryAnswer(None, is_none=False)
CUT_SINCE = BoundaryAnswer(None, is_none=False, is_cut=True)


def find_split_start(
    file: LogFile, shape: LogShape, boundary: int, max_record_size: int
) -> SplitStart | None:
    """Find the first record at or after a boundary, as a walk from the file's beginning would meet it.

    The bytes around the boundary decide if all candidates among them agree (`ask_boundary`). If they do not agree, the
    boundary does not count and None is returned. If they cannot be read, the function makes that walk: the task before
    ends at the boundary, as it does at a boundary that counts.

    Raises
    ------
    FileNotFoundError
        The file was deleted, or was cut before the boundary.
    """
    if boundary <= file.file_from_offset:
        return SplitStart(file.file_from_offset, resynced=False)
    answer = ask_boundary(file, shape, boundary, max_record_size)
    if answer.is_none:
        return None
    if answer.phy_offset is not None:
        return SplitStart(answer.phy_offset, resynced=False)
    if answer.is_cut:
        check_reaches(file, boundary)
    return walk_to(file, shape, boundary)


def ask_boundary(
    file: LogFile, shape: LogShape, boundary: int, max_record_size: int
) -> BoundaryAnswer:
    """Test the bytes around a boundary for the first record at or after it, by the rule of strict unanimity.

    ``src/rmqcore/_native/scan/split.h`` has the rule and its proof. The result is wrong only if a body holds forged
    records and its record is longer than `max_record_size`, or a header just before the boundary is damaged; the task
    of the split before finds that out (`rmqcore.spark.reading.split_scan.SplitScan`).

    Parameters
    ----------
    file : LogFile
    shape : LogShape
    boundary : int
        CommitLog offset in the file, not its first.
    max_record_size : int
        Size of the largest record, in bytes. This many bytes before the boundary are read, and up to this many behind
        it if a record needs them.
    """
    if boundary > last_boundary(file, shape, max_record_size):
        return NO_BOUNDARY
    at = boundary - file.file_from_offset
    if file.dledger:
        max_record_size += places.DLEDGER_HEAD
    begin = max(0, at - max_record_size)
    bad: list[tuple[int, int]] = []
    with file.open(lambda start, end, error: bad.append((start, end))) as source:
        buf, found, is_whole, is_cut = bytearray(), places.SPLIT_MORE, False, False
        for most in (min(BEHIND, max_record_size), max_record_size):
            length = len(buf)
            wanted = min(at + most, file.size) - begin
            buf = buf + bytes(wanted - length) if buf else bytearray(wanted)
            with memoryview(buf) as view:
                got = source.read_into(view[length:], begin + length)
            # The part that was read without a hole: all, except behind bad sectors and behind the end of a file that
            # was cut since.
            low = max((end for start, end in bad if start < at), default=begin)
            high = min((start for start, end in bad if start >= at), default=begin + length + got)
            is_whole = high - low == len(buf)
            is_cut |= length + got < len(buf)
            if low >= at or high < at or (not is_whole and begin == 0):
                return CUT_SINCE if is_cut else UNREAD
            with memoryview(buf) as view:
                found = places.split_start(
                    view[low - begin : high - begin],
                    high - low,
                    at - low,
                    file.file_from_offset + low,
                    file.end_offset,
                    max_record_size,
                    anchored=begin == 0,
                    dledger=file.dledger,
                )
            if found != places.SPLIT_MORE:
                break
    if is_whole and found > 0:
        return BoundaryAnswer(file.file_from_offset + begin + found, is_none=False)
    # A part of the window proves no start: a record in the hole may disagree. But an odd place in it rules out the
    # boundary.
    if is_whole or found == places.SPLIT_ODD:
        return NO_BOUNDARY
    return CUT_SINCE if is_cut else UNREAD


def walk_to(file: LogFile, shape: LogShape, boundary: int) -> SplitStart:
    """Walk a file from its beginning to the first record at or after a boundary; the result is authoritative.

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


def check_reaches(file: LogFile, phy_offset: int) -> None:
    """Raise if a file that was listed with a byte at an offset no longer has that byte.

    Raises
    ------
    FileNotFoundError
        The file, or this part of it, was deleted.
    """
    with file.open(lambda start, end, error: None) as source, memoryview(bytearray(1)) as byte:
        if source.read_into(byte, phy_offset - file.file_from_offset) == 0:
            raise FileNotFoundError(errno.ENOENT, "cut while it was read", file.name)


def ends_resynced(damage: list[DamageRange], end_phy_offset: int) -> bool:
    """Return True if the record at the end of a walk was found by search, behind damage."""
    return any(one.end_phy_offset == end_phy_offset and is_skipped(one) for one in damage)
