"""What splits cost where no boundary tells where its split begins: a file is read once, however finely it is cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support.stores import hostile_logs, untold_store
from support.stores.read_bytes import counted_reads
from support.stores.split_runs import assert_same, plan_parts, read_splits, read_whole, scan_of
from support.stores.untold_store import UntoldStore

from rmqcore.spark.jobs import audit
from rmqcore.spark.reading import settle as settling
from rmqcore.spark.reading.settle import later_boundaries, settle
from rmqcore.spark.reading.split_start import BEHIND, ask_boundary
from rmqcore.spark.splits.split import Split

SIZE = 512 * 1024
MAX_RECORD = 4096


def sealed_log(root: Path, shape: str) -> Path:
    """A hostile file and a sound one behind it, so that the hostile one is cut."""
    path = hostile_logs.write_log(root, hostile_logs.SHAPES[shape](SIZE))
    behind = hostile_logs.each(SIZE, lambda pos: hostile_logs.record(SIZE + pos, b"x" * 5000))
    (path.parent / f"{SIZE:020}").write_bytes(behind)
    return root


@pytest.mark.parametrize("shape", sorted(hostile_logs.SHAPES))
def test_more_splits_read_hostile_files_no_more_often(shape: str, tmp_path: Path) -> None:
    """Each task walked from the beginning of the file to its boundary: 64 splits of `bad_bytes` read it 26 times, 16 8 times."""
    root = sealed_log(tmp_path, shape)
    whole = read_whole(root)
    with counted_reads() as once:
        assert_same(read_splits(plan_parts(root, 1, MAX_RECORD)), whole)
    for parts in (16, 64):
        plan = plan_parts(root, parts, MAX_RECORD)
        assert len(plan.splits) > parts * 3 // 4
        with counted_reads() as work:
            assert_same(read_splits(plan), whole)
        asked = 2 * parts * (2 * MAX_RECORD + BEHIND)
        assert work.read_bytes <= once.read_bytes * 1.1 + asked


def test_a_file_in_which_no_boundary_tells_is_read_by_its_first_task(tmp_path: Path) -> None:
    root = sealed_log(tmp_path, "bad_bytes")
    first, *others = [
        settle(split) for split in plan_parts(root, 32, MAX_RECORD).splits if split.start < SIZE
    ]
    assert len(others) > 25
    assert first.end is None and not first.is_skipped
    for settled in others:
        assert settled.is_skipped
        scan = scan_of(settled.split)
        assert (list(scan.run()), scan.damage) == ([], [])


def test_each_boundary_is_asked_twice_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = UntoldStore().write(tmp_path)
    asked: list[int] = []

    def noted(*args: Any) -> Any:
        asked.append(args[2])
        return ask_boundary(*args)

    monkeypatch.setattr(settling, "ask_boundary", noted)
    monkeypatch.setattr("rmqcore.spark.reading.split_start.ask_boundary", noted)
    parts = untold_store.FILE_SIZE // untold_store.PART
    plan = plan_parts(root, parts, untold_store.MAX_RECORD)
    settled = [settle(split) for split in plan.splits]
    skipped = [one.split.start for one in settled if one.is_skipped]
    assert max(asked.count(boundary) for boundary in asked) == 2
    assert set(asked) == {split.start for split in plan.splits if not split.aligned}
    # None of two files, some of one, all of another.
    by_file = [sum(start // untold_store.FILE_SIZE == n for start in skipped) for n in range(5)]
    most = by_file[0]
    assert most > 20
    assert by_file[3] == most
    assert 0 < by_file[1] < most
    assert by_file[2] == by_file[4] == 0


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 32, 100, 1000])
def test_a_split_knows_the_boundaries_behind_it(parts: int, tmp_path: Path) -> None:
    """By a rule, and not by a list of all of them in each split."""
    root = UntoldStore().write(tmp_path)
    plan = plan_parts(root, parts, untold_store.MAX_RECORD)
    for splits in of_files(plan.splits):
        starts = [split.start for split in splits]
        for number, split in enumerate(splits):
            assert list(later_boundaries(split)) == starts[number + 1 :]


def of_files(splits: list[Split]) -> list[list[Split]]:
    cuts = [n for n, split in enumerate(splits) if split.start == split.file.file_from_offset]
    return [splits[begin:end] for begin, end in pairwise([*cuts, len(splits)])]


@pytest.mark.parametrize("parts", [2, 7, 32, 100])
def test_splits_that_are_left_to_the_one_before(parts: int, tmp_path: Path) -> None:
    root = UntoldStore().write(tmp_path)
    assert_same(read_splits(plan_parts(root, parts, untold_store.MAX_RECORD)), read_whole(root))


def test_an_audit_asks_each_boundary_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its driver sees where each task ended: that a task asks the boundary of the next one, too, took a third of the time."""
    root = UntoldStore().write(tmp_path)
    asked: list[int] = []

    def noted(*args: Any) -> Any:
        asked.append(args[2])
        return ask_boundary(*args)

    def run(_spark: Any, work: Callable[[Any], Any], payloads: Sequence[Any]) -> list[Any]:
        return [work(payload) for payload in payloads]

    monkeypatch.setattr(settling, "ask_boundary", noted)
    monkeypatch.setattr("rmqcore.spark.reading.split_start.ask_boundary", noted)
    monkeypatch.setattr(audit, "run_tasks", run)
    spark: Any = None
    options: dict[str, Any] = dict(untold_store.CUT)
    report = audit.run_audit(spark, root, **options)
    assert len(asked) == len(set(asked)) == report.splits - report.files
    assert (report.records, report.rewalked_files) == (len(read_whole(root).rows), 0)
