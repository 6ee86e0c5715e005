"""Splits of whole stores, before their records are read.

A plan reads the directory, the first bytes of the newest file, and with a time span the first records of a few files.
It reads whole files only to cut them at records that a walk has met (`_files_to_walk`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from rmqcore.disk.paths import MAX_OFFSET
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.log_files import LogFile, LogShape
from rmqcore.offline.log.walk import gap_between
from rmqcore.spark.runtime.parallelism import driver_cores
from rmqcore.spark.splits.sizing import MIB, Sizing
from rmqcore.spark.splits.split import TAIL_RECORDS, Split, boundaries, last_boundary
from rmqcore.spark.splits.time_pruning import files_in_time
from rmqcore.spark.splits.worth_walking import WalkableFile, worth_walking
from rmqcore.spark.splits.written import WrittenPart, record_starts, written_part
from rmqcore.spark.storage.locations import StoreLocation
from rmqcore.spark.storage.store_pin import FileEnd

WALKED = 512 * MIB
"""The most bytes of a batch that a stream's planner walks to cut the batch at records."""


@dataclass(frozen=True)
class Span:
    """The wanted ranges of offsets and times; None means no limit.

    Attributes
    ----------
    start_phy_offset, end_phy_offset : int or None
        CommitLog offsets, the end exclusive.
    since_ms, until_ms : int or None
        Store timestamps, the end exclusive.
    max_clock_step_ms : int or None
        The most by which the broker's clock was ever set back while the log was written. Files are left out by time
        only if this is given: otherwise only reading a file proves that none of its records is in the range.
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
        Files that are missing or too short, and the part missing at the log's end (``log_missing``).
    skipped_files : int
        Number of files without a wanted record.
    most_bytes : int
        The most bytes that a task should read: small splits may share a task.
    """

    location: StoreLocation
    splits: list[Split]
    gaps: list[DamageRange]
    skipped_files: int
    most_bytes: int


def plan_store(
    location: StoreLocation, sizing: Sizing | None = None, span: Span | None = None
) -> SplitPlan:
    """Cut the CommitLog of one store into splits; see `plan_stores`."""
    (plan,) = plan_stores([(location, span or Span())], sizing or Sizing())
    return plan


