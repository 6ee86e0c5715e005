"""The newest file is cut as far as it is written, and small files are: the rows and the damage stay those of one walk.

A store of one file of 1 GiB was one task, however many cores there were: behind the end of a log may lie records of an earlier
life of the file, sound and in their place, so nobody cut the file in which the log ends.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.stores.sparse_store import sparse_store
from support.stores.split_logs import (
    FILE_SIZE,
    MAX_RECORD,
    Bodies,
    SplitLog,
    record,
    split_log,
    stale,
    write_store,
)
from support.stores.split_runs import Read, assert_same, plan_parts, read_splits, read_whole

from rmqcore.offline.log.log_files import LogFile
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.reading.store_end import pin_stores
from rmqcore.spark.runtime.parallelism import driver_cores
from rmqcore.spark.splits import planning
from rmqcore.spark.splits.planning import Span, plan_store, plan_stores
from rmqcore.spark.splits.sizing import MIB, Sizing
from rmqcore.spark.splits.split import Split
from rmqcore.spark.splits.written import WrittenPart, written_part
from rmqcore.spark.storage.locations import find_stores

PARTS = (2, 7, 50)
LIVE = FILE_SIZE // 3


def end_of(log: SplitLog) -> int:
    """Behind the last record that was appended, a position in the file."""
    at = log.starts[-1]
    return at + int.from_bytes(log.data[at : at + 4], "big")


def preallocated(seed: int = 1, live_bytes: int = LIVE) -> SplitLog:
    """Records, and room for more."""
    log, rng = SplitLog(), Random(seed)
    while len(log.data) < live_bytes:
        log.append(lambda at: rng.randbytes(rng.randrange(2000)))
    log.data += bytes(FILE_SIZE - len(log.data))
    return log


def torn(seed: int, kept: int) -> SplitLog:
    """The last record was being written when the machine stopped: some of its first bytes are there."""
    log = preallocated(seed)
    at, end = log.starts.pop(), end_of(log)
    assert at == end
    size = int.from_bytes(log.data[at : at + 4], "big")
    log.data[at + min(kept, size - 1) : at + size] = bytes(size - min(kept, size - 1))
    return log


NEWEST: dict[str, Callable[[int], SplitLog]] = {
    "stale records behind the end": lambda seed: stale(Bodies.KINDS, seed, LIVE),
    "plain stale records": lambda seed: stale(("plain",), seed, LIVE),
    "preallocated zeros": preallocated,
    "a torn header": lambda seed: torn(seed, 30),
    "a torn record": lambda seed: torn(seed, 150),
    "full": lambda seed: split_log(Bodies.KINDS, seed),
}


def newest_splits(splits: list[Split]) -> list[Split]:
    return [split for split in splits if split.file.file_from_offset == split.shape.tail_from]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("kind", sorted(NEWEST))
def test_a_newest_file_is_cut_below_its_end_and_nowhere_else(
    kind: str, parts: int, seed: int, tmp_path: Path
) -> None:
    log = NEWEST[kind](seed)
    root = write_store(tmp_path, [log])
    plan = plan_parts(root, parts, MAX_RECORD, mode="auto")
    end = end_of(log)
    starts = [split.start for split in plan.splits]
    assert set(starts) <= set(log.starts)
    assert max(starts) < end
    assert [split.end for split in plan.splits] == [*starts[1:], None]
    # As many as its written bytes make, of about one size: a cut is at the first record behind its place.
    most = -(-FILE_SIZE // parts)
    assert len(plan.splits) == -(-end // most)
    sizes = [after - before for before, after in pairwise([*starts, end])]
    assert max(sizes) - min(sizes) <= 2 * (10 * MAX_RECORD + most // 4)
    assert_same(read_splits(plan), read_whole(root))


def test_files_that_were_allocated_ahead_are_not_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java allocates the next file while the present one is filled: there is nothing in it to walk over."""
    monkeypatch.delattr(planning, "record_starts")
    root = write_store(tmp_path, [preallocated()])
    (root / "commitlog" / f"{FILE_SIZE:020}").write_bytes(bytes(FILE_SIZE))
    plan = plan_parts(root, 7, MAX_RECORD, mode="auto")
    assert len(newest_splits(plan.splits)) == 3
    assert len(plan.splits) == 4
    assert_same(read_splits(plan), read_whole(root))


