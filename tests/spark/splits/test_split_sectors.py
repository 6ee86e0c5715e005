"""Boundaries whose bytes the disk does not give, to every task or only to some; a file that is cut between two tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.stores import hostile_logs
from support.stores.bad_sectors import BadSectors
from support.stores.split_logs import split_log, write_store
from support.stores.split_runs import (
    Read,
    assert_same,
    plan_parts,
    read_splits,
    read_whole,
    scan_of,
)
from support.stores.untold_store import CUT, MAX_RECORD, UntoldStore
from support.stores.untold_store import FILE_SIZE as SMALL_FILE

from rmqcore.errors import SplitError
from rmqcore.spark.jobs import audit as audit_job
from rmqcore.spark.jobs import export as export_job
from rmqcore.spark.reading.settle import settle
from rmqcore.spark.reading.split_start import NO_BOUNDARY, UNREAD, ask_boundary
from rmqcore.spark.splits.planning import SplitPlan
from rmqcore.spark.splits.split import Split
from rmqcore.spark.splits.split_report import SplitReport, check_chain, fits_together
from rmqcore.vocabulary.units import PAGE

SIZE = 1 << 20
LARGEST = 16 * 1024
PARTS = 20


def hostile_plan(root: Path, shape: str) -> SplitPlan:
    log = hostile_logs.write_log(root, hostile_logs.SHAPES[shape](SIZE))
    behind = hostile_logs.each(SIZE, lambda pos: hostile_logs.record(SIZE + pos, b"x" * 5000))
    (log.parent / f"{SIZE:020}").write_bytes(behind)
    return plan_parts(root, PARTS, LARGEST)


def boundaries_of(plan: SplitPlan) -> list[int]:
    return [split.start for split in plan.splits if not split.aligned]


# ---- every task sees the same -----------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["bad_bytes", "failing_bodies", "to_the_end"])
def test_what_is_odd_beside_a_bad_sector_is_odd(
    shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one bad sector near each boundary each task walked to its start after all: 20 splits read the file eight times."""
    plan = hostile_plan(tmp_path, shape)
    boundaries = boundaries_of(plan)
    assert len(boundaries) > 12
    sectors = BadSectors({boundary // PAGE * PAGE - 2 * PAGE for boundary in boundaries})
    sectors.of(monkeypatch, file_from_offset=0)
    assert all(settle(split).is_skipped for split in plan.splits if not split.aligned)
    assert_same(read_splits(plan), read_splits(plan_parts(tmp_path, 1, LARGEST)))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("number", range(3), ids=["none tells", "some tell", "all tell"])
def test_bad_sectors_anywhere(
    number: int, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_parts(UntoldStore(seed).write(tmp_path), 32, MAX_RECORD)
    chance = Random(seed)
    pages = {PAGE * chance.randrange(SMALL_FILE // PAGE) for _ in range(6)}
    BadSectors(pages).of(monkeypatch, file_from_offset=number * SMALL_FILE)
    parts, whole = read_splits(plan), read_splits(plan_parts(tmp_path, 1, MAX_RECORD))
    assert (parts.rows, parts.resynced) == (whole.rows, whole.resynced)
    # Of a sector in which a split begins both tasks tell, the second from its first record on.
    more = [one for one in parts.damage if one not in whole.damage]
    assert [one for one in parts.damage if one not in more] == whole.damage
    assert {one.kind for one in more} <= {"unreadable"}
    assert all((one.end_phy_offset - PAGE) % SMALL_FILE in pages for one in more)


def test_a_boundary_in_a_bad_sector_is_walked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = hostile_plan(tmp_path, "bad_bytes")
    split = plan.splits[5]
    answer = ask_boundary(split.file, split.shape, split.start, LARGEST)
    assert answer == NO_BOUNDARY
    BadSectors({split.start // PAGE * PAGE}).of(monkeypatch, file_from_offset=0)
    assert ask_boundary(split.file, split.shape, split.start, LARGEST) == UNREAD
    first, own = settle(plan.splits[0]), settle(split)
    assert (first.end, own.end) == (split.start, None)
    assert own.start is not None and own.start.phy_offset is not None


# ---- a sector that one task can read and another cannot -----------------------------------------------


class FailingSector:
    """A store in which one boundary does not tell, because of one flipped bit, in a sector that tasks may not be able to read."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, *, hurt: bool = True) -> None:
        logs = [split_log(("plain",), n, n * SIZE) for n in range(2)]
        sealed = logs[0]
        self.number = 7
        boundary = SIZE * self.number // PARTS
        self.page = boundary // PAGE * PAGE - PAGE
        if hurt:
            sealed.data[sealed.starts[sealed.starts.index(sealed.start_at(self.page))] + 30] ^= 1  # type: ignore[arg-type]
        self.root = write_store(root, logs)
        self.plan = plan_parts(root, PARTS, LARGEST)
        assert self.plan.splits[self.number].start == boundary
        self._sectors = BadSectors()
        self._sectors.of(monkeypatch, file_from_offset=0)

    def see(self, *, fails: bool) -> None:
        self._sectors.pages = {self.page} if fails else set()

    def run(
        self, work: Callable[[Any], Any], payloads: Sequence[Any], failing: set[int]
    ) -> list[Any]:
        """All tasks, some of which find that the sector fails."""
        answers = []
        for number, payload in enumerate(payloads):
            self.see(fails=number in failing)
            answers.append(work(payload))
        self.see(fails=False)
        return answers


@pytest.mark.parametrize("failing", [{6}, {7}, {6, 7}, {5, 6}, {7, 8}])
def test_where_a_boundary_tells_it_is_no_matter_who_reads_it(
    failing: set[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sector = FailingSector(tmp_path, monkeypatch, hurt=False)
    read = Read()

    def work(split: Split) -> None:
        scan = scan_of(split)
        for batch in scan.run():
            read.add(batch)

    # The walk itself reads the sector: a task that fails on it delivers the records in it no more, and no other task does.
    lost = {
        row
        for row in read_whole(tmp_path).rows
        if sector.page - LARGEST < row[0] < sector.page + PAGE
    }
    sector.run(work, sector.plan.splits, failing)
    rows = read_whole(tmp_path).rows
    assert len(set(read.rows)) == len(read.rows)
    assert set(rows) - lost <= set(read.rows) <= set(rows)


@pytest.mark.parametrize("failing", [{6}, {7}])
def test_tasks_that_do_not_agree_are_found_out(
    failing: set[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them takes the boundary for none, and the other does not: the rows behind it would be lost, or come twice."""
    sector = FailingSector(tmp_path / "b", monkeypatch)
    splits = sector.plan.splits
    agreed = sector.run(audit_job.audit_split, splits, set())
    assert agreed[7].is_skipped
    check_chain(splits, agreed)
    reports: list[SplitReport] = sector.run(audit_job.audit_split, splits, failing)
    rows = sum(report.records for report in reports)
    assert rows != sum(report.records for report in agreed)
    assert not fits_together(list(zip(splits, reports, strict=True))[:PARTS])
    with pytest.raises(SplitError):
        check_chain(splits, reports)


@pytest.mark.parametrize("failing", [{6}, {7}])
def test_an_audit_does_not_depend_on_it_and_an_export_fails(
    failing: set[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sector = FailingSector(tmp_path / "b", monkeypatch)

    def run(_spark: Any, work: Callable[[Any], Any], payloads: Sequence[Any]) -> list[Any]:
        return sector.run(work, payloads, failing if len(payloads) > 1 else set())

    monkeypatch.setattr(audit_job, "run_tasks", run)
    monkeypatch.setattr(export_job, "run_tasks", run)
    options: dict[str, Any] = {
        "maxPartitionBytes": -(-SIZE // PARTS),
        "maxRecordSize": LARGEST,
        "splitMode": "resync",
    }
    spark: Any = None
    report = audit_job.run_audit(spark, sector.root, **options)
    sector.see(fails=6 in failing)  # whose own records lie in the sector
    whole = read_whole(sector.root)
    assert report.records == len(whole.rows)
    assert {found for _, found in report.damage} == set(whole.damage)
    assert report.rewalked_files == 0
    with pytest.raises(SplitError):
        export_job.export_parquet(spark, sector.root, tmp_path / "out", **options)
    assert not list((tmp_path / "out").glob("topic_dir=*"))


# ---- a file that is cut between two tasks -------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("number", range(3), ids=["none tells", "some tell", "all tell"])
def test_a_file_that_is_cut_while_tasks_read_it(number: int, seed: int, tmp_path: Path) -> None:
    """Tasks whose splits lay behind the new end found nothing there, and said nothing: rows were lost in silence."""
    plan = plan_parts(UntoldStore(seed).write(tmp_path), 32, MAX_RECORD)
    whole = read_whole(tmp_path)
    chance = Random(seed)
    splits = [split for split in plan.splits if split.file.file_from_offset == number * SMALL_FILE]
    chance.shuffle(splits)
    cut = int(CUT["maxPartitionBytes"]) * chance.randrange(2, 26) + chance.randrange(2500, 3000)
    cut_when = chance.randrange(len(splits))
    rows: Counter[tuple[int, ...]] = Counter()
    damage = []
    for at, split in enumerate(splits):
        if at == cut_when:
            with open(split.file.path, "r+b") as file:
                file.truncate(cut)
        scan, read = scan_of(split), Read()
        for batch in scan.run():
            read.add(batch)
        rows.update(read.rows)
        damage += scan.damage
    own = [row for row in whole.rows if row[0] // SMALL_FILE == number]
    assert set(rows) <= set(own)
    assert max(rows.values()) == 1
    lost = {row[0] for row in own if row not in rows}
    assert all(at + MAX_RECORD > number * SMALL_FILE + cut for at in lost)
    if lost:
        told = {
            one.start_phy_offset for one in damage if one.kind in {"missing_file", "short_file"}
        }
        assert min(told) <= min(lost)
