"""What each task reports of its split, and whether the reports fit together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from rmqcore.errors import SplitError
from rmqcore.offline.log.damage import DamageRange
from rmqcore.spark.splits.split import Split
from rmqcore.spark.splits.split_scan import SplitScan


@dataclass(frozen=True, slots=True)
class SplitReport:
    """What a task says of its split.

    Attributes
    ----------
    start_phy_offset : int or None
    end_phy_offset : int
        As `SplitScan` has them.
    records, record_bytes : int
    damage : tuple of DamageRange
    read_to, is_skipped : int or None, bool
        `SettledSplit.end` and `SettledSplit.is_skipped`: the boundary at which the task ended, or that its own boundary was none.
    """

    start_phy_offset: int | None
    end_phy_offset: int
    records: int
    record_bytes: int
    damage: tuple[DamageRange, ...]
    read_to: int | None = None
    is_skipped: bool = False

    @classmethod
    def of(cls, scan: SplitScan[Any], records: int, record_bytes: int) -> SplitReport:
        """The report of a scan that was run to its end."""
        return cls(
            scan.start_phy_offset,
            scan.end_phy_offset,
            records,
            record_bytes,
            tuple(scan.damage),
            scan.settled.end,
            scan.settled.is_skipped,
        )

    @property
    def is_gone(self) -> bool:
        """Whether the file was deleted before it was read."""
        return any(found.kind == "missing_file" for found in self.damage)


Reported = tuple[Split, SplitReport]


def by_file(reported: Iterable[Reported]) -> Iterator[list[Reported]]:
    """The splits of one file after the other, in the order of the plan."""
    for _, group in groupby(reported, key=lambda pair: (pair[0].broker, pair[0].file)):
        yield list(group)


def fits_together(parts: Sequence[Reported]) -> bool:
    """Whether each split of a file begins where the one before it ended, but for those that the ones before have read.

    The first begins where every walk over the file does. So if all fit they are, by induction, what one walk gives.
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
    """Compare each split's beginning with the end of the split before it.

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