at_log = st.tuples(st.integers(0, FILE_SIZE - 1), st.integers(0, 255))


@given(
    kind=st.sampled_from(sorted(NEWEST)),
    flips=st.lists(at_log, max_size=4),
    near_cuts=st.lists(st.tuples(st.integers(0, 60), st.integers(-3, 200)), max_size=3),
    parts=st.sampled_from(PARTS),
    sealed=st.booleans(),
    verify_crc=st.booleans(),
)
def test_damage_anywhere_is_the_same_as_in_one_walk(
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    flips: list[tuple[int, int]],
    near_cuts: list[tuple[int, int]],
    parts: int,
    sealed: bool,
    verify_crc: bool,
) -> None:
    """Flipped bytes, many of them just around the records at which a sound file would be cut."""
    logs = [log_of(kind), preallocated_at(FILE_SIZE)] if sealed else [log_of(kind)]
    root = write_store(tmp_path_factory.mktemp("newest"), logs)
    file = root / "commitlog" / f"{0:020}"
    starts = [split.start for split in plan_parts(root, parts, MAX_RECORD, mode="auto").splits]
    data = bytearray(file.read_bytes())
    places = [(at, value) for at, value in flips]
    places += [(max(0, starts[n % len(starts)] + by), 0x5A) for n, by in near_cuts]
    for at, value in places:
        data[at % len(data)] ^= value
    file.write_bytes(data)
    plan = plan_parts(root, parts, MAX_RECORD, mode="auto")
    assert_same(read_splits(plan, verify_crc=verify_crc), read_whole(root, verify_crc=verify_crc))


@cache
def log_of(kind: str) -> SplitLog:
    return NEWEST[kind](1)


@cache
def preallocated_at(base: int) -> SplitLog:
    log, rng = SplitLog(base), Random(9)
    while len(log.data) < LIVE:
        log.append(lambda at: rng.randbytes(500))
    log.data += bytes(FILE_SIZE - len(log.data))
    return log


# ---- a log that goes on -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["stale records behind the end", "preallocated zeros"])
def test_a_broker_that_writes_on_changes_nothing_that_was_cut(kind: str, tmp_path: Path) -> None:
    """Between a plan and its tasks the broker writes over what lay behind the end: stale records must not have been cuts."""
    log = NEWEST[kind](2)
    root = write_store(tmp_path, [log])
    before = read_whole(root).rows
    end = end_of(log)
    plan = plan_parts(root, 20, MAX_RECORD, mode="auto")
    behind, rng, at = b"", Random(4), end
    while at < end + FILE_SIZE // 3:
        raw = record(rng.randbytes(rng.randrange(3000)), at)
        behind, at = behind + raw, at + len(raw)
    with open(root / "commitlog" / f"{0:020}", "r+b") as file:
        file.seek(end)
        file.write(behind)
    read = read_splits(plan)
    assert_same(read, read_whole(root))
    assert [row for row in read.rows if row[0] < end] == [row for row in before if row[0] < end]