def plan_stores(wanted: Sequence[tuple[StoreLocation, Span]], sizing: Sizing) -> list[SplitPlan]:
    """Cut the CommitLogs of stores into splits.

    Parameters
    ----------
    wanted : sequence of (StoreLocation, Span)
        Files and splits outside a store's span are left out, and their damage with them. Nothing at or behind its end
        is read. With a pin (`rmqcore.spark.reading.store_end.pin_stores`) the log is planned as it was; without a pin
        the last splits read to the end that the log has at that time.
    sizing : Sizing
        For all stores together.
    """
    surveys = [_survey(location, span) for location, span in wanted]
    with ThreadPoolExecutor(driver_cores(), thread_name_prefix="rmqcore-walk") as threads:
        walked: Container[str] = _files_to_walk(surveys, sizing)
        if sizing.split_mode == "auto":
            most = _for_all(surveys, sizing).max_partition_bytes
            surveys = list(threads.map(lambda one: _with_written(one, walked, most), surveys))
        sizing = _for_all(surveys, sizing)
        wanted_cuts = [
            (file.location, threads.submit(record_starts, file, survey.shape, count))
            for survey in surveys
            for file in survey.files
            if (count := -(-file.size // sizing.max_partition_bytes)) > 1
            and (survey.written is None or file != survey.newest)
            and file.location in walked
        ]
        cuts = {location: found.result() for location, found in wanted_cuts}
    return [_plan(survey, sizing, cuts) for survey in surveys]


class _Every(Container[str]):
    """Holds every file."""

    def __contains__(self, item: object) -> bool:
        return True


def _files_to_walk(surveys: Sequence[_Survey], sizing: Sizing) -> Container[str]:
    """Return the locations of the files that are cut at records of a walk; see the option ``splitMode``."""
    if sizing.split_mode == "walk":
        return _Every()
    if sizing.split_mode == "resync":
        return ()
    found = (one for survey in surveys for one in survey.walkable(sizing.max_record_size))
    most = _for_all(surveys, sizing).max_partition_bytes
    return worth_walking(found, most, max(sizing.min_partitions, sizing.parallelism))


@dataclass(frozen=True)
class _Survey:
    """The files of a store that are read, and the written part of the newest file, if known."""

    location: StoreLocation
    span: Span
    shape: LogShape
    files: list[LogFile]
    left_out: int
    gaps: list[DamageRange]
    written: WrittenPart | None = None

    @cached_property
    def newest(self) -> LogFile | None:
        """The file in which the log ends; None if that file is not read."""
        found = [file for file in self.files if file.file_from_offset == self.shape.tail_from]
        return found[0] if found else None

    def pinned_end(self, file: LogFile) -> FileEnd | None:
        """Return where the log ended in a file when the store was pinned; None for a full file, and without a pin."""
        pin = self.location.pin
        return None if pin is None else pin.end_in(file)

    @cached_property
    def stop(self) -> int | None:
        """CommitLog offset at which the wanted part of the newest file ends."""
        pinned = None if self.newest is None else self.pinned_end(self.newest)
        ends = [self.span.end_phy_offset, None if pinned is None else pinned.end_phy_offset]
        return min((end for end in ends if end is not None), default=None)

    @property
    def byte_count(self) -> int:
        """Number of wanted bytes, without files behind the newest, which are allocated ahead, and its unwritten rest."""
        return sum(
            self.asked_bytes(file)
            for file in self.files
            if file.file_from_offset <= self.shape.tail_from
        )

    def asked_bytes(self, file: LogFile) -> int:
        """Return the number of wanted bytes of a file."""
        start, stop = self.span.start_phy_offset or 0, self.stop
        end = MAX_OFFSET if stop is None else stop
        if self.written is not None:
            end = min(end, self.written.end)
        return max(0, min(end, file.end_offset) - max(start, file.file_from_offset))

    def walkable(self, max_record_size: int) -> Iterator[WalkableFile]:
        """Yield the files that ``auto`` may walk.

        Files on other filesystems are excluded: the walk would fetch them over the network, as slowly as their tasks
        do.
        """
        if not self.location.is_local:
            return
        for file in self.files:
            asked = self.asked_bytes(file)
            if file == self.newest:
                end = file.end_offset if self.stop is None else min(self.stop, file.end_offset)
                yield WalkableFile(file, end - file.file_from_offset, asked)
            elif file.file_from_offset < self.shape.tail_from:
                yield WalkableFile(file, file.size, min(TAIL_RECORDS * max_record_size, asked))


def _survey(location: StoreLocation, span: Span) -> _Survey:
    files = location.log_files()
    shape = location.log_shape(files)
    walked = [file for file in files if _is_walked(file, shape, span)]
    gaps = [
        gap for one, other in pairwise(walked) for gap in gap_between(one, other, shape.file_size)
    ]
    if location.pin is not None:
        missing = location.pin.missing(files, location.log)
        gaps += [gap for gap in missing if _is_wanted(gap, span)]
    gaps += location.missing_log(span.start_phy_offset, span.end_phy_offset)
    gaps.sort(key=lambda gap: gap.start_phy_offset)
    if span.max_clock_step_ms is not None:
        walked = files_in_time(walked, span.since_ms, span.until_ms, span.max_clock_step_ms)
    return _Survey(location, span, shape, walked, len(files) - len(walked), gaps)


def _for_all(surveys: Iterable[_Survey], sizing: Sizing) -> Sizing:
    return sizing.for_bytes(sum(survey.byte_count for survey in surveys))


def _with_written(survey: _Survey, walked: Container[str], most_bytes: int) -> _Survey:
    """Find the written part of the newest file, if the file is to be walked."""
    newest = survey.newest
    if newest is None or newest.location not in walked:
        return survey
    return replace(survey, written=written_part(newest, most_bytes, stop=survey.stop))


def _plan(survey: _Survey, sizing: Sizing, cuts: Mapping[str, list[int]]) -> SplitPlan:
    splits: list[Split] = []
    used = 0
    for file in survey.files:
        before = len(splits)
        exact = cuts.get(file.location) if cuts else None
        if exact is None and file == survey.newest and survey.written is not None:
            exact = survey.written.cuts(sizing.max_partition_bytes)
        cut = (
            cut_file(survey.location, file, survey.shape, sizing)
            if exact is None
            else cut_at(survey.location, file, survey.shape, exact)
        )
        splits += _within(_until(cut, survey.pinned_end(file)), survey.span)
        used += len(splits) > before
    skipped = survey.left_out + len(survey.files) - used
    return SplitPlan(survey.location, splits, survey.gaps, skipped, sizing.max_partition_bytes)


def _is_walked(file: LogFile, shape: LogShape, span: Span) -> bool:
    """Return True if a reader of the whole store with these limits opens the file, and so reports gaps beside it."""
    end = file.file_from_offset + max(file.size, shape.file_size)
    return (span.start_phy_offset is None or end > span.start_phy_offset) and (
        span.end_phy_offset is None or file.file_from_offset < span.end_phy_offset
    )


def _is_wanted(gap: DamageRange, span: Span) -> bool:
    return (span.start_phy_offset is None or gap.end_phy_offset > span.start_phy_offset) and (
        span.end_phy_offset is None or gap.start_phy_offset < span.end_phy_offset
    )


def _until(splits: Iterable[Split], pinned: FileEnd | None) -> Iterator[Split]:
    """Yield the splits of a file up to the pinned end of the log; `pinned` is None if the file was full."""
    if pinned is None:
        yield from splits
        return
    end = pinned.end_phy_offset
    for split in splits:
        if split.start >= end and split.start > split.file.file_from_offset:
            break  # the task of the split before ends where the log did
        is_last = split.end is None or split.end >= end
        yield replace(
            split,
            end=end if is_last else split.end,
            last_end=end,
            check_end=split.check_end and not is_last,
            pinned=pinned,
        )


def _within(splits: Iterable[Split], span: Span) -> list[Split]:
    """Return the splits of a file that may hold wanted records.

    The task of the split before checks where a split begins, and reads the split if the boundary between them does not
    count. If the split before is left out, the task of this split walks to its start instead. If the split behind is
    left out, its start is not checked, and no task continues into it.
    """
    start, end = span.start_phy_offset, span.end_phy_offset
    if start is None and end is None:
        return list(splits)
    kept = [
        split
        for split in splits
        # The last split of a file is kept with the file: its task reports what is missing at the end of a short file.
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
    """Return True if a split ends where the log of its file does."""
    return split.end == (None if split.pinned is None else split.pinned.end_phy_offset)


def cut_file(
    location: StoreLocation, file: LogFile, shape: LogShape, sizing: Sizing
) -> Iterator[Split]:
    """Cut one file into parts of `Sizing.max_partition_bytes`, by the rule of `rmqcore.spark.reading.settle`."""
    count = -(-file.size // sizing.max_partition_bytes)
    last = last_boundary(file, shape, sizing.max_record_size)
    starts = [file.file_from_offset, *boundaries(file, count, last)]
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], None], strict=True)):
        yield Split(
            location.broker,
            file,
            shape,
            start,
            end,
            aligned=number == 0,
            max_record_size=sizing.max_record_size,
            cuts=count,
            check_end=end is not None,
        )


def cut_at(
    location: StoreLocation, file: LogFile, shape: LogShape, cuts: Sequence[int]
) -> Iterator[Split]:
    """Cut one file at records that a walk over it has met."""
    starts = [file.file_from_offset, *cuts]
    for start, end in zip(starts, [*cuts, None], strict=True):
        yield Split(location.broker, file, shape, start, end)
