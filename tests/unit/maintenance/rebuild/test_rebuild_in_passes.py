"""A log that has more queues than there is memory for is read again for the queues that were left out; the files are the same.

A queue took up to a kibibyte, so a log that asked for a million of them, a few hundred mebibytes, took a gibibyte of memory.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.doses import examples
from support.oracle import records as oracle
from support.stores.built_store import BuiltStore
from support.stores.golden_stores import CLEAN
from support.stores.index_batches import quick_folder

from rmqcore._native.scan.scan import ColumnScan
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.dispatch.dispatcher import QUEUE_COLUMNS
from rmqcore.maintenance.rebuild import queue_builder, queue_runs
from rmqcore.maintenance.rebuild import rebuild as rebuild_module
from rmqcore.maintenance.rebuild.queue_builder import QueueBuilder
from rmqcore.maintenance.rebuild.queue_runs import QueueRuns
from rmqcore.maintenance.rebuild.rebuild import rebuild
from rmqcore.maintenance.rebuild.report import RebuildReport

SMALL = MessageStoreConfig(mapped_file_size_consume_queue=160)


def tree(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def folders(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_dir())


def built(store: Path, out: Path, index: bool = True) -> tuple[RebuildReport, dict[str, bytes]]:
    paths = StorePaths(store, follow_links=True)
    report = rebuild(paths, out, index=index, config=SMALL)
    return report, tree(out / "consumequeue")


def compare(
    store: Path, tmp_path: Path, most: int, *, rows: int = 1 << 18, names: int = 1 << 16
) -> int:
    """Rebuild with room for so many queues, and for all; answer how many passes the first took."""
    whole, files = built(store, tmp_path / "whole")
    passes = [1]
    next_pass = QueueBuilder.next_pass

    def counted(builder: QueueBuilder) -> None:
        passes.append(1)
        next_pass(builder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(QueueBuilder, "next_pass", counted)
        patch.setattr(queue_builder, "MOST_BYTES", most)
        patch.setattr(queue_builder, "QUEUE_BYTES", 1)
        patch.setattr(queue_builder, "topic_bytes", lambda topic: 0)
        patch.setattr(rebuild_module, "BATCH_ROWS", rows)
        patch.setattr(rebuild_module, "TOPIC_ROOM", names)
        patch.setattr(queue_runs, "MOST_NAME_BYTES", names >> 6)
        patch.setattr(queue_runs, "MOST_WAITING", names >> 6)
        parted, same = built(store, tmp_path / "parted")
    assert same == files
    assert folders(tmp_path / "parted") == folders(tmp_path / "whole")
    ours, theirs = parted.as_dict(), whole.as_dict()
    for report in (ours, theirs):
        del report["seconds"], report["out"]
    assert ours == theirs
    return len(passes)


@pytest.mark.parametrize("case", CLEAN)
def test_golden_stores(golden: Path, tmp_path: Path, case: str) -> None:
    store = tmp_path / "store"
    store.mkdir()
    (store / "commitlog").symlink_to(golden / case / "store" / "commitlog")
    report, files = built(store, tmp_path / "out")
    assert compare(store, tmp_path, 3) == max(1, -(-report.queues // 3))
    assert files == tree(tmp_path / "whole" / "consumequeue")


def asking_for_light_queues(root: Path, queues: int) -> Path:
    store = BuiltStore(root, log_file_size=1 << 16)
    for number in range(12):
        names = [f"%LMQ%{number % 2}-{queue}" for queue in range(queues)]
        names += ["plain", "a/b", ".."]
        offsets = [str(number // 2)] * queues + [str(number), "1", "2"]
        multi = {
            "INNER_MULTI_DISPATCH": ",".join(names),
            "INNER_MULTI_QUEUE_OFFSET": ",".join(offsets),
        }
        store.put("T" if number % 3 else "plain", number % 4, properties=multi)
    store.write_log()
    return store.root


@pytest.mark.parametrize("names", [1 << 16, 64])
def test_light_queues(tmp_path: Path, names: int) -> None:
    store = asking_for_light_queues(tmp_path / "store", 40)
    assert compare(store, tmp_path, 7, rows=2, names=names) == 13


def test_a_topic_of_many_queues_and_many_topics(tmp_path: Path) -> None:
    store = BuiltStore(tmp_path / "store", log_file_size=1 << 16)
    for number in range(300):
        store.put("wide", number % 97)
        store.put(f"t{number % 61}", 0)
    store.write_log()
    assert compare(store.root, tmp_path, 50, rows=11, names=64) == 4


def test_what_no_queue_can_begin_with_takes_no_place(tmp_path: Path) -> None:
    """A queue without a file would be new in each pass, and no pass the last."""
    store = BuiltStore(tmp_path / "store", log_file_size=1 << 16)
    for number in range(30):
        store.put("nowhere", number, queue_offset=-1)
        store.put("a/b", number)
        store.put("T", number % 5, queue_offset=-7 if number % 3 else 1 << 62)
    for number in range(10):
        store.put("T", number % 5, queue_offset=number // 5)
        store.put("T", number % 5, queue_offset=-1)
    store.write_log()
    assert compare(store.root, tmp_path, 2, rows=4) == 3


def test_damage_and_what_comes_behind_the_first_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store in use grows between two passes: all of them end where the first one did."""
    store = BuiltStore(tmp_path / "store", log_file_size=8192)
    for number in range(60):
        store.put(f"t{number % 9}", number % 2)
    store.write_log()
    for lost in (5, 20, 41):
        begin, end = (store.records[at].phy_offset for at in (lost, lost + 2))
        store.change_log(begin, b"\x55" * (end - begin))
    assert compare(store.root, tmp_path, 4) == 5
    _, before = built(store.root, tmp_path / "before")
    next_pass = QueueBuilder.next_pass

    def grown(builder: QueueBuilder) -> None:
        for number in range(9):
            store.put(f"t{number}", 0)
            store.put(f"new{number}", 0)
        store.write_log()
        next_pass(builder)

    monkeypatch.setattr(QueueBuilder, "next_pass", grown)
    monkeypatch.setattr(queue_builder, "MOST_BYTES", 1000)
    assert built(store.root, tmp_path / "after")[1].keys() == before.keys()