def test_nothing_at_or_behind_a_given_end_is_read_or_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = preallocated(live_bytes=FILE_SIZE * 3 // 4)
    root = write_store(tmp_path, [log])
    (store,) = find_stores(str(root))
    end = log.starts[len(log.starts) // 2]
    walked: list[int | None] = []

    def noted(*args: int, stop: int | None = None) -> WrittenPart:
        part = written_part(*args, stop=stop)  # type: ignore[arg-type]
        walked.append(part.end)
        return part

    monkeypatch.setattr(planning, "written_part", noted)
    sizing = Sizing(MAX_RECORD, max_record_size=MAX_RECORD)
    plan = plan_store(store, sizing, Span(end_phy_offset=end))
    assert walked == [end]
    assert max(split.start for split in plan.splits) < end
    assert len(plan.splits) == len(range(0, end, MAX_RECORD))
    rows = [row for row in read_splits(plan).rows if row[0] < end]
    assert rows == [row for row in read_whole(root).rows if row[0] < end]


def test_a_file_that_is_gone_is_left_to_its_task(tmp_path: Path) -> None:
    gone = LogFile(tmp_path / "00000000000000000000", 0, FILE_SIZE)
    assert written_part(gone, 1000) == WrittenPart(0, 0, ())
    assert WrittenPart(0, 0, ()).cuts(1000) == []


# ---- how finely -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cores", "wanted"), [(1, 1), (2, 2), (4, 4), (16, 5), (1000, 5)], ids=str)
def test_all_cores_read_one_file_of_which_little_is_written(
    cores: int, wanted: int, tmp_path: Path
) -> None:
    """40 MiB of 1 GiB that were allocated: parts of 8 MiB at least, and what is not written makes none of them larger."""
    (store,) = find_stores(str(sparse_store(tmp_path, 39 * MIB, 1024 * MIB)))
    plan = plan_store(store, Sizing(parallelism=cores))
    assert len(plan.splits) == wanted
    assert plan.most_bytes < 41 * MIB
    if wanted > 1:
        starts = [split.start for split in plan.splits]
        assert min(after - before for before, after in pairwise(starts)) > 7 * MIB


def test_a_small_store_is_one_task(tmp_path: Path) -> None:
    (store,) = find_stores(str(sparse_store(tmp_path, 7 * MIB, 8 * MIB)))
    assert len(plan_store(store, Sizing(parallelism=1000)).splits) == 1


@pytest.mark.parametrize(("files", "parts"), [(3, 10), (5, 1)])
def test_files_that_the_rule_leaves_whole_are_cut_where_that_saves_time(
    files: int, parts: int, tmp_path: Path
) -> None:
    """The rule asks nothing within 16 of the largest records of a file's end. The planner walked up to 512 MiB for that."""
    logs = [split_log(("plain",), n, n * FILE_SIZE) for n in range(files)]
    root = write_store(tmp_path, logs)
    (store,) = find_stores(str(root))
    plan = plan_store(store, Sizing(-(-FILE_SIZE // 10)))
    starts = [split.file.file_from_offset for split in plan.splits]
    assert [starts.count(n * FILE_SIZE) for n in range(files)] == [parts] * files
    assert all(split.aligned for split in plan.splits)
    assert_same(read_splits(plan), read_whole(root))


def test_several_stores_share_the_cores(tmp_path: Path) -> None:
    """What is allocated and not written counts in no store."""
    paths = [sparse_store(tmp_path / name, 16 * MIB, 256 * MIB) for name in ("a", "b")]
    stores = pin_stores(find_stores([str(path) for path in paths]))
    plans = plan_stores([(store, Span()) for store in stores], Sizing(parallelism=4))
    assert [len(plan.splits) for plan in plans] == [2, 2]
    assert plans[0].most_bytes == plans[1].most_bytes < 9 * MIB


def test_a_file_elsewhere_is_not_brought_here_for_a_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_store(tmp_path, [preallocated()])
    (store,) = find_stores(str(root))
    files = store.log_files()
    monkeypatch.setattr(type(store), "is_local", False)
    monkeypatch.setattr(type(store), "log_files", lambda _: files)
    monkeypatch.setattr(type(store), "missing_log", lambda *_: [])
    assert len(plan_store(store, Sizing(FILE_SIZE // 10)).splits) == 1


def test_the_options_say_how_many_tasks_run_at_once() -> None:
    class Context:
        defaultParallelism = 48  # noqa: N815 - Spark's name

    class Session:
        sparkContext = Context()  # noqa: N815 - Spark's name

    def cores(**given: str) -> int:
        return SourceOptions.parse({"path": "x", **given}).sizing().parallelism

    assert cores() == driver_cores() == len(os.sched_getaffinity(0))
    assert cores(parallelism="7") == 7
    # Who wants another number of parts gets that.
    assert cores(parallelism="7", minPartitions="2") == 1
    options = SourceOptions.parse({"path": "x"})
    assert options.in_session(Session()).sizing().parallelism == 48
    assert replace(options, parallelism=7).in_session(Session()).sizing().parallelism == 7
    # A session of Spark Connect does not say.
    assert options.in_session(object()) == options


def test_reads_that_are_the_same_twice(tmp_path: Path) -> None:
    """A plan depends on the files alone."""
    root = write_store(tmp_path, [stale(Bodies.KINDS, 5, LIVE)])
    first, second = (plan_parts(root, 9, MAX_RECORD, mode="auto") for _ in range(2))
    assert first == second
    found: list[Read] = [read_splits(first), read_splits(second)]
    assert_same(found[0], found[1])
