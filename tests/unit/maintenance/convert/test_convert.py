"""A store with RocksDB queues as one with queue files: the same log, the same queues, and numbers that continue."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from support.stores.rocksdb_queues import Database, entry_key, in_rocksdb

import rmqcore
from rmqcore import Message, MessageStoreConfig
from rmqcore.errors import StoreError, StoreLockedError, TargetNotEmptyError

SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 13,
    "mapped_file_size_consume_queue": 20 * 8,
    "max_hash_slot_num": 50,
    "max_index_num": 200,
}
CONFIG = MessageStoreConfig(**SIZES)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    root = tmp_path / "files"
    with rmqcore.open(root, **SIZES) as store:
        for number in range(100):
            store.put(Message("T", b"%d" % number * 40, number % 2, keys=[f"k{number}"]))
        store.wait_dispatched()
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json").write_text("{}")
    return root


@pytest.fixture
def store(files: Path, tmp_path: Path) -> Path:
    root = shutil.copytree(files, tmp_path / "store")
    in_rocksdb(root)
    return root


def bounds(root: Path) -> dict[Any, tuple[int, int]]:
    return {tuple(q): (q.min_offset, q.max_offset) for q in rmqcore.read(root).queues()}


def test_the_queues_are_those_of_the_files(files: Path, store: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    report = rmqcore.convert(store, out, config=CONFIG)
    assert (report.exit_code, report.queues, report.queue_entries) == (0, 2, 100)
    assert rmqcore.fsck(out).exit_code == 0
    found = rmqcore.diff(files, out)
    assert (found.queues, found.difference_count) == ([], 0)
    assert (out / "config" / "topics.json").read_text() == "{}"
    for path in sorted((files / "consumequeue").rglob("0*0")):
        assert (out / path.relative_to(files)).read_bytes() == path.read_bytes()
    with rmqcore.open(out, CONFIG) as opened:
        assert opened.put(Message("T", b"next")).queue_offset == 50
        assert len(opened.query("T", "k7")) == 1


def test_what_is_written_into_out_is_not_written_into_the_store(
    store: Path, tmp_path: Path
) -> None:
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    report = rmqcore.convert(store, tmp_path / "out", config=CONFIG)
    assert report.linked.files + report.copied.files + report.cloned.files >= 3
    with rmqcore.open(tmp_path / "out", CONFIG) as opened:
        for number in range(100):
            opened.put(Message("T", b"more %d" % number * 20))
        opened.wait_dispatched()
    assert {path: path.read_bytes() for path in store.rglob("*") if path.is_file()} == before


def test_queues_whose_messages_have_expired(store: Path, tmp_path: Path) -> None:
    made = Database(store / "consumequeue")
    made.edge("Idle", 3, b"max", 100, 40)
    made.edge("Idle", 3, b"min", 100, 41)
    made.close()
    min((store / "commitlog").iterdir()).unlink()
    report = rmqcore.convert(store, tmp_path / "out", config=CONFIG)
    assert (report.exit_code, report.idle_queues, report.differing) == (0, 1, [])
    assert bounds(tmp_path / "out") == bounds(store)
    assert bounds(store)["Idle", 3] == (41, 41)
    assert bounds(store)["T", 0][0] > 0
    assert rmqcore.fsck(tmp_path / "out").exit_code == 0
    with rmqcore.open(tmp_path / "out", CONFIG) as opened:
        assert opened.put(Message("Idle", b"next", 3)).queue_offset == 41


def test_an_entry_that_the_database_lacks(store: Path, tmp_path: Path) -> None:
    made = Database(store / "consumequeue")
    del made.entries[entry_key("T", 0, 5)]
    made.close()
    report = rmqcore.convert(store, tmp_path / "out", config=CONFIG)
    assert (report.exit_code, report.missing_entries, report.queue_entries) == (2, 1, 99)


def test_a_store_that_writes_both(files: Path, store: Path, tmp_path: Path) -> None:
    for path in (files / "consumequeue").iterdir():
        shutil.copytree(path, store / "consumequeue" / path.name)
    report = rmqcore.convert(store, tmp_path / "out", config=CONFIG)
    assert (report.exit_code, report.queue_entries) == (0, 100)
    assert sorted(path.name for path in (tmp_path / "out" / "consumequeue").iterdir()) == ["T"]


def test_what_is_refused(files: Path, store: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(StoreError, match="has no queue database"):
        rmqcore.convert(files, out)
    with pytest.raises(ValueError, match="does not write RocksDB"):
        rmqcore.convert(store, out, queues="rocksdb")
    with pytest.raises(ValueError, match="expected 'file'"):
        rmqcore.convert(store, out, queues="files")
    with pytest.raises(ValueError, match="outside the store"):
        rmqcore.convert(store, store / "out")
    assert not out.exists()
    out.mkdir()
    (out / "mine").touch()
    with pytest.raises(TargetNotEmptyError):
        rmqcore.convert(store, out)


def test_a_store_in_use(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqcore.maintenance.convert.convert.lock_holder", lambda path: 17)
    with pytest.raises(StoreLockedError, match="process 17"):
        rmqcore.convert(store, tmp_path / "out")
    assert not (tmp_path / "out").exists()
