"""Plans: where files are cut and where never, and what is left out by offset and by time."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from support.oracle import records as oracle
from support.stores.split_logs import FILE_SIZE, MAX_RECORD, Bodies, split_log, write_store
from support.stores.split_runs import plan_parts, read_splits, read_whole

from rmqcore.offline.log.log_files import LogFile
from rmqcore.spark.splits.planning import Span, plan_store
from rmqcore.spark.splits.sizing import MIB, Sizing, SplitMode
from rmqcore.spark.splits.split import TAIL_RECORDS
from rmqcore.spark.splits.time_pruning import files_in_time, first_store_timestamp
from rmqcore.spark.storage.locations import StoreLocation, find_stores

LIMIT = FILE_SIZE - TAIL_RECORDS * MAX_RECORD


def sparse_store(root: Path, count: int, file_size: int) -> StoreLocation:
    """Files without a byte on disk, but for the header of the newest."""
    log = root / "commitlog"
    log.mkdir(parents=True)
    for number in range(count):
        with open(log / f"{number * file_size:020}", "wb") as file:
            file.truncate(file_size)
    header = oracle.encode_record(oracle.Record(b"t", b"", b"", phy_offset=(count - 1) * file_size))
    with open(log / f"{(count - 1) * file_size:020}", "r+b") as file:
        file.write(header)
    (store,) = find_stores(str(root))
    return store


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files, each of an adversarial kind; the last one is the log's tail."""
    logs = [split_log(Bodies.KINDS, n, n * FILE_SIZE) for n in range(3)]
    return write_store(tmp_path_factory.mktemp("store"), logs)


# ---- where a file is cut ----------------------------------------------------------------------------