@given(
    puts=st.lists(
        st.tuples(
            st.sampled_from(["T", "U", "%LMQ%x", "a/b", "V" * 40]),
            st.integers(0, 3),
            st.none() | st.integers(-1, 12) | st.just(1 << 62),
            st.none() | st.lists(st.sampled_from(["%LMQ%x", "%LMQ%y", "T", "."]), max_size=4),
        ),
        min_size=1,
        max_size=40,
    ),
    most=st.integers(1, 4),
    rows=st.integers(1, 9),
    damaged=st.none() | st.integers(0, 39),
)
@examples(0.4)
def test_any_log(
    puts: list[tuple[str, int, int | None, list[str] | None]],
    most: int,
    rows: int,
    damaged: int | None,
) -> None:
    with quick_folder() as name:
        folder = Path(name)
        store = BuiltStore(folder / "store", log_file_size=1 << 14)
        for number, (topic, queue_id, queue_offset, light) in enumerate(puts):
            multi = None
            if light is not None:
                offsets = ",".join(str(number // 2) for _ in light)
                multi = {
                    "INNER_MULTI_DISPATCH": ",".join(light),
                    "INNER_MULTI_QUEUE_OFFSET": offsets,
                }
            store.put(topic, queue_id, queue_offset=queue_offset, properties=multi)
        store.write_log()
        if damaged is not None and damaged < len(store.records):
            store.change_log(store.records[damaged].phy_offset + 30, b"\xff\xff")
        compare(store.root, folder, most, rows=rows, names=64)


def test_names_of_topics_whose_records_have_no_entry_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They were kept: half messages of a million topics took a few hundred mebibytes."""
    monkeypatch.setattr(queue_runs, "MOST_NAME_BYTES", 0)
    scan, runs = ColumnScan(QUEUE_COLUMNS), QueueRuns()
    for topic in (b"A", b"B"):
        raw = oracle.encode_record(oracle.Record(topic, b"x", b"", sys_flag=4))
        scan.feed(raw, len(raw), 0, 0, len(raw) + 1)
        assert list(runs.of(scan, scan.take())) == []
        assert runs._names == []
