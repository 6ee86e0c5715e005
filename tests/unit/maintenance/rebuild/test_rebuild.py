"""Queues and index made anew: Java's bytes from a sound log, and every offset in its place from a damaged one."""

from __future__ import annotations

import os
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.doses import examples
from support.oracle import records as oracle
from support.oracle.queue import Queue
from support.stores.built_store import FILLER, BuiltStore
from support.stores.golden_stores import CLEAN
from support.stores.index_batches import quick_folder

from rmqcore._native.format.cq_arrays import CQ_DTYPE
from rmqcore._native.format.layout import INDEX_HEADER_SIZE, index_file_size
from rmqcore._native.index.index_reader import encode_header
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.dispatch.dispatcher import QUEUE_COLUMNS
from rmqcore.engine.index.index_service import IndexService
from rmqcore.errors import StoreFormatError, TargetNotEmptyError
from rmqcore.maintenance.rebuild import index_pages
from rmqcore.maintenance.rebuild import queue_builder as rebuild_queues
from rmqcore.maintenance.rebuild import rebuild as rebuild_module
from rmqcore.maintenance.rebuild.queue_builder import QueueBuilder
from rmqcore.maintenance.rebuild.rebuild import rebuild
from rmqcore.offline.found_config import (
    MOST_SLOTS,
    SLOTS_AN_ENTRY,
    found_config,
    found_sizes,
)


