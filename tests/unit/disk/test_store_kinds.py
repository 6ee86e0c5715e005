"""The kind of a store, by its files; which of them are not written, and that nothing is touched then."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.stores.rocksdb_index import IndexRows

import rmqcore
from rmqcore import Message, codec
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.store_kinds import RULES, dledger_folders, find_kinds, is_dledger_log
from rmqcore.engine.recovery.preview import preview_recovery
from rmqcore.errors import CommitLogMissingError, NotAStoreError, StoreKindError
from rmqcore.vocabulary.status import PutMessageStatus

SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 16 << 10,
    "mapped_file_size_consume_queue": 2000,
    "max_hash_slot_num": 100,
    "max_index_num": 400,
}
DATABASE = ("CURRENT", "IDENTITY", "LOCK", "MANIFEST-000005", "OPTIONS-000007", "000010.sst")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    root = tmp_path / "store"
    with rmqcore.open(root, **SIZES) as opened:
        for n in range(40):
            opened.put(Message("Orders", b"x" * 900, queue_id=n % 4)).raise_for_status()
        opened.wait_dispatched()
    return root


def names(root: Path) -> list[str]:
    return [kind.name for kind in find_kinds(StorePaths(root))]


def contents(root: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in root.rglob("*")
        if path.name != "lock"
    }


def file(path: Path, data: bytes = b"x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def rocksdb(root: Path, folder: str = "consumequeue") -> None:
    for name in DATABASE:
        file(root / folder / name)


def rocksdb_alone(root: Path) -> None:
    for topic in (root / "consumequeue").iterdir():
        topic.rename(root / f"gone-{topic.name}")
    rocksdb(root)


def half_a_database(root: Path) -> None:
    rocksdb_alone(root)
    for name in DATABASE[:-1]:
        (root / "consumequeue" / name).unlink()


def database_of_links(root: Path) -> None:
    rocksdb_alone(root)
    for name in DATABASE:
        path = root / "consumequeue" / name
        path.unlink()
        path.symlink_to("/dev/zero")


def entry(pos: int, n: int, magic: int = 1) -> bytes:
    record = codec.encode(
        Message("Orders", b"d%d" % n), phy_offset=pos + 48, queue_offset=n, store_timestamp_ms=1
    )
    size = 48 + len(record)
    return struct.pack(">iiqqqiiii", magic, size, n, 1, pos, 0, 0, 0, len(record)) + record


def dledger(root: Path, folder: str = "dledger-n0/data") -> None:
    data = b""
    for n in range(3):
        data += entry(len(data), n)
    file(root / folder / f"{0:020d}", data.ljust(16 << 10, b"\0"))


UNWRITTEN: dict[str, tuple[str, Callable[[Path], None]]] = {
    "rocksdb": ("rocksdb_queues", rocksdb_alone),
    "rocksdb beside": ("double_write", lambda root: rocksdb(root, "consumequeue_rocksdb")),
    "double write": ("double_write", rocksdb),
    "half a database": ("rocksdb_queues", half_a_database),
    "links for a database": ("rocksdb_queues", database_of_links),
    "dledger": ("dledger", dledger),
    "dledger of two": ("dledger", lambda root: dledger(root, "dledger-other/data")),
}


@pytest.mark.parametrize("which", UNWRITTEN)
def test_a_kind_that_is_not_written_is_refused_before_anything_changes(
    store: Path, which: str
) -> None:
    name, make = UNWRITTEN[which]
    make(store)
    before = contents(store)
    assert names(store) == [name]
    with pytest.raises(StoreKindError, match="rmqcore does not write such a store") as caught:
        rmqcore.open(store)
    assert caught.value.kind == name
    assert caught.value.hint
    assert caught.value.exit_code == 1
    assert contents(store) == before


def test_the_log_of_dledger_is_no_commit_log(tmp_path: Path) -> None:
    root = tmp_path / "store"
    dledger(root)
    before = contents(root)
    with pytest.raises(StoreKindError, match="DLedger"):
        rmqcore.open(root, store_path_commit_log=str(root / "dledger-n0" / "data"))
    assert contents(root) == before
    assert dledger_folders(StorePaths(root)) == [root / "dledger-n0" / "data"]


def queue_entries(first: int) -> bytes:
    return b"".join(struct.pack(">qiq", 120 * (first + n), 120, 65) for n in range(100))


def entries_of_dledgers_index(first: int) -> bytes:
    places = range(first, first + 100)
    return b"".join(struct.pack(">iqiqq", 1, 200 * n, 200, n, 0) for n in places)


def timers(first: int) -> bytes:
    return b"".join(
        struct.pack(">iqi", 52, n, 1).ljust(52, b"\7") for n in range(first, first + 100)
    )


@pytest.mark.parametrize("units", [queue_entries, entries_of_dledgers_index, timers])
def test_what_is_no_log_is_not_cut(tmp_path: Path, units: Callable[[int], bytes]) -> None:
    """Each was taken for a log without a record: all bytes went to cut/, and the log began anew."""
    root, log = tmp_path / "store", tmp_path / "store" / "other"
    size = len(units(0))
    for number in range(3):
        file(log / f"{number * size:020d}", units(100 * number))
    before = contents(root)
    sizes = {**SIZES, "mapped_file_size_commit_log": size}
    with pytest.raises(StoreKindError) as raised:
        rmqcore.open(root, store_path_commit_log=str(log), **sizes)
    assert (raised.value.kind, raised.value.place) == ("unknown_log", "other")
    assert contents(root) == before


def test_damage_at_the_start_of_one_file_makes_no_other_kind(store: Path) -> None:
    with (store / "commitlog" / f"{0:020d}").open("r+b") as log:
        log.write(b"\x5a" * 200)
    with rmqcore.open(store, services=False, **SIZES) as opened:
        assert opened.max_phy_offset > 16 << 10


@pytest.mark.parametrize("damaged", [0, 1])
def test_a_log_of_dledger_with_a_damaged_file_is_no_commit_log(
    tmp_path: Path, damaged: int
) -> None:
    root = tmp_path / "store"
    dledger(root)
    data = root / "dledger-n0" / "data"
    first = min(data.iterdir())
    file(data / f"{first.stat().st_size:020d}", entry(first.stat().st_size, 9))
    with sorted(data.iterdir())[damaged].open("r+b") as log:
        log.write(b"\x5a" * 200)
    before = contents(root)
    with pytest.raises(StoreKindError):
        rmqcore.open(root, store_path_commit_log=str(data))
    assert contents(root) == before


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (entry(0, 0), True),
        (entry(0, 0)[:55], False),
        (entry(0, 0, magic=3), False),
        (bytes(16 << 10), False),
        (
            codec.encode(Message("T", b"x"), phy_offset=0, queue_offset=0, store_timestamp_ms=1),
            False,
        ),
        (b"", False),
    ],
    ids=["an entry", "half of it", "another magic", "zeros", "a record", "nothing"],
)
def test_a_log_of_dledger_begins_with_a_head(tmp_path: Path, data: bytes, expected: bool) -> None:
    file(tmp_path / f"{0:020d}", data)
    assert is_dledger_log(tmp_path) is expected


def index_by_name(root: Path) -> None:
    """An index with an entry that no record has: RocksDB opens it."""
    rows = IndexRows(root / "rocksdbstore")
    rows.put("@Orders@K@k@u@", 1, 0)
    rows.end(0, 1)
    rows.close()


WRITTEN: dict[str, Callable[[Path], None]] = {
    "batch_queues": lambda root: file(root / "batchconsumequeue" / "B" / "0" / f"{0:020d}"),
    "consumequeue_ext": lambda root: file(root / "consumequeue_ext" / "T" / "0" / f"{0:020d}"),
    "compaction": lambda root: file(
        root / "compaction" / "compactionLog" / "C" / "0" / f"{0:020d}"
    ),
    "timer": lambda root: file(root / "timerwheel"),
    "pop": lambda root: (root / "consumequeue" / "rmq_sys_REVIVE_LOG_DefaultCluster").mkdir(),
    "lmq": lambda root: file(root / "config" / "lmqConsumerOffset.json", b"{}"),
    "tiered": lambda root: file(root / "config" / "tieredStoreMetadata.json", b"{}"),
    "controller": lambda root: file(root / "epochFileCheckpoint"),
    "rocksdb_index": index_by_name,
    "rocksdb_config": lambda root: file(root / "config" / "rdb" / "CURRENT"),
    "log_elsewhere": lambda root: file(root / "log2" / f"{0:020d}", entry(0, 0)[48:]),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_other_kinds_are_named_and_written(store: Path, name: str) -> None:
    WRITTEN[name](store)
    assert names(store) == [name]
    with rmqcore.open(store, **SIZES) as opened:
        assert opened.put(Message("Orders", b"new")).queue_offset == 10
    with rmqcore.read(store) as reader:
        assert [kind["name"] for kind in reader.info().as_dict()["kinds"]] == [name]
    assert [d.name for d in rmqcore.doctor(store).diagnoses if d.name == "store_kind"]


def test_every_kind_is_tried() -> None:
    tried = {name for name, _ in UNWRITTEN.values()} | set(WRITTEN)
    assert tried == set(RULES)


def test_an_ordinary_store_is_of_no_kind(store: Path) -> None:
    file(store / "consumequeue" / "notes.txt")
    file(store / "rocksdbstore" / "CURRENT")  # every broker of 5.4 and later makes it
    file(store / "rocksdbstore" / "000004.log", b"")
    file(store / "timerlog" / f"{0:020d}", bytes(100))
    assert names(store) == []
    with rmqcore.open(store, **SIZES):
        pass


BATCH = {"topicConfigTable": {"B": {"attributes": {"queue.type": "BatchCQ"}}, "T": {}, "U": 3}}


@pytest.mark.parametrize("how", ["by its directory", "by topics.json"])
def test_a_topic_of_batch_queues_takes_no_message(store: Path, how: str) -> None:
    if how == "by topics.json":
        file(store / "config" / "topics.json", json.dumps(BATCH).encode())
    else:
        WRITTEN["batch_queues"](store)
    with rmqcore.open(store, **SIZES) as opened:
        end = opened.max_phy_offset
        illegal = PutMessageStatus.MESSAGE_ILLEGAL
        for queue_id in (0, 7):
            result = opened.put(Message("B", b"x", queue_id=queue_id))
            assert result.status is illegal
            assert "batch queues" in str(result.reason)
        assert opened.put_batch([Message("B", b"x"), Message("B", b"y")]).status is illegal
        assert opened.max_phy_offset == end
        many = opened.put_many([Message("B", b"x"), Message("Orders", b"y")])
        assert list(many.statuses) == [illegal, PutMessageStatus.PUT_OK]
        assert str(many.refusal).startswith("message 0: topic 'B' has batch queues")
        columns = pytest.importorskip("pyarrow").table(
            {"topic": ["Orders", "B", "B", "Orders"], "body": [b"1", b"2", b"3", b"4"]}
        )
        rows = opened.put_arrow(columns)
        assert list(rows.phy_offsets >= 0) == [True, False, False, True]
        assert str(rows.refusal).startswith("row 1: topic 'B' has batch queues")
        opened.wait_dispatched()
        assert opened.max_offset("B", 0) == 0
    assert not (store / "consumequeue" / "B").exists()


def test_a_directory_of_the_log_that_is_missing_after_a_clean_exit(tmp_path: Path) -> None:
    root = tmp_path / "store"
    both = f"{root}/log1,{root}/log2"
    with rmqcore.open(root, store_path_commit_log=both, **SIZES) as store:
        for n in range(100):
            store.put(Message("T", b"x" * 900, queue_id=n % 4)).raise_for_status()
        store.wait_dispatched()
    logs = sorted(root.glob("log*/*"), key=lambda path: path.name)
    newest = logs[-1].parent
    kept = root / ("log1" if newest.name == "log2" else "log2")
    before = contents(root)
    with pytest.raises(CommitLogMissingError) as caught:
        rmqcore.open(root, store_path_commit_log=str(kept), **SIZES)
    assert f"--commitlog {kept},{newest})" in caught.value.hint
    for recover in ("normal", "deep"):
        with pytest.raises(CommitLogMissingError):
            rmqcore.open(root, store_path_commit_log=str(kept), recover=recover, **SIZES)
    assert contents(root) == before
    with rmqcore.open(root, store_path_commit_log=both, **SIZES) as store:
        assert sum(store.max_offset("T", queue_id) for queue_id in range(4)) == 100


def test_the_error_names_directories_of_a_log_in_the_root(tmp_path: Path) -> None:
    """The hint named the setting that lets an open delete all queues."""
    root = tmp_path / "store"
    both = f"{root}/log1,{root}/log2"
    with rmqcore.open(root, store_path_commit_log=both, **SIZES) as store:
        for n in range(100):
            store.put(Message("T", b"x" * 900, queue_id=n % 4)).raise_for_status()
        store.wait_dispatched()
    with pytest.raises(CommitLogMissingError) as caught:
        rmqcore.open(root, **SIZES)
    assert f"--commitlog {both})" in caught.value.hint
    assert "recover_without_commit_log" not in caught.value.hint
    with pytest.raises(CommitLogMissingError) as caught:
        preview_recovery(StorePaths(root), MessageStoreConfig(**SIZES))
    assert f"--commitlog {both})" in caught.value.hint


def test_no_directory_is_made_for_a_refused_store(tmp_path: Path) -> None:
    root = tmp_path / "store"
    dledger(root)
    with pytest.raises(StoreKindError):
        rmqcore.open(root)
    assert sorted(os.listdir(root)) == ["dledger-n0"]
    with pytest.raises(NotAStoreError):
        rmqcore.open(root, create=False)
