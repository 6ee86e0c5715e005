"""What a job reads: stores cut into splits, what each task reports of its split, and whether the reports fit together."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from rmqcore.offline.damage import DamageRange
from rmqcore.spark.locations import StoreLocation, find_stores
from rmqcore.spark.options import SourceOptions, Table, texts_of
from rmqcore.spark.planning import SplitPlan, plan_store
from rmqcore.spark.split_scan import SplitScan
from rmqcore.spark.splits import Split

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""A store, a list of them, a glob; see `find_stores`."""


@dataclass(frozen=True)
class JobSource:
    """Stores and options of a job, checked before anything runs.

    Attributes
    ----------
    options : SourceOptions
    stores : list of StoreLocation
    """

    options: SourceOptions
    stores: list[StoreLocation]

    @classmethod
    def open(cls, paths: Paths, options: Mapping[str, Any], table: Table = "messages") -> JobSource:
        """Check options and find the stores.

        Raises
        ------
        ValueError
            A wrong option, or one that has no meaning for this table of the data source.
        NotAStoreError, FileNotFoundError, NotADirectoryError
            See `find_stores`.
        """
        parsed = SourceOptions.parse({"table": table, **texts_of(options)})
        return cls(parsed, find_stores(paths, dict(parsed.storage)))

    def plans(self) -> list[SplitPlan]:
        """Cut the stores; `minPartitions` is wanted of all together."""
        sizing = self.options.sizing()
        if len(self.stores) > 1:
            sizes = (file.size for store in self.stores for file in store.log_files())
            sizing = sizing.for_bytes(sum(sizes))
        return [plan_store(store, sizing, self.options.span(store.broker)) for store in self.stores]

    def splits(self) -> list[Split]:
        """The splits of all stores."""
        return [split for plan in self.plans() for split in plan.splits]


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
            return True  # of what is gone nothing can be checked, and each part says that it lacks
        start = report.start_phy_offset
        if end is not None and start != (end if end >= split.start else None):
            return False
        if start is None:
            continue
        is_read = split.end is None or start < split.end
        end = report.end_phy_offset if is_read else start
    return True
