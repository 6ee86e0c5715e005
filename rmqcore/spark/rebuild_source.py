"""The store that a rebuild reads: its splits, and what the tasks report of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from rmqcore.config import MessageStoreConfig
from rmqcore.errors import SplitError
from rmqcore.offline.damage import DamageRange
from rmqcore.offline.store_config import found_config
from rmqcore.spark.locations import StoreLocation, find_stores
from rmqcore.spark.planning import Sizing, plan_store
from rmqcore.spark.split_scan import SplitScan
from rmqcore.spark.splits import Split

GONE = "missing_file"


@dataclass(frozen=True)
class RebuildSource:
    """What is read, in the order of the log.

    Attributes
    ----------
    location : StoreLocation
    config : MessageStoreConfig
        With the file sizes that the store has.
    splits : tuple of Split
    gaps : tuple of DamageRange
        Between files.
    """

    location: StoreLocation
    config: MessageStoreConfig
    splits: tuple[Split, ...]
    gaps: tuple[DamageRange, ...]

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        config: MessageStoreConfig | str | os.PathLike[str] | None,
        sizing: Sizing | None,
        storage: Mapping[str, str] | None,
    ) -> RebuildSource:
        """Plan the rebuild of one store.

        Raises
        ------
        ValueError
            `path` is more than one store.
        NotAStoreError
            It is none.
        """
        stores = find_stores(path, storage)
        if len(stores) != 1:
            names = ", ".join(store.broker for store in stores)
            raise ValueError(f"a rebuild is of one store, not of {len(stores)}: {names}")
        given = config
        if given is not None and not isinstance(given, MessageStoreConfig):
            given = MessageStoreConfig.from_broker_conf(given)
        location = stores[0]
        settings = given or MessageStoreConfig()
        if location.is_local:
            settings = found_config(location.paths, settings)
        plan = plan_store(location, sizing)
        return cls(location, settings, tuple(plan.splits), tuple(plan.gaps))


@dataclass(frozen=True)
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
        return any(found.kind == GONE for found in self.damage)


def check_chain(splits: Sequence[Split], reports: Sequence[SplitReport]) -> None:
    """Hold each split's beginning against the end of the one before it.

    Raises
    ------
    SplitError
        They are not the same place.
    """
    pairs = zip(splits, reports, strict=True)
    for _, group in groupby(pairs, key=lambda pair: pair[0].file.file_from_offset):
        end: int | None = None
        for split, report in group:
            if report.is_gone:
                break
            start = report.start_phy_offset
            if end is not None:
                if start is None and end >= split.start:
                    raise SplitError(split.file.name, split.start, split.start, str(end))
                if start is not None and start != end:
                    raise SplitError(split.file.name, split.start, start, str(end))
            if start is None:
                continue
            reads = split.end is None or start < split.end
            end = report.end_phy_offset if reads else start


def all_damage(gaps: Sequence[DamageRange], reports: Sequence[SplitReport]) -> list[DamageRange]:
    """The damage of the whole log, in the order of its bytes."""
    found = [*gaps, *(damage for report in reports for damage in report.damage)]
    return sorted(found, key=lambda damage: damage.start_phy_offset)


def open_ends(splits: Sequence[Split]) -> list[int]:
    """Numbers of the splits that end where the log does: on a live store each look at them can find more."""
    return [
        number
        for number, split in enumerate(splits)
        if split.end is None and split.file.file_from_offset >= split.shape.tail_from
    ]


def pin_end(split: Split, end: int) -> Split:
    """The split as it was when its end was found: whoever reads it later reads no more, and no less."""
    return replace(split, end=max(end, split.start), check_end=False, must_reach=True)


def pin_start(split: Split, report: SplitReport) -> Split:
    """The split with its start known, from whoever has read it and was checked."""
    if report.start_phy_offset is None:
        return split
    return replace(split, start=report.start_phy_offset, aligned=True, check_end=False)


def log_facts(splits: Sequence[Split], reports: Sequence[SplitReport]) -> dict[str, Any]:
    """The range of the log that was read, and what it holds."""
    return {
        "start_phy_offset": splits[0].start if splits else 0,
        "end_phy_offset": max((report.end_phy_offset for report in reports), default=0),
        "records": sum(report.records for report in reports),
        "damaged_ranges": sum(len(report.damage) for report in reports),
    }
