"""Splits of whole stores, before any of their records is read."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from rmqcore._native.scan import ColumnScan
from rmqcore.offline.damage import DamageRange
from rmqcore.offline.files import LogFile, LogShape
from rmqcore.offline.walk import Blank, LogWalk, gap_between
from rmqcore.spark.locations import StoreLocation
from rmqcore.spark.splits import DEFAULT_MAX_RECORD_SIZE, Split

SplitMode = Literal["auto", "resync", "walk"]
MIB = 1024 * 1024


@dataclass(frozen=True)
class Sizing:
    """How finely files are cut; see the options of the same names.

    Attributes
    ----------
    max_partition_bytes : int
        No split has more, but for the file's last one.
    min_partitions : int
        Wanted in all; a hint.
    split_mode : {"auto", "resync", "walk"}
    max_record_size : int
    """

    max_partition_bytes: int = 128 * MIB
    min_partitions: int = 1
    split_mode: SplitMode = "auto"
    max_record_size: int = DEFAULT_MAX_RECORD_SIZE


@dataclass(frozen=True)
class Span:
    """Ranges outside of which nothing is asked for; None where there is no limit.

    Attributes
    ----------
    start_phy_offset, end_phy_offset : int or None
        CommitLog offsets, the end exclusive.
    since_ms, until_ms : int or None
        Store timestamps, the end exclusive.
    """

    start_phy_offset: int | None = None
    end_phy_offset: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None


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
    sizing : Sizing, optional
    span : Span, optional
        Files and splits outside are left out.
    """
    sizing, span = sizing or Sizing(), span or Span()
    files = location.log_files()
    shape = LogShape.of(files)
    gaps = [
        gap for one, other in pairwise(files) for gap in gap_between(one, other, shape.file_size)
    ]
    splits = [split for file in files for split in _cut(location, file, shape, sizing)]
    low, high = span.start_phy_offset, span.end_phy_offset
    wanted = [
        split
        for split in splits
        if (low is None or split.start + split.byte_count > low)
        and (high is None or split.start < high)
    ]
    used = {split.file.file_from_offset for split in wanted}
    return SplitPlan(location, wanted, gaps, len(files) - len(used))


def _cut(location: StoreLocation, file: LogFile, shape: LogShape, sizing: Sizing) -> list[Split]:
    starts = [file.file_from_offset]
    count = -(-file.size // sizing.max_partition_bytes)
    if count > 1 and sizing.split_mode == "walk":
        starts += _record_starts(file, shape, count)
    ends = [*starts[1:], None]
    return [
        Split(location.broker, file, shape, start, end, max_record_size=sizing.max_record_size)
        for start, end in zip(starts, ends, strict=True)
    ]


def _record_starts(file: LogFile, shape: LogShape, count: int) -> list[int]:
    """Starts of records that cut a file into about `count` equal parts, found by a walk over it."""
    damage: list[DamageRange] = []
    walk = LogWalk([file], ColumnScan(["phy_offset"]), damage, shape=shape)
    found = [
        np.asarray(batch.buffer("phy_offset")).view(np.int64)
        for batch in walk.run()
        if not isinstance(batch, Blank)
    ]
    starts = np.concatenate(found) if found else np.empty(0, np.int64)
    wanted = file.file_from_offset + np.arange(1, count) * file.size // count
    at = np.searchsorted(starts, wanted)
    return [int(start) for start in np.unique(starts[at[at < len(starts)]])]