def tree(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("case", CLEAN)
def test_the_bytes_are_javas(golden: Path, tmp_path: Path, case: str) -> None:
    store = golden / case / "store"
    report = rebuild(StorePaths(store), tmp_path / "out")
    assert tree(tmp_path / "out" / "consumequeue") == tree(store / "consumequeue")
    index = list(tree(store / "index").values())
    assert list(tree(tmp_path / "out" / "index").values()) == index
    assert report.exit_code == 0
    assert report.queue_files == len(tree(store / "consumequeue"))
    assert report.index_files == len(index)
    assert report.ignored_records == report.filled_entries == 0
    assert sorted(os.listdir(tmp_path / "out")) == ["consumequeue", "index"]


def test_small_batches_and_few_open_files(
    golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild_module, "BATCH_ROWS", 7)
    monkeypatch.setattr(rebuild_queues, "MOST_OPEN", 1)
    store = golden / "basic" / "store"
    rebuild(StorePaths(store), tmp_path / "out", index=False)
    assert tree(tmp_path / "out" / "consumequeue") == tree(store / "consumequeue")
    assert os.listdir(tmp_path / "out") == ["consumequeue"]


@pytest.mark.parametrize("case", CLEAN)
def test_index_files_that_are_mapped_anew(
    golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """The pages of all index files written stayed in memory, 400 MB a file: they are let go, in the middle of a file too."""
    monkeypatch.setattr(rebuild_module, "BATCH_ROWS", 7)
    monkeypatch.setattr(index_pages, "MOST_BYTES", 1)
    dropped: list[int] = []
    map_anew = IndexService.map_anew

    def noted(service: IndexService) -> None:
        map_anew(service)
        dropped.append(len(service.files))
        assert not any(file.native.file.mapped for file in service.files)

    monkeypatch.setattr(IndexService, "map_anew", noted)
    store = golden / case / "store"
    rebuild(StorePaths(store), tmp_path / "out", queues=False)
    index = list(tree(store / "index").values())
    assert list(tree(tmp_path / "out" / "index").values()) == index
    assert len(set(dropped)) <= len(index) <= len(dropped)


def test_slots_that_no_store_has_are_not_made_again(tmp_path: Path) -> None:
    """A sparse index file of 3 GB says how many slots a new one gets; their pages were 2.8 GB of memory."""
    root = tmp_path / "store"
    (root / "index").mkdir(parents=True)
    for slots, entries, taken in (
        (MOST_SLOTS, MOST_SLOTS // SLOTS_AN_ENTRY, True),
        (MOST_SLOTS + 1, MOST_SLOTS, False),
        (MOST_SLOTS, 10, False),  # a file of 128 MiB for each ten keys of the log
    ):
        path = root / "index" / "20260101000000000"
        with path.open("wb") as file:
            file.write(encode_header((1, 1, 7, 7, 1, 2)))
            file.truncate(index_file_size(slots, entries))
            file.seek(index_file_size(slots, 1))
            file.write(struct.pack(">iqii", 0, 7, 0, 0))
            file.seek(INDEX_HEADER_SIZE)
            file.write(struct.pack(">i", 1))
        found = found_sizes(StorePaths(root), MessageStoreConfig())
        assert found == ({"max_hash_slot_num": slots, "max_index_num": entries} if taken else {})


@pytest.mark.large
def test_many_small_index_files_are_seldom_mapped_anew(
    golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All files were mapped anew for each new one: a forged index file with a few entries made that quadratic."""
    monkeypatch.setattr(rebuild_module, "BATCH_ROWS", 7)
    mapped: list[int] = []
    monkeypatch.setattr(IndexService, "map_anew", lambda service: mapped.append(1))
    config = MessageStoreConfig(max_hash_slot_num=2, max_index_num=4)
    store = tmp_path / "store"
    (store / "index").mkdir(parents=True)
    (store / "commitlog").symlink_to(golden / "basic" / "store" / "commitlog")
    report = rebuild(
        StorePaths(store, follow_links=True), tmp_path / "out", config=config, queues=False
    )
    assert report.index_files > 20
    assert mapped == []


def test_batches_make_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gap in front of damage was filled when both lay in one batch, and not when a batch ended between them.

    Which record comes first in a queue that two kinds of records share, and what begins a queue, depended on batches too.
    """
    store = BuiltStore(tmp_path / "store", log_file_size=8192)
    for queue_offset in (-1, 1 << 62, 0, 1, 2, 3):
        store.put("T", queue_offset=queue_offset)
    for number in range(12):
        multi = {"INNER_MULTI_DISPATCH": "Both", "INNER_MULTI_QUEUE_OFFSET": str(2 * number)}
        store.put("T", queue_offset=4 + number, properties=multi)
        store.put("Both", queue_offset=2 * number + 1)
    store.write_log()
    root = store.root
    lost = store.records[14]
    store.change_log(lost.phy_offset, b"\x55" * (store.records[15].phy_offset - lost.phy_offset))
    made = []
    for rows in (1, 2, 5, 1000):
        monkeypatch.setattr(rebuild_module, "BATCH_ROWS", rows)
        report = rebuild(StorePaths(root), tmp_path / f"out{rows}", index=False)
        counts = report.queue_entries, report.filled_entries, report.ignored_records
        made.append((counts, tree(tmp_path / f"out{rows}")))
    assert made[1:] == made[:-1]
    assert made[0][0] == (4 + 11 + 24 - 1, 2, 2)
    both = [
        entry
        for entry in oracle.unpack_cq(
            b"".join(data for name, data in made[0][1].items() if "Both" in name)
        )
        if entry[1] not in {0, FILLER[1]}
    ]
    assert [entry[0] for entry in both] == sorted(entry[0] for entry in both)


def test_only_the_index(golden: Path, tmp_path: Path) -> None:
    rebuild(StorePaths(golden / "basic" / "store"), tmp_path / "out", queues=False)
    assert os.listdir(tmp_path / "out") == ["index"]


def test_files_that_expired(golden: Path, tmp_path: Path) -> None:
    """A queue that begins in the middle gets fillers up to there in its first file, as a broker makes them."""
    case = golden / "crash_expired" / "input"
    rebuild(StorePaths(case), tmp_path / "out", index=False)
    for name, data in tree(tmp_path / "out" / "consumequeue").items():
        made = np.frombuffer(data, CQ_DTYPE)
        original = np.frombuffer((case / "consumequeue" / name).read_bytes(), CQ_DTYPE)
        fillers = int(np.count_nonzero(made["msg_size"] == FILLER[1]))
        assert np.array_equal(made[fillers:], original[fillers:])
        assert np.all(original[:fillers]["phy_offset"] < 49152)


def test_a_hole_in_the_log_moves_no_offset(tmp_path: Path) -> None:
    """A broker's own dispatch would put what follows the hole at smaller offsets than the records say."""
    store = BuiltStore(tmp_path / "store", log_file_size=4096).fill(60)
    root = store.write()
    original = tree(root / "consumequeue")
    lost = store.records[20:24]
    begin = lost[0].phy_offset
    end = store.records[24].phy_offset
    store.change_log(begin, b"\x55" * (end - begin))
    report = rebuild(StorePaths(root), tmp_path / "out")
    assert report.exit_code == 2
    assert [(d.start_phy_offset, d.end_phy_offset) for d in report.damage] == [(begin, end)]
    assert report.filled_entries == len(lost) == 4
    made = tree(tmp_path / "out" / "consumequeue")
    assert sorted(made) == sorted(original)
    gone = {record.phy_offset for record in lost}
    for name, data in made.items():
        for got, entry in zip(
            oracle.unpack_cq(data), oracle.unpack_cq(original[name]), strict=True
        ):
            in_hole = entry[1] > 0 and entry[0] in gone and entry != FILLER
            assert got == (FILLER if in_hole else entry)


def test_a_body_that_fails_its_crc_keeps_its_entry(tmp_path: Path) -> None:
    store = BuiltStore(tmp_path / "store").fill(20)
    root = store.write()
    original = tree(root / "consumequeue")
    store.change_log(store.records[7].phy_offset + 89, b"X")
    report = rebuild(StorePaths(root), tmp_path / "out")
    assert [found.kind for found in report.damage] == ["crc"]
    assert tree(tmp_path / "out" / "consumequeue") == original


def test_an_unbelievable_queue_offset_makes_no_giant(tmp_path: Path) -> None:
    """The header has no checksum: a flipped bit in QUEUEOFFSET must not ask for an exabyte of fillers."""
    store = BuiltStore(tmp_path / "store").fill(20)
    root = store.write()
    store.change_log(store.records[7].phy_offset + 20, b"\x20")
    report = rebuild(StorePaths(root), tmp_path / "out")
    assert (report.filled_entries, report.queue_entries, report.ignored_records) == (1, 19, 1)
    assert report.queue_files == len(tree(root / "consumequeue"))


@pytest.mark.parametrize("queue_offset", [-1, 1 << 62])
def test_a_queue_cannot_begin_nowhere(tmp_path: Path, queue_offset: int) -> None:
    store = BuiltStore(tmp_path / "store")
    store.put("T")
    store.write_log()
    store.change_log(20, queue_offset.to_bytes(8, "big", signed=True))
    report = rebuild(StorePaths(store.root), tmp_path / "out", index=False)
    assert (report.ignored_records, report.queues) == (1, 0)


@pytest.mark.parametrize("topic", ["a/b", "..", ".", "x\0y"])
def test_topics_that_are_no_folder_stay_outside(tmp_path: Path, topic: str) -> None:
    store = BuiltStore(tmp_path / "store")
    store.put(topic)
    store.put("T")
    store.write_log()
    report = rebuild(StorePaths(store.root), tmp_path / "out", index=False)
    assert (report.ignored_records, report.queues) == (1, 1)
    assert os.listdir(tmp_path / "out" / "consumequeue") == ["T"]
    assert sorted(os.listdir(tmp_path)) == ["out", "store"]


# ---- the rules of a queue ---------------------------------------------------------------------------


@given(
    queue_offsets=st.lists(st.integers(0, 40) | st.just(0), min_size=1, max_size=30),
    sizes=st.sampled_from([(0, 40), (0, 4000)]),
    cuts=st.lists(st.integers(0, 30), max_size=3),
    topic=st.sampled_from(["T", "%LMQ%a"]),
    waits=st.booleans(),
)
@examples(0.8)
def test_any_offsets(
    queue_offsets: list[int],
    sizes: tuple[int, int],
    cuts: list[int],
    topic: str,
    waits: bool,
) -> None:
    with quick_folder() as name:
        folder = Path(name) / "consumequeue"
        slow = Queue(160, topic)
        builder = QueueBuilder(folder, 160)
        log = bytearray()
        places = []
        for number, queue_offset in enumerate(queue_offsets):
            body = b"x" * sizes[number % 2]
            record = oracle.Record(
                topic.encode(), body, b"", queue_offset=queue_offset, phy_offset=len(log)
            )
            raw = oracle.encode_record(record)
            places.append(len(log))
            slow.put(len(log), len(raw), 0, queue_offset)
            log += raw
        scan = ColumnScan(QUEUE_COLUMNS)
        bounds = sorted({0, len(log), *(places[cut % len(places)] for cut in cuts)})
        for begin, end in pairwise(bounds):
            scan.feed(log, end, begin, 0, len(log) + 1)
            builder.add(scan, scan.take())
            if not waits:
                builder.flush()
        builder.flush()
        builder.close()
        got = {int(path.name): path.read_bytes() for path in (folder / topic / "0").iterdir()}
        assert got == {start: bytes(data) for start, data in slow.files.items()}


def test_entries_wait_for_those_of_more_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch of 16 MiB opened the files of all its queues: with a thousand of them a rebuild took 1.5 times as long."""
    store = BuiltStore(tmp_path / "store")
    for number in range(30):
        store.put(f"T{number % 3}")
    store.write_log()
    runs: list[str] = []
    add_run = QueueBuilder.add_run

    def counted(builder: QueueBuilder, place: Any, offsets: Any, entries: Any) -> None:
        runs.append(place[0])
        add_run(builder, place, offsets, entries)

    monkeypatch.setattr(QueueBuilder, "add_run", counted)
    monkeypatch.setattr(rebuild_module, "BATCH_ROWS", 4)
    report = rebuild(StorePaths(store.root), tmp_path / "out", index=False)
    assert (report.queue_entries, report.queues) == (30, 3)
    assert runs == ["T0", "T1", "T2"]


# ---- the folder -------------------------------------------------------------------------------------


def test_a_folder_that_holds_something_is_left_alone(golden: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("x")
    with pytest.raises(TargetNotEmptyError):
        rebuild(StorePaths(golden / "basic" / "store"), tmp_path / "out")
    assert tree(tmp_path / "out") == {"mine": b"x"}


@pytest.mark.parametrize("made", [True, False])
def test_an_interrupted_one_leaves_nothing(
    golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: bool
) -> None:
    if made:
        (tmp_path / "out").mkdir()

    def interrupted(self: QueueBuilder, scan: ColumnScan, batch: Batch) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(QueueBuilder, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        rebuild(StorePaths(golden / "basic" / "store"), tmp_path / "out")
    assert os.listdir(tmp_path) == (["out"] if made else [])
    assert not made or os.listdir(tmp_path / "out") == []


def test_what_a_killed_one_left_is_replaced(golden: Path, tmp_path: Path) -> None:
    (tmp_path / "out" / ".building" / "consumequeue").mkdir(parents=True)
    (tmp_path / "out" / ".building" / "consumequeue" / "half").write_text("x")
    rebuild(StorePaths(golden / "ipv6" / "store"), tmp_path / "out")
    assert sorted(os.listdir(tmp_path / "out")) == ["consumequeue", "index"]
    assert "half" not in tree(tmp_path / "out" / "consumequeue")


def test_the_store_is_only_read(golden: Path, tmp_path: Path) -> None:
    store = golden / "delay" / "store"
    before = {path: path.stat() for path in store.rglob("*")}
    rebuild(StorePaths(store), tmp_path / "out")
    after = {path: path.stat() for path in store.rglob("*")}
    assert before.keys() == after.keys()
    assert all(before[path].st_mtime_ns == after[path].st_mtime_ns for path in before)


def test_an_empty_store(tmp_path: Path) -> None:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    report = rebuild(StorePaths(tmp_path / "store"), tmp_path / "out")
    assert (report.records, report.exit_code) == (0, 0)
    assert tree(tmp_path / "out") == {}


# ---- sizes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CLEAN)
def test_sizes_are_found_from_the_files(golden: Path, case: str) -> None:
    store = golden / case / "store"
    found = found_config(StorePaths(store))
    assert found.mapped_file_size_commit_log == next((store / "commitlog").iterdir()).stat().st_size
    queue_file = next(path for path in (store / "consumequeue").rglob("0*") if path.is_file())
    assert found.consume_queue_file_size == queue_file.stat().st_size
    assert found.index_file_size == next((store / "index").iterdir()).stat().st_size
    assert 0 < found.max_hash_slot_num < found.max_index_num


def test_sizes_of_a_store_without_files(tmp_path: Path) -> None:
    wanted = MessageStoreConfig(mapped_file_size_commit_log=4096, max_index_num=50)
    assert found_config(StorePaths(tmp_path), wanted) == wanted
    assert found_config(StorePaths(tmp_path)) == MessageStoreConfig()


@pytest.mark.parametrize("size", [63, 3 << 30])
def test_sizes_that_no_broker_has(tmp_path: Path, size: int) -> None:
    """`rebuild` and `recover` of a forged store named a setting that its user had never made, and no store."""
    (tmp_path / "commitlog").mkdir()
    with (tmp_path / "commitlog" / f"{0:020d}").open("wb") as file:
        file.truncate(size)
    with pytest.raises(
        StoreFormatError, match=f"{tmp_path}: a broker cannot .*commit_log.* {size}"
    ):
        found_config(StorePaths(tmp_path))
