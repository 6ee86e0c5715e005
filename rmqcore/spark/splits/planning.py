"""Splits of whole stores, before any of their records is read.

What is read for a plan: the directory, the first bytes of the newest file, and with a time span a few first records.
``walk`` alone reads whole files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.log_files import LogFile, LogShape
from rmqcore.offline.log.walk import gap_between
from rmqcore.spark.splits.split import DEFAULT_MAX_RECORD_SIZE, Split, boundaries
from rmqcore.spark.splits.split_start import last_boundary, record_starts
from rmqcore.spark.splits.time_pruning import files_in_time
from rmqcore.spark.storage.locations import StoreLocation
from rmqcore.spark.storage.store_pin import FileEnd

SplitMode = Literal["auto", "resync", "walk"]
MIB = 1024 * 1024
LEAST_SPLIT = MIB
"""`Sizing.min_partitions` asks for no smaller split than this: a task costs more than reading it."""


@dataclass(frozen=True)
class Sizing:
    """How finely files are cut; see the options of the same names.

    Attributes
    ----------
    max_partition_bytes : int
        No split has more, but for those that end a file.
    min_partitions : int
        Wanted in all; a hint.
    split_mode : {"auto", "resync", "walk"}
        ``resync``: a split's task tells from the bytes around its boundary where it begins, and reads nothing where they do not
        tell: then the task before reads on (`rmqcore.spark.splits.settle`). The file in which the log ends, and 16 times
        `max_record_size` before the end of every other file, are not cut. ``walk``:
        the planner walks each file to find records where it can be cut. ``auto``: resync.
    max_record_size : int
        No record is longer, in bytes.
    """

    max_partition_bytes: int = 128 * MIB
    min_partitions: int = 1
    split_mode: SplitMode = "auto"
    max_record_size: int = DEFAULT_MAX_RECORD_SIZE

    def for_bytes(self, byte_count: int) -> Sizing:
        """With splits so small that there are `min_partitions` of them in so many bytes.

        Not below 1 MiB, unless exact cuts are asked for; with several stores give the bytes of all of them.
        """
        wanted = -(-byte_count // max(1, self.min_partitions))
        least = 1 if self.split_mode == "walk" else LEAST_SPLIT
        return replace(
            self,
            max_partition_bytes=min(self.max_partition_bytes, max(wanted, least)),
            min_partitions=1,
        )


@dataclass(frozen=True)
class Span:
    """Ranges outside of which nothing is asked for; None where there is no limit.

    Attributes
    ----------
    start_phy_offset, end_phy_offset : int or None
        CommitLog offsets, the end exclusive.
    since_ms, until_ms : int or None
        Store timestamps, the end exclusive.
    max_clock_step_ms : int or None
        The most by which the broker's clock was ever set back while the log was written. Files are left out by time only when
        this is given: nothing but reading a file proves that none of its records is of another time.
    """

    start_phy_offset: int | None = None
    end_phy_offset: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    max_clock_step_ms: int | None = None


@dataclass(frozen=True)
class SplitPlan:
    """The splits of one store, by offset, and the damage that lies between files.

    Attributes
    ----------
    location : StoreLocation
    splits : list of Split
    gaps : list of DamageRange
        Files that are missing or too short.
    skipped_files : int
        Files that hold nothing of what is asked for.
    """

    location: StoreLocation
    splits: list[Split]
    gaps: list[DamageRange]
    skipped_files: int


def plan_store(
    location: StoreLocation, sizing: Sizing | None = None, span: Span | None = None
) -> SplitPlan:
    """Cut the CommitLog of a store into splits.

    Parameters
    ----------
    location : StoreLocation
        With a pin (`rmqcore.spark.splits.store_end.pin_stores`) the log is planned as it was; without one the last splits read
        on to where it ends when they are read.
    sizing : Sizing, optional
    span : Span, optional
        Files and splits outside are left out, and their damage with them.
    """
    span = span or Span()
    files = location.log_files()
    shape = location.log_shape(files)
    walked = [file for file in files if _is_walked(file, shape, span)]
    gaps = [
        gap for one, other in pairwise(walked) for gap in gap_between(one, other, shape.file_size)
    ]
    if location.pin is not None:
        missing = location.pin.missing(files, location.log)
        gaps += [gap for gap in missing if _is_wanted(gap, span)]
        gaps.sort(key=lambda gap: gap.start_phy_offset)
    if span.max_clock_step_ms is not None:
        walked = files_in_time(walked, span.since_ms, span.until_ms, span.max_clock_step_ms)
    sizing = (sizing or Sizing()).for_bytes(sum(file.size for file in walked))
    splits: list[Split] = []
    used = 0
    for file in walked:
        before = len(splits)
        cut = cut_file(location, file, shape, sizing)
        splits += _within(
            _until(cut, None if location.pin is None else location.pin.end_in(file)), span
        )
        used += len(splits) > before
    return SplitPlan(location, splits, gaps, len(files) - used)


def _is_walked(file: LogFile, shape: LogShape, span: Span) -> bool:
    """Whether a reader of the whole store with these limits opens the file: it reports what is missing between two such files."""
    end = file.file_from_offset + max(file.size, shape.file_size)
    return (span.start_phy_offset is None or end > span.start_phy_offset) and (
        span.end_phy_offset is None or file.file_from_offset < span.end_phy_offset
    )


def _is_wanted(gap: DamageRange, span: Span) -> bool:
    return (span.start_phy_offset is None or gap.end_phy_offset > span.start_phy_offset) and (
        span.end_phy_offset is None or gap.start_phy_offset < span.end_phy_offset
    )


def _until(splits: Iterable[Split], pinned: FileEnd | None) -> Iterator[Split]:
    """Splits of a file up to where the log ended when it was pinned; None where the file was full."""
    if pinned is None:
        yield from splits
        return
    end = pinned.end_phy_offset
    for split in splits:
        if split.start >= end and split.start > split.file.file_from_offset:
            break  # the task before this one ends where the log did
        is_last = split.end is None or split.end >= end
        yield replace(
            split,
            end=end if is_last else split.end,
            last_end=end,
            check_end=split.check_end and not is_last,
            pinned=pinned,
        )


def _within(splits: Iterable[Split], span: Span) -> list[Split]:
    """Splits of a file that may hold what is asked for.

    The split before one checks where it begins, and reads what lies there where the boundary between them is none. When it is
    left out this one walks to its start instead. When the split behind is left out there is nothing to check, nor to go on to.
    """
    start, end = span.start_phy_offset, span.end_phy_offset
    if start is None and end is None:
        return list(splits)
    kept = [
        split
        for split in splits
        # The last split of a file is kept with the file: it reports what is missing at the end of a short one.
        if (start is None or split.end is None or _is_last(split) or split.end > start)
        and (end is None or split.start < end)
    ]
    if kept:
        first, last_end = kept[0], kept[-1].end
        left_out = first.start > first.file.file_from_offset
        kept = [replace(split, last_end=last_end) for split in kept]
        kept[0] = replace(kept[0], walk_to_start=left_out and not first.aligned)
        kept[-1] = replace(kept[-1], check_end=False)
    return kept


def _is_last(split: Split) -> bool:
    """Whether a split ends where the log of its file does."""
    return split.end == (None if split.pinned is None else split.pinned.end_phy_offset)


def cut_file(
    location: StoreLocation, file: LogFile, shape: LogShape, sizing: Sizing
) -> Iterator[Split]:
    """Cut one file by `Sizing.max_partition_bytes`."""
    count = -(-file.size // sizing.max_partition_bytes)
    aligned = sizing.split_mode == "walk"
    starts = [file.file_from_offset]
    if count > 1 and aligned:
        starts += record_starts(file, shape, count)
    elif count > 1:
        starts += boundaries(file, count, last_boundary(file, shape, sizing.max_record_size))
    for number, start in enumerate(starts):
        end = starts[number + 1] if number + 1 < len(starts) else None
        yield Split(
            location.broker,
            file,
            shape,
            start,
            end,
            aligned=aligned or number == 0,
            max_record_size=sizing.max_record_size,
            cuts=1 if aligned else count,
            check_end=not aligned and end is not None,
        )
