"""Dispatch: every record once and in order, to queues and index, over files, gaps, failures and damage."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.doses import examples
from support.oracle import records as oracle
from support.stores.built_store import BuiltStore

from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.dispatch import dispatcher as dispatch
from rmqcore.engine.dispatch.dispatcher import Dispatcher
from rmqcore.engine.dispatch.multi_dispatch import pairs
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.errors import CorruptMessageError

FILE_SIZE = 1024


@dataclass
class Recorder:
    """Queues and index that note what they are given."""

    rows: list[tuple[int, str, int, int, int, int]] = field(default_factory=list)
    entries: list[tuple[str, int, int, int, int, int]] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    covered: list[int] = field(default_factory=list)
    fail: Callable[[], None] = lambda: None

    def put_batch(
        self, scan: ColumnScan, batch: Batch, from_phy_offset: int, covered_from: int = -1
    ) -> None:
        self.fail()
        self.covered.append(covered_from)
        topics = scan.topics()
        columns = [
            np.frombuffer(batch.buffer(name), np.int64 if name in WIDE else np.int32).tolist()
            for name in NAMES
        ]
        self.batches.append(len(batch))
        for phy_offset, topic, *rest in zip(*columns, strict=True):
            if phy_offset >= from_phy_offset:
                self.rows.append((phy_offset, topics[topic], *rest))

    def put_entry(
        self,
        topic: str,
        queue_id: int,
        phy_offset: int,
        msg_size: int,
        tags_code: int,
        queue_offset: int,
        covered_from: int = -1,
    ) -> None:
        del covered_from
        self.entries.append((topic, queue_id, phy_offset, msg_size, tags_code, queue_offset))


NAMES = ("phy_offset", "topic_id", "queue_id", "queue_offset", "msg_size", "tags_code")
WIDE = ("phy_offset", "queue_offset", "tags_code")


def rows_of(store: BuiltStore, begin: int = 0) -> list[tuple[int, str, int, int, int, int]]:
    return [
        (
            r.phy_offset,
            oracle.text_of(r.topic),
            r.queue_id,
            r.queue_offset,
            r.msg_size or 0,
            r.tags_code,
        )
        for r in store.records
        if r.phy_offset >= begin
    ]


@dataclass
class Bench:
    """A log that is open, and a dispatcher over it."""

    store: BuiltStore
    config: MessageStoreConfig
    queues: Recorder = field(default_factory=Recorder)
    index: Recorder | None = None

    def __post_init__(self) -> None:
        self.log = CommitLog(
            StorePaths(self.store.root), self.config, on_failure=lambda error: None
        )
        self.log.load()
        self.dispatcher = Dispatcher(self.log, self.queues, self.index, self.config)

    @property
    def end(self) -> int:
        last = self.store.records[-1]
        return last.phy_offset + (last.msg_size or 0)

    def run(self, end: int | None = None, max_bytes: int = 16 << 20) -> int:
        steps = 0
        while self.dispatcher.dispatch_once(self.end if end is None else end, max_bytes):
            steps += 1
            assert steps < 1000
        return steps


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return open_bench(tmp_path)


def open_bench(root: Path, *, index: bool = False, **config: object) -> Bench:
    store = BuiltStore(root, log_file_size=FILE_SIZE).fill(40)
    store.write_log()
    settings = MessageStoreConfig(mapped_file_size_commit_log=FILE_SIZE, **config)  # type: ignore[arg-type]
    return Bench(store, settings, index=Recorder() if index else None)


def test_every_record_once_and_in_order(bench: Bench) -> None:
    bench.run()
    assert bench.queues.rows == rows_of(bench.store)
    assert bench.dispatcher.reput_from_offset == bench.end
    last = bench.store.records[-1]
    assert bench.dispatcher.done.last_phy_offset == last.phy_offset
    assert bench.dispatcher.done.last_store_timestamp_ms == last.store_timestamp_ms
    assert bench.dispatcher.dispatch_once(bench.end) == 0


@pytest.mark.parametrize("max_bytes", [1, 300, 5000])
def test_in_steps(bench: Bench, max_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "NEAR_ROWS", 3)
    bench.dispatcher = Dispatcher(bench.log, bench.queues, None, bench.config)
    assert bench.run(max_bytes=max_bytes) > 1
    assert bench.queues.rows == rows_of(bench.store)
    assert max(bench.queues.batches) <= 3


def test_up_to_an_end_that_moves(bench: Bench) -> None:
    for record in bench.store.records:
        end = record.phy_offset + (record.msg_size or 0)
        bench.run(end)
        assert bench.queues.rows[-1][0] == record.phy_offset
        assert bench.dispatcher.reput_from_offset == end
    assert bench.queues.rows == rows_of(bench.store)


def test_an_end_inside_a_record_waits(bench: Bench) -> None:
    record = bench.store.records[5]
    for inside in (1, 50):
        bench.run(record.phy_offset + inside)
        assert bench.dispatcher.reput_from_offset == record.phy_offset
    bench.run()
    assert bench.queues.rows == rows_of(bench.store)


def test_from_an_offset_on(bench: Bench) -> None:
    begin = bench.store.records[17].phy_offset
    bench.dispatcher.cq_from = begin
    bench.run()
    assert bench.queues.rows == rows_of(bench.store, begin)


@pytest.mark.parametrize(("cq", "index"), [(0, 20), (20, 0), (39, 0), (7, 8), (12, 12)])
def test_queues_and_index_from_different_places(tmp_path: Path, cq: int, index: int) -> None:
    bench = open_bench(tmp_path, index=True)
    assert bench.index is not None
    bench.dispatcher.cq_from = bench.store.records[cq].phy_offset
    bench.dispatcher.index_from = bench.store.records[index].phy_offset
    assert bench.dispatcher.reput_from_offset == bench.store.records[min(cq, index)].phy_offset
    bench.run()
    assert bench.queues.rows == rows_of(bench.store, bench.store.records[cq].phy_offset)
    assert bench.index.rows == rows_of(bench.store, bench.store.records[index].phy_offset)


def test_after_a_failed_write_the_same_records_come_again(bench: Bench) -> None:
    failures = 3

    def fail() -> None:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise OSError(28, "No space left on device")

    bench.queues.fail = fail
    for _ in range(3):
        with pytest.raises(OSError, match="No space"):
            bench.dispatcher.dispatch_once(bench.end)
        assert bench.dispatcher.reput_from_offset == 0
    bench.run()
    assert bench.queues.rows == rows_of(bench.store)


def test_files_that_were_deleted_first(bench: Bench) -> None:
    path, _ = bench.store.log_file(0)
    path.unlink()
    bench.log.load()
    bench.run()
    assert bench.queues.rows == rows_of(bench.store, FILE_SIZE)


def test_a_missing_middle_file(bench: Bench) -> None:
    """Java's dispatch waits for ever in front of it."""
    path, _ = bench.store.log_file(2 * FILE_SIZE)
    path.unlink()
    bench.log.load()
    bench.run()
    wanted = [row for row in rows_of(bench.store) if row[0] // FILE_SIZE != 2]
    assert bench.queues.rows == wanted
    assert bench.dispatcher.reput_from_offset == bench.end


# ---- damage -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pos", "data", "wrong"),
    [
        (0, struct.pack(">i", 1 << 20), "TOTALSIZE"),
        (4, b"\0\0\0\0", "MAGIC"),
        (0, bytes(8), "MAGIC"),
        (28, struct.pack(">q", 1), "PHYSICALOFFSET"),
    ],
)
def test_damage_is_never_passed_over(bench: Bench, pos: int, data: bytes, wrong: str) -> None:
    record = bench.store.records[9]
    bench.store.change_log(record.phy_offset + pos, data)
    with pytest.raises(CorruptMessageError) as caught:
        bench.run()
    assert (caught.value.phy_offset, caught.value.field) == (record.phy_offset, wrong)
    assert str(record.phy_offset // FILE_SIZE * FILE_SIZE) in caught.value.path
    assert bench.queues.rows == rows_of(bench.store)[:9]
    assert bench.dispatcher.reput_from_offset == record.phy_offset
    with pytest.raises(CorruptMessageError):
        bench.dispatcher.dispatch_once(bench.end)
    assert bench.queues.rows == rows_of(bench.store)[:9]


def test_a_size_past_the_end_of_the_log(bench: Bench) -> None:
    """The file has room behind the last record: it must not be waited for there."""
    record = bench.store.records[-1]
    bench.store.change_log(record.phy_offset, struct.pack(">i", (record.msg_size or 0) + 9))
    bench.log.begin(bench.end)
    with pytest.raises(CorruptMessageError, match="TOTALSIZE"):
        bench.run()


@given(
    at=st.integers(0, 6 * FILE_SIZE),
    noise=st.binary(min_size=1, max_size=300),
    split=st.integers(0, 39),
)
@examples(0.6)
def test_old_damage_stops_the_index_only_where_it_is(
    tmp_path_factory: pytest.TempPathFactory, at: int, noise: bytes, split: int
) -> None:
    """Messages in front of what recovery checked are read for the index alone; a rotten message there is left out and named."""
    root = tmp_path_factory.getbasetemp() / "old_damage"
    bench = open_bench(root, index=True)
    assert bench.index is not None
    begin = bench.store.records[split].phy_offset
    at %= max(begin, 1)
    noise = noise[: begin - at]
    at_file, pos = bench.store.log_file(at)
    content = bytearray(at_file.read_bytes())
    content[pos : pos + len(noise)] = noise[: FILE_SIZE - pos]
    at_file.write_bytes(content)
    bench.dispatcher.cq_from = begin
    bench.run()
    assert bench.queues.rows == rows_of(bench.store, begin)
    hit = [
        r
        for r in bench.store.records
        if r.phy_offset < at + len(noise) and at < r.phy_offset + (r.msg_size or 0)
    ]
    untouched = [row for row in rows_of(bench.store) if row[0] not in {r.phy_offset for r in hit}]
    assert [row for row in bench.index.rows if row in untouched] == untouched
    for skipped in bench.dispatcher.skipped:
        assert skipped.start_phy_offset < at + len(noise)
        assert skipped.end_phy_offset <= begin


# ---- many records -----------------------------------------------------------------------------------


def test_large_batches_far_behind_small_ones_near(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "FAR_BEHIND", 5000)
    monkeypatch.setattr(dispatch, "NEAR_AGAIN", 900)
    monkeypatch.setattr(dispatch, "NEAR_ROWS", 1)
    bench = open_bench(tmp_path)
    bench.run(max_bytes=1000)
    assert bench.queues.rows == rows_of(bench.store)
    assert bench.queues.batches[0] > 1
    assert bench.queues.batches[-1] == 1


# ---- further queues ---------------------------------------------------------------------------------


def multi(names: str, offsets: str) -> dict[str, str]:
    return {"INNER_MULTI_DISPATCH": names, "INNER_MULTI_QUEUE_OFFSET": offsets}


@pytest.mark.parametrize(
    ("names", "offsets", "wanted"),
    [
        ("%LMQ%a,%LMQ%b", "3,4", [("%LMQ%a", 3), ("%LMQ%b", 4)]),
        ("%LMQ%a,", "3", [("%LMQ%a", 3)]),
        ("%LMQ%a,%LMQ%b", "3", []),
        ("%LMQ%a,b/c,..", "3,4,5", [("%LMQ%a", 3)]),
        ("%LMQ%a,%LMQ%b", "x,4", [("%LMQ%b", 4)]),
        ("%LMQ%a", "9223372036854775808", []),
        ("%LMQ%a", "-1", []),
        (",", ",", []),
    ],
)
def test_names_and_offsets(names: str, offsets: str, wanted: list[tuple[str, int]]) -> None:
    assert list(pairs(names, offsets)) == wanted


@pytest.mark.parametrize("lmq", [True, False])
def test_entries_of_light_queues(tmp_path: Path, lmq: bool) -> None:
    store = BuiltStore(tmp_path, log_file_size=FILE_SIZE)
    plain = store.put("T", 1)
    first = store.put("T", 1, properties=multi("%LMQ%a,other", "5,6"))
    for topic in ("%RETRY%g", "rmq_sys_x", "SCHEDULE_TOPIC_XXXX"):
        store.put(topic, 1, properties=multi("%LMQ%a", "7"))
    # No put gives a dead letter such offsets, but a dead letter that has them is followed, as in Java.
    dead = store.put("%DLQ%g", 1, properties=multi("%LMQ%a", "7"))
    store.put("T", 1, properties=multi("%LMQ%a", "8"), sys_flag=0x4)
    last = store.put("T", 2, properties=multi("%LMQ%a", "6"), sys_flag=0x8)
    store.write_log()
    config = MessageStoreConfig(
        mapped_file_size_commit_log=FILE_SIZE, enable_lmq=lmq, enable_multi_dispatch=True
    )
    bench = Bench(store, config)
    bench.run()
    light = 0 if lmq else 1
    assert bench.queues.entries == [
        ("%LMQ%a", light, first.phy_offset, first.msg_size, first.tags_code, 5),
        ("other", 1, first.phy_offset, first.msg_size, first.tags_code, 6),
        ("%LMQ%a", light, dead.phy_offset, dead.msg_size, dead.tags_code, 7),
        ("%LMQ%a", light * 2, last.phy_offset, last.msg_size, last.tags_code, 6),
    ]
    assert len(bench.queues.rows) == len(store.records)
    again = Bench(store, config)
    again.dispatcher.cq_from = plain.phy_offset + (plain.msg_size or 0)
    again.run(first.phy_offset + (first.msg_size or 0))
    assert len(again.queues.entries) == 2
    off = Bench(store, MessageStoreConfig(mapped_file_size_commit_log=FILE_SIZE, enable_lmq=lmq))
    off.run()
    assert off.queues.entries == []
