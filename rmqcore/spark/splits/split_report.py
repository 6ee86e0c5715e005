"""Reports of tasks about their splits, and the check that they fit together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from rmqcore.errors import SplitError
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.log_files import LogFile
from rmqcore.spark.splits.split import Split


@dataclass(frozen=True, slots=True)
class SplitReport:
    """A task's report about its split.

    Attributes
    ----------
    start_phy_offset : int or None
        Start of the first record or damage that the task met; None if it met neither.
    end_phy_offset : int
        Start of the first record or damage after the split.
    records, record_bytes : int
    damage : tuple of DamageRange
    read_to : int or None
        The boundary at which the task ended.
    is_skipped : bool
        The split's own boundary did not count, so its task read nothing.
    """

    start_phy_offset: int | None
    end_phy_offset: int
    records: int
    record_bytes: int
    damage: tuple[DamageRange, ...]
    read_to: int | None = None
    is_skipped: bool = False

    @property
    def is_gone(self) -> bool:
        """True if the file was deleted before it was read."""
        return any(found.kind == "missing_file" for found in self.damage)


Reported = tuple[Split, SplitReport]


def by_file(reported: Iterable[Reported]) -> Iterator[list[Reported]]:
    """Yield the splits of each file, in the order of the plan."""
    for _, group in groupby(reported, key=lambda pair: (pair[0].broker, pair[0].file)):
        yield list(group)


def left_over(parts: Sequence[Reported]) -> Iterator[Split]:
    """Yield the unread parts of a file whose tasks stopped at their own ends: each run of skipped splits as one split.

    A part begins where the split before was seen to end; nothing is left if the log ended before it. A driver that sees
    all reports has splits without `Split.cuts` read in this way: no boundary is tested twice, and no two tasks have to
    agree.
    """
    before: Reported | None = None
    for skipped, group in groupby(parts, key=lambda pair: pair[1].is_skipped):
        run = list(group)
        if not skipped:
            before = run[-1]
            continue
        first, last = run[0][0], run[-1][0]
        end = first.start if before is None else before[1].end_phy_offset
        if before is None or before[1].is_gone:
            yield replace(first, end=last.end, walk_to_start=True)
        elif end >= first.start and (last.end is None or end < last.end):
            yield replace(first, start=end, end=last.end, aligned=True)


def in_order(first: Iterable[Reported], second: Iterable[Reported]) -> list[Reported]:
    """Return the reports of the first round, with those of the left-over parts in place of the skipped splits."""
    read = [pair for pair in first if not pair[1].is_skipped]
    after: dict[tuple[str, LogFile], list[Reported]] = {}
    for pair in second:
        after.setdefault((pair[0].broker, pair[0].file), []).append(pair)
    merged: list[Reported] = []
    for parts in by_file(read):
        own = after.get((parts[0][0].broker, parts[0][0].file), [])
        merged += sorted([*parts, *own], key=lambda pair: pair[0].start)
    return merged


def fits_together(parts: Sequence[Reported]) -> bool:
    """Return True if each split of a file starts where the one before it ended, except splits that earlier ones read.

    The first split begins where every walk over the file does. So if all fit, by induction they equal one walk.
    """
    end: int | None = None
    read_to: int | None = parts[0][0].start if parts else None
    for split, report in parts:
        if report.is_gone:
            return (
                True  # a deleted file cannot be checked, and each part reports its share as missing
            )
        if report.is_skipped != (read_to is None or read_to > split.start):
            return False
        if report.is_skipped:
            continue
        start, read_to = report.start_phy_offset, report.read_to
        if end is not None and start != (end if end >= split.start else None):
            return False
        if start is not None:
            end = report.end_phy_offset
    return True


def check_chain(splits: Sequence[Split], reports: Sequence[SplitReport]) -> None:
    """Compare the start of each split with the end of the split before it.

    Raises
    ------
    SplitError
        A split does not begin where the split before it ends.
    """
    for parts in by_file(zip(splits, reports, strict=True)):
        if fits_together(parts):
            continue
        fitting = next(n for n in range(len(parts)) if not fits_together(parts[: n + 1]))
        split, report = parts[fitting]
        found, end = report.start_phy_offset, parts[fitting - 1][1].end_phy_offset
        raise SplitError(split.file.name, split.start, -1 if found is None else found, str(end))
