"""A file that is cleaned or goes bad while a store is read in parts: each part reports its own share, and only that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.stores.bad_sectors import BadSectors
from support.stores.split_logs import FILE_SIZE, MAX_RECORD, split_log, write_store
from support.stores.split_runs import COLUMNS, Read, in_log_order, plan_parts, read_splits, scan_of

from rmqcore._native.scan.scan import ColumnScan
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.log_files import LogShape
from rmqcore.spark.reading.settle import settle
from rmqcore.spark.reading.split_scan import SplitScan
from rmqcore.spark.reading.split_start import walk_to
from rmqcore.spark.splits.planning import SplitPlan
from rmqcore.spark.splits.written import record_starts
from rmqcore.spark.storage.locations import find_stores
from rmqcore.vocabulary.units import PAGE

PARTS = 20


@pytest.fixture
def plan(tmp_path: Path) -> SplitPlan:
    logs = [split_log(("plain", "forged"), n, n * FILE_SIZE) for n in range(2)]
    return plan_parts(write_store(tmp_path, logs), PARTS, MAX_RECORD)


def test_parts_of_a_file_that_was_deleted_are_missing_once(plan: SplitPlan, tmp_path: Path) -> None:
    """Parts said that all of the file was missing; parts that begin in the middle of the file said nothing."""
    (tmp_path / "commitlog" / f"{0:020}").unlink()
    read = read_splits(plan)
    assert {damage.kind for damage in read.damage} == {"missing_file"}
    ends = [damage.end_phy_offset for damage in read.damage]
    assert [damage.start_phy_offset for damage in read.damage] == [0, *ends[:-1]]
    assert ends[-1] == FILE_SIZE
    assert len(ends) > PARTS // 2
    assert all(row[0] >= FILE_SIZE for row in read.rows)


def test_a_file_deleted_between_two_parts(plan: SplitPlan, tmp_path: Path) -> None:
    first, second = plan.splits[3:5]
    scan = scan_of(first)
    list(scan.run())
    assert scan.damage == []
    (tmp_path / "commitlog" / f"{0:020}").unlink()
    scan = scan_of(second)
    assert list(scan.run()) == []
    (lost,) = scan.damage
    assert (lost.start_phy_offset, lost.end_phy_offset) == (second.start, second.end)


def test_a_part_that_walks_to_its_start_misses_its_file_too(
    plan: SplitPlan, tmp_path: Path
) -> None:
    """The walk to the start reports a file that is gone as damage, and ends: the part seemed to be empty."""
    split = replace(plan.splits[4], walk_to_start=True)
    (tmp_path / "commitlog" / f"{0:020}").unlink()
    with pytest.raises(FileNotFoundError, match="deleted while it was read"):
        walk_to(split.file, split.shape, split.start)
    scan = scan_of(split)
    assert list(scan.run()) == []
    assert [damage.kind for damage in scan.damage] == ["missing_file"]


def test_a_reader_that_wants_less_than_a_part_checks_no_boundary(plan: SplitPlan) -> None:
    """It stops before the boundary, which looked like a log that ends there while the next part begins behind it."""
    for split in plan.splits:
        if split.end is None:
            continue
        assert split.check_end
        middle = (split.start + split.end) // 2
        settled = settle(split)
        scan = SplitScan(settled, ColumnScan(COLUMNS, stop_offset=settled.stop_offset(middle)))
        read = Read()
        for batch in scan.run():
            read.add(batch)
        assert all(split.start <= row[0] < middle for row in read.rows)


def test_a_walk_cuts_at_no_record_that_was_found_by_search(tmp_path: Path) -> None:
    """A part that begins with such a record would not know that it lies behind damage, and would leave its mark out."""
    log = split_log(("plain",), 1)
    root = write_store(tmp_path, [log])
    (store,) = find_stores(str(root))
    (file,) = store.log_files()
    shape = LogShape.of([file])
    (cut,) = record_starts(file, shape, 2)
    before = log.starts[log.starts.index(cut) - 1]
    log.data[before + 30] ^= 1
    (root / "commitlog" / f"{0:020}").write_bytes(log.data)
    (other,) = record_starts(file, shape, 2)
    assert other == log.start_at(cut + 1)
    read = read_splits(plan_parts(root, 2, MAX_RECORD, walk=True))
    assert read.resynced == {cut}


@pytest.mark.parametrize("seed", range(5))
def test_bad_sectors_are_told_by_the_part_that_owns_them(
    plan: SplitPlan, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part reads a window to its end, and the part behind it reads the same bytes: both told of the same sectors."""
    sectors = BadSectors({PAGE * (n * 37 + seed * 11) for n in range(1, 6)})
    sectors.of(monkeypatch, file_from_offset=0)
    parts = read_splits(plan)
    whole = read_splits(plan_parts(tmp_path, 1, MAX_RECORD))
    assert parts.rows == whole.rows
    assert set(parts.damage) == set(whole.damage)
    told = [damage for damage in parts.damage if damage.kind == "unreadable"]
    assert len({damage.start_phy_offset for damage in told}) == 5
    assert told == sorted(set(told), key=in_log_order)
    assert all(isinstance(damage, DamageRange) for damage in told)
