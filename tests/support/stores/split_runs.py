"""What a whole log gives in one walk, and what its splits give one after the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.walk import Blank, LogWalk
from rmqcore.offline.missing_log import LOG_MISSING
from rmqcore.spark.reading.settle import settle
from rmqcore.spark.reading.split_scan import SplitScan
from rmqcore.spark.reading.store_end import pin_stores
from rmqcore.spark.splits.planning import SplitPlan, plan_store
from rmqcore.spark.splits.sizing import Sizing, SplitMode
from rmqcore.spark.splits.split import Split
from rmqcore.spark.storage.locations import find_stores

COLUMNS = ["phy_offset", "msg_size", "body_crc", "store_timestamp_ms"]


@dataclass
class Read:
    """Rows as tuples, damage, and the records that were found by search."""

    rows: list[tuple[int, ...]] = field(default_factory=list)
    damage: list[DamageRange] = field(default_factory=list)
    resynced: set[int] = field(default_factory=set)

    def add(self, batch: Batch | Blank) -> None:
        assert isinstance(batch, Batch)
        types = [np.int64, np.int32, np.int32, np.int64]
        columns = [
            np.frombuffer(batch.buffer(name), kind).tolist()
            for name, kind in zip(COLUMNS, types, strict=True)
        ]
        self.rows += zip(*columns, strict=True)


def read_whole(root: Path, *, verify_crc: bool = False) -> Read:
    """One walk over all files; what begins behind damage was found by search."""
    files = find_stores(str(root))[0].log_files()
    read = Read()
    walk = LogWalk(files, ColumnScan(COLUMNS), read.damage, verify_crc=verify_crc)
    for batch in walk.run():
        read.add(batch)
    # The beginning of a file is no find, whatever lacks before it.
    starts = {row[0] for row in read.rows} - {file.file_from_offset for file in files}
    read.resynced = {one.end_phy_offset for one in read.damage if one.kind != "crc"} & starts
    return read


def read_splits(plan: SplitPlan, *, verify_crc: bool = False) -> Read:
    """Every split with a scan of its own; damage in the order of the log, that between files included."""
    read = Read()
    for split in plan.splits:
        scan = scan_of(split, verify_crc=verify_crc)
        before = len(read.rows)
        for batch in scan.run():
            read.add(batch)
        read.damage += scan.damage
        read.resynced |= scan.resynced & {row[0] for row in read.rows[before:]}
    # A walk alone, with which this is compared, asks neither queues nor checkpoint.
    gaps = [gap for gap in plan.gaps if gap.kind != LOG_MISSING]
    read.damage = sorted(read.damage + gaps, key=in_log_order)
    return read


def scan_of(split: Split, *, verify_crc: bool = False) -> SplitScan[Batch]:
    settled = settle(split)
    sink = ColumnScan(COLUMNS, stop_offset=settled.stop_offset())
    return SplitScan(settled, sink, verify_crc=verify_crc)


def in_log_order(one: DamageRange) -> tuple[int, int, str]:
    return one.start_phy_offset, one.end_phy_offset, one.kind


def plan_parts(
    root: Path,
    parts: int,
    max_record_size: int,
    *,
    walk: bool = False,
    mode: SplitMode = "resync",
    pinned: bool = False,
) -> SplitPlan:
    """Cut every file into about so many splits, as far as the mode lets it be cut."""
    (store,) = find_stores(str(root))
    size = max((file.size for file in store.log_files()), default=1)
    sizing = Sizing(
        max_partition_bytes=-(-size // parts),
        split_mode="walk" if walk else mode,
        max_record_size=max_record_size,
    )
    if pinned:
        (store,) = pin_stores([store], sizing)
    return plan_store(store, sizing)


def assert_same(split: Read, whole: Read) -> None:
    """No record lost, none twice, none in another place; the same damage."""
    assert split.rows == whole.rows
    assert split.damage == sorted(whole.damage, key=in_log_order)
    assert split.resynced == whole.resynced
