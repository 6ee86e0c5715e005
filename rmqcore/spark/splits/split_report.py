"""What each task reports of its split, and whether the reports fit together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

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
    """

    start_phy_offset: int | None
    end_phy_offset: int
    records: int
    record_bytes: int
    damage: tuple[DamageRange, ...]

    @classmethod
    def of(cls, scan: SplitScan[Any], records: int, record_bytes: int) -> SplitReport:
        """The report of a scan that was run to its end."""
        return cls(
            scan.start_phy_offset, scan.end_phy_offset, records, record_bytes, tuple(scan.damage)
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
    """Whether each split of a file begins where the one before it ended.

    The first begins where every walk over the file does. So if all fit they are, by induction, what one walk gives.
    """
    end: int | None = None
    for split, report in parts:
        if report.is_gone:
            return (
                True  # a deleted file cannot be checked, and each part reports its share as missing
            )
        start = report.start_phy_offset
        if end is not None and start != (end if end >= split.start else None):
            return False
        if start is None:
            continue
        is_read = split.end is None or start < split.end
        end = report.end_phy_offset if is_read else start
    return True