def test_no_boundary_near_a_files_end_and_none_in_the_tail(root: Path) -> None:
    (store,) = find_stores(str(root))
    sizing = Sizing(FILE_SIZE // 50, split_mode="resync", max_record_size=MAX_RECORD)
    plan = plan_store(store, sizing)
    by_file = [
        [split for split in plan.splits if split.file.file_from_offset == n * FILE_SIZE]
        for n in range(3)
    ]
    assert len(by_file[0]) == len(by_file[1]) > 40
    assert len(by_file[2]) == 1
    for number, splits in enumerate(by_file):
        assert [split.end for split in splits[:-1]] == [split.start for split in splits[1:]]
        assert splits[0].start == number * FILE_SIZE
        assert splits[-1].end is None
        assert all(split.start <= number * FILE_SIZE + LIMIT for split in splits)
        assert [split.aligned for split in splits] == [True] + [False] * (len(splits) - 1)
        assert [split.check_end for split in splits] == [True] * (len(splits) - 1) + [False]


def test_a_walk_cuts_every_file_at_its_records(root: Path) -> None:
    plan = plan_parts(root, 50, MAX_RECORD, walk=True)
    starts = {row[0] for row in read_whole(root).rows}
    assert len(plan.splits) > 140
    assert all(split.aligned and split.start in starts for split in plan.splits)


def test_a_default_plan_leaves_small_files_whole(root: Path) -> None:
    (store,) = find_stores(str(root))
    assert [split.start for split in plan_store(store).splits] == [0, FILE_SIZE, 2 * FILE_SIZE]


@pytest.mark.parametrize(
    ("wanted", "of_a_sealed_file"), [(1, 1), (4, 1), (8, 2), (30, 7), (4000, 49)]
)
def test_min_partitions_make_smaller_splits_but_none_below_a_mebibyte(
    wanted: int, of_a_sealed_file: int, tmp_path: Path
) -> None:
    store = sparse_store(tmp_path, 4, 64 * MIB)
    plan = plan_store(
        store, Sizing(min_partitions=wanted, split_mode="resync", max_record_size=MIB)
    )
    assert len(plan.splits) == 3 * of_a_sealed_file + 1
    assert min(split.byte_count for split in plan.splits) >= MIB


def test_a_walk_makes_splits_of_any_size(root: Path) -> None:
    (store,) = find_stores(str(root))
    plan = plan_store(store, Sizing(min_partitions=100, split_mode="walk"))
    assert 90 < len(plan.splits) <= 102


def test_a_split_is_small_when_it_is_sent(root: Path) -> None:
    for split in plan_parts(root, 3, MAX_RECORD).splits:
        data = pickle.dumps(split)
        assert pickle.loads(data) == split
        assert len(data) < 600


# ---- by offset --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("walk", [False, True], ids=["resync", "walk"])
def test_splits_outside_a_range_of_offsets_are_left_out(root: Path, seed: int, walk: bool) -> None:
    """Each start that the split before would have checked is walked to, so forged bodies deceive nobody here either."""
    rng = Random(seed)
    low, high = sorted(rng.sample(range(3 * FILE_SIZE), 2))
    (store,) = find_stores(str(root))
    mode: SplitMode = "walk" if walk else "resync"
    sizing = Sizing(FILE_SIZE // 20, split_mode=mode, max_record_size=MAX_RECORD)
    plan = plan_store(store, sizing, Span(low, high))
    everything = plan_store(store, sizing)
    assert len(plan.splits) <= (high - low) // (FILE_SIZE // 20) + 20
    assert len(plan.splits) < len(everything.splits)
    rows = [row for row in read_splits(plan).rows if low <= row[0] < high]
    assert rows == [row for row in read_whole(root).rows if low <= row[0] < high]
    first = plan.splits[0]
    assert first.aligned or first.walk_to_start
    assert not any(split.walk_to_start for split in plan.splits[1:])
    assert not plan.splits[-1].check_end
    used = {split.file.file_from_offset for split in plan.splits}
    assert plan.skipped_files == 3 - len(used)


def test_what_lacks_outside_a_range_is_no_damage_of_it(tmp_path: Path) -> None:
    logs = [split_log(("plain",), n, n * FILE_SIZE) for n in (0, 1, 3, 4, 6)]
    (store,) = find_stores(str(write_store(tmp_path, logs)))
    assert len(plan_store(store).gaps) == 2
    span = Span(FILE_SIZE, 4 * FILE_SIZE)
    assert [gap.start_phy_offset for gap in plan_store(store, span=span).gaps] == [2 * FILE_SIZE]


def test_a_store_without_files_has_no_splits(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    (store,) = find_stores(str(tmp_path))
    plan = plan_store(store, span=Span(5, 10, 5, 10, 1))
    assert (plan.splits, plan.gaps, plan.skipped_files) == ([], [], 0)


# ---- by time ----------------------------------------------------------------------------------------

STEP = 100


def timed_store(root: Path, times: list[list[int]]) -> StoreLocation:
    """A file for each list of store timestamps."""
    size = 4096
    (root / "commitlog").mkdir(parents=True)
    for number, own in enumerate(times):
        data = b""
        for time in own:
            host = oracle.Host(bytes(16), 1) if time % 2 else oracle.Host(bytes(4), 1)
            at = number * size + len(data)
            data += oracle.encode_record(
                oracle.Record(
                    b"t", b"b", b"", phy_offset=at, store_timestamp_ms=time, born_host=host
                )
            )
        data += oracle.blank(size - len(data)) if own else b""
        (root / "commitlog" / f"{number * size:020}").write_bytes(data.ljust(size, b"\0"))
    (store,) = find_stores(str(root))
    return store


def walking_clock(rng: Random, files: int) -> list[list[int]]:
    """Times of a clock that goes on, and is set back now and then, by no more than STEP below the highest time so far."""
    now = highest = 1_700_000_000_000
    times = []
    for _ in range(files):
        own = []
        for _ in range(rng.randrange(1, 12)):
            now += rng.randrange(90)
            highest = max(highest, now)
            if rng.random() < 0.2:
                now = rng.randrange(highest - STEP, highest + 1)
            own.append(now)
        times.append(own)
    return times


@pytest.mark.parametrize("seed", range(10))
def test_files_are_left_out_by_time_without_losing_a_record(seed: int, tmp_path: Path) -> None:
    rng = Random(seed)
    times = walking_clock(rng, 40)
    store = timed_store(tmp_path, times)
    everything = sorted(time for own in times for time in own)
    skipped = 0
    for _ in range(15):
        since, until = sorted(rng.choices(everything, k=2))
        span = Span(since_ms=since, until_ms=until, max_clock_step_ms=STEP)
        plan = plan_store(store, span=span)
        got = sorted(row[3] for row in read_splits(plan).rows if since <= row[3] < until)
        assert got == [time for time in everything if since <= time < until]
        skipped += plan.skipped_files
        assert plan_store(store, span=replace(span, max_clock_step_ms=None)).skipped_files == 0
    assert skipped > 15 * 5


def test_half_a_range_of_time(tmp_path: Path) -> None:
    store = timed_store(tmp_path, [[1000 * n] for n in range(20)])
    late = plan_store(store, span=Span(since_ms=10_000, max_clock_step_ms=0))
    assert [split.start // 4096 for split in late.splits] == list(range(8, 20))
    early = plan_store(store, span=Span(until_ms=10_000, max_clock_step_ms=0))
    assert [split.start // 4096 for split in early.splits] == list(range(11))


@pytest.mark.parametrize("bad", [0, 1 << 62, -(1 << 62)])
@pytest.mark.parametrize("number", range(20))
def test_one_damaged_time_costs_no_file(number: int, bad: int, tmp_path: Path) -> None:
    """A flipped bit in the header of one file's first record must not end the search there."""
    times = [[1000 * n] for n in range(20)]
    times[number] = [bad]
    store = timed_store(tmp_path, times)
    for since, until in [(5000, 5001), (14_000, 16_000)]:
        files = files_in_time(store.log_files(), since, until, 0)
        wanted = [n for n in range(20) if since <= 1000 * n < until and n != number]
        assert set(wanted) <= {file.file_from_offset // 4096 for file in files}


def test_files_that_do_not_begin_with_a_record_tell_no_time(tmp_path: Path) -> None:
    store = timed_store(tmp_path, [[5], [6], [7], []])
    files = store.log_files()
    log = tmp_path / "commitlog"
    (log / files[1].path.name).write_bytes(b"\0" * 4096)
    shutil.copyfile(files[0].path, files[2].path)
    gone = LogFile(tmp_path / "gone", 0, 4096)
    short = tmp_path / "short"
    short.write_bytes((log / files[0].path.name).read_bytes()[:75])
    found = [first_store_timestamp(file) for file in [*files, gone, LogFile(short, 0, 75)]]
    assert found == [5, None, None, None, None, None]


# ---- many files -------------------------------------------------------------------------------------


def test_few_headers_are_read_to_find_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = timed_store(tmp_path, [[1000 * n] for n in range(1000)])
    files = store.log_files()
    opened: list[int] = []
    real: Callable[..., object] = LogFile.open

    def noted(file: LogFile, *args: object) -> object:
        opened.append(file.file_from_offset)
        return real(file, *args)

    monkeypatch.setattr(LogFile, "open", noted)
    left = files_in_time(files, 500_000, 501_000, 0)
    assert [file.file_from_offset // 4096 for file in left] == [498, 499, 500, 501]
    assert len(opened) == len(set(opened)) < 30
