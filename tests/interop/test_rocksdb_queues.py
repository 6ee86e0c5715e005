"""Queues that Java keeps in RocksDB: we answer from the database as Java does, and Java opens what `convert` makes of it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from interop.conftest import OpenJava
from interop.files import copy_store
from interop.java_store import JavaStore
from interop.questions import as_java, check_gets, check_same_answers, check_times
from interop.workload import PLAIN, Workload, ours
from interop.writers import put_java
from support.doses import dose

import rmqcore
from rmqcore import Message, MessageStoreConfig, StoreReader
from rmqcore.vocabulary.sysflag import has_queue_entry

SEEDS = dose("RMQCORE_ROCKSDB_SEEDS", test=1, verify=4, night=20)
PUTS = 400
IN_ROCKSDB = {**PLAIN, "storeType": "defaultRocksDB"}
SEPARATE = {**IN_ROCKSDB, "useSeparateStorePathForRocksdbCQ": True}


def written(java_open: OpenJava, root: Path, config: dict[str, Any], seed: int) -> None:
    with java_open(root, config) as java:
        put_java(java, Workload(seed, PLAIN).take(PUTS))
        java.await_dispatch()


def expire(root: Path, files: int) -> None:
    """Delete the oldest files of the log, as the cleaner does."""
    for path in sorted((root / "commitlog").iterdir())[:files]:
        path.unlink()


def names(root: Path) -> list[tuple[str, int, int]]:
    found = (path for path in root.rglob("*") if path.is_file())
    return sorted((str(one), one.stat().st_size, one.stat().st_mtime_ns) for one in found)


def check_reader(java: JavaStore, reader: Any, seed: int) -> None:
    """Every answer of a reader that needs a queue is Java's."""
    rng = random.Random(seed)
    messages = [one for one in java.records() if one["kind"] == "MESSAGE"]
    assert [as_java(view) for view in reader.messages()] == messages
    queues = queues_of(reader)
    with_entry = {
        (one["topic"], one["queue_id"]) for one in messages if has_queue_entry(one["sys_flag"])
    }
    assert with_entry <= {(queue["topic"], queue["queue_id"]) for queue in queues}
    check_gets(java, reader, queues, rng)  # each answer has where the queue begins and ends
    check_times(java, reader, queues, messages, rng)


def queues_of(reader: StoreReader) -> list[dict[str, Any]]:
    """Java lists no queue of a database before somebody asks for it."""
    wanted = ("topic", "queue_id", "min_offset", "max_offset")
    return [{name: queue.as_dict()[name] for name in wanted} for queue in reader.queues()]


def bounds_in(java: JavaStore, reader: StoreReader) -> dict[tuple[str, int], tuple[int, int]]:
    """Where Java says that the queues of a reader begin and end."""
    places = [(queue.topic, queue.queue_id) for queue in reader.queues()]
    requests = [
        {"topic": topic, "queueId": queue_id, "queueOffset": 0, "maxMessages": 1}
        for topic, queue_id in places
    ]
    answers = java.get(requests)
    return {
        place: (answer["min_offset"], answer["max_offset"])
        for place, answer in zip(places, answers, strict=True)
    }


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("expired", [0, 3])
@pytest.mark.parametrize("config", [IN_ROCKSDB, SEPARATE], ids=["in_place", "separate"])
def test_we_answer_from_the_database_as_java_does(
    config: dict[str, Any], expired: int, seed: int, java_open: OpenJava, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    written(java_open, root, config, seed)
    expire(root, expired)
    copy = copy_store(root, tmp_path / "copy")
    before = names(copy)
    reader = rmqcore.read(copy)
    with java_open(root, config) as java:
        check_reader(java, reader, seed)
        untouched = bounds_in(java, reader)
    report = rmqcore.fsck(copy)
    assert [one for one in report.findings if one.severity == "error"] == []
    assert report.counts["cq_entries"] > 0
    assert names(copy) == before, "nothing is written, no lock is made"
    with java_open(copy, config) as java:
        assert bounds_in(java, reader) == untouched
        check_reader(java, reader, seed + 1)


def test_a_database_that_a_broker_writes(java_open: OpenJava, tmp_path: Path) -> None:
    with java_open(tmp_path, IN_ROCKSDB) as java:
        reader = rmqcore.read(tmp_path)
        put_java(java, Workload(1, PLAIN).take(50))
        java.await_dispatch()
        reader.queues()  # those that RocksDB has flushed by now, which may be none
        assert rmqcore.fsck(tmp_path).exit_code == 0
    with java_open(tmp_path, IN_ROCKSDB) as java:
        check_reader(java, reader, 1)


@pytest.mark.parametrize("expired", [0, 3])
@pytest.mark.parametrize("config", [IN_ROCKSDB, SEPARATE], ids=["in_place", "separate"])
def test_java_opens_what_convert_makes(
    config: dict[str, Any], expired: int, java_open: OpenJava, tmp_path: Path
) -> None:
    root, out = tmp_path / "store", tmp_path / "out"
    written(java_open, root, config, 7)
    expire(root, expired)
    with java_open(root, config) as java:  # whose cleaning of the queues may move where they begin
        want = bounds_in(java, rmqcore.read(root))
    report = rmqcore.convert(root, out, config=MessageStoreConfig(**ours(PLAIN)))
    assert (report.exit_code, report.differing, report.missing_entries) == (0, [], 0)
    assert rmqcore.fsck(out).exit_code == 0
    mine = copy_store(out, tmp_path / "mine")
    with (
        java_open(out, PLAIN) as java,
        rmqcore.open(mine, services=False, **ours(PLAIN)) as store,
    ):
        assert java.verify()["bad"] == []
        assert want
        for queue in java.offsets()["queues"]:
            place = queue["topic"], queue["queue_id"]
            assert (queue["min_offset"], queue["max_offset"]) == want[place]
        check_same_answers(java, store)
        for topic, queue_id in store.queues():
            end = store.max_offset(topic, queue_id)
            assert store.put(Message(topic, b"next", queue_id)).queue_offset == end


def test_a_queue_whose_messages_have_expired_keeps_its_end(
    java_open: OpenJava, tmp_path: Path
) -> None:
    root, out = tmp_path / "store", tmp_path / "out"
    with java_open(root, IN_ROCKSDB) as java:
        java.put([(Message("Idle", b"%d" % n), 1_700_000_000_000 + n) for n in range(40)])
        java.put([(Message("Busy", bytes(900)), 1_700_000_001_000 + n) for n in range(200)])
        java.await_dispatch()
    expire(root, 2)
    with java_open(root, IN_ROCKSDB) as java:
        ends = bounds_in(java, rmqcore.read(root))
    assert ends["Idle", 0] == (40, 40)
    reader = rmqcore.read(root)
    assert {tuple(q): (q.min_offset, q.max_offset) for q in reader.queues()} == ends
    report = rmqcore.convert(root, out, config=MessageStoreConfig(**ours(PLAIN)))
    assert report.differing == []
    assert rmqcore.fsck(out).exit_code == 0
    copy = shutil.copytree(out, tmp_path / "copy")
    with java_open(out, PLAIN) as java:
        assert java.put([(Message("Idle", b"next"), 1_700_000_009_000)])[0]["queue_offset"] == 40
    with rmqcore.open(copy, **ours(PLAIN)) as store:
        assert store.put(Message("Idle", b"next")).queue_offset == 40
