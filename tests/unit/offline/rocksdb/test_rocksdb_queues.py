"""Queues in RocksDB give the answers that the same queues give as files, and the database is only looked at."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from support.stores.rocksdb_halves import HALVES, flipped_table
from support.stores.rocksdb_queues import Database, entry_key, in_rocksdb, java_store

import rmqcore
from rmqcore import Message, StoreReader
from rmqcore.errors import RocksdbError, RocksdbMissingError
from rmqcore.offline.fsck import fsck
from rmqcore.offline.queues.queues import queue_of
from rmqcore.vocabulary.status import GetMessageStatus

SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 13,
    "mapped_file_size_consume_queue": 20 * 8,
    "max_hash_slot_num": 50,
    "max_index_num": 200,
}
TOPICS = ("Orders", "A", "%RETRY%group", "Заказы")


def make_store(root: Path, messages: int = 120) -> Path:
    clock = iter(range(1_700_000_000_000, 1_700_001_000_000, 7))
    with rmqcore.open(root, clock=lambda: next(clock), **SIZES) as store:
        for number in range(messages):
            tags = "TagA" if number % 3 else "TagB"
            topic = TOPICS[number % len(TOPICS)]
            store.put(
                Message(topic, b"body %d" % number, number // 4 % 2, tags=tags, keys=[f"k{number}"])
            )
        store.wait_dispatched()
    return root


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return make_store(tmp_path / "files")


@pytest.fixture
def database(files: Path, tmp_path: Path) -> Path:
    """The same store with its queues in RocksDB."""
    root = tmp_path / "rocksdb"
    shutil.copytree(files, root)
    in_rocksdb(root)
    return root


def listing(root: Path) -> list[tuple[str, int, int]]:
    found = (path for path in root.rglob("*") if path.is_file())
    return sorted((str(one), one.stat().st_size, one.stat().st_mtime_ns) for one in found)


def answers(reader: StoreReader) -> list[object]:
    """Everything that is answered from queues."""
    given: list[object] = [reader.topics()]
    for queue in reader.queues():
        values = queue.as_dict()
        given.append([values[name] for name in values if name not in ("file_count", "disk_bytes")])
        for queue_offset in range(-1, queue.max_offset + 2):
            got = reader.get(queue.topic, queue.queue_id, queue_offset, 1)
            given.append((got.status, got.next_begin_offset, got.bodies()))
        for time_ms in range(1_700_000_000_000, 1_700_000_000_900, 90):
            given += [
                reader.offset_by_time(queue.topic, queue.queue_id, time_ms, side)
                for side in ("LOWER", "UPPER")
            ]
    return given


# ---- the same answers -------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["consumequeue", "consumequeue_rocksdb"])
@pytest.mark.parametrize("flush", [True, False])
def test_the_answers_are_those_of_queue_files(
    files: Path, place: str, flush: bool, tmp_path: Path
) -> None:
    root = shutil.copytree(files, tmp_path / "rocksdb")
    want = answers(rmqcore.read(files))
    in_rocksdb(root, place, flush=flush)
    before = listing(root)
    reader = rmqcore.read(root)
    got = answers(reader)
    assert got == want
    assert reader.info().queue_count == 8
    report = fsck(root)
    assert (report.exit_code, report.totals, report.counts["cq_entries"]) == (0, {}, 120)
    assert rmqcore.diff(files, root).queues == []
    assert listing(root) == before


def test_the_store_of_rocketmq_is_sound_and_answers_as_its_log_says(tmp_path: Path) -> None:
    """A check reported 1,171 errors of such a store, and doctor advised a rebuild that deletes the database."""
    root = java_store(tmp_path)
    before = listing(root)
    report = fsck(root)
    assert (report.exit_code, report.totals) == (0, {})
    assert report.counts["cq_entries"] == 234
    made = tmp_path / "files"
    shutil.copytree(root, made)
    shutil.rmtree(made / "consumequeue")
    rmqcore.rebuild(root, tmp_path / "rebuilt", index=False)
    (tmp_path / "rebuilt" / "consumequeue").rename(made / "consumequeue")
    one, other = rmqcore.read(root), rmqcore.read(made)
    assert len(one.queues()) == 62
    assert answers(one) == answers(other)
    found = rmqcore.doctor(root)
    assert {one.name: one.severity for one in found.diagnoses} == {
        "rocksdb_queues": "info",
        "store_kind": "info",
    }
    assert found.exit_code == 0
    assert listing(root) == before


def test_no_file_ends_a_get(database: Path, files: Path) -> None:
    """RocksDBConsumeQueue#iterateFrom; of files of eight entries a get would see one."""
    got = rmqcore.read(database).get("Orders", 0, 0, 32)
    assert (len(got), got.next_begin_offset, got.max_offset) == (15, 15, 15)
    assert len(rmqcore.read(files).get("Orders", 0, 0, 32)) == 8
    assert len(rmqcore.read(database).get("Orders", 0, 0, 3, tags="TagB")) == 3


def test_messages_that_have_expired(database: Path) -> None:
    min((database / "commitlog").iterdir()).unlink()
    reader = rmqcore.read(database)
    for queue in reader.queues():
        left = [
            view.queue_offset
            for view in reader.messages(topics=[queue.topic], queue_ids=[queue.queue_id])
        ]
        assert 0 < queue.min_offset == left[0]
        assert queue.max_offset == left[-1] + 1
        assert reader.get(queue.topic, queue.queue_id, 0).status is (
            GetMessageStatus.OFFSET_TOO_SMALL
        )
    assert fsck(database).exit_code == 0


def test_a_queue_without_entries_keeps_its_end(tmp_path: Path) -> None:
    """The compaction of a broker has taken the entries of all expired messages away."""
    root = make_store(tmp_path / "store")
    place = in_rocksdb(root)
    made = Database(place)
    made.edge("Idle", 0, b"max", 100, 41)
    made.edge("Idle", 0, b"min", 100, 42)
    made.close()
    min((root / "commitlog").iterdir()).unlink()
    reader = rmqcore.read(root)
    bounds = {tuple(q): (q.min_offset, q.max_offset) for q in reader.queues()}
    assert bounds["Idle", 0] == (42, 42)
    assert reader.get("Idle", 0, 42).status is GetMessageStatus.OFFSET_OVERFLOW_ONE
    assert fsck(root).exit_code == 0


def test_an_entry_that_is_missing_between_others(database: Path) -> None:
    place = database / "consumequeue"
    made = Database(place)
    queue = queue_of(rmqcore.read(database).paths, "Orders", 0)
    del made.entries[entry_key("Orders", 0, 3)]
    made.close()
    queue.refresh()
    assert (len(queue.entries(0, 10)), queue.max_offset()) == (3, 15)
    reader = rmqcore.read(database)
    assert reader.get("Orders", 0, 0).next_begin_offset == 3
    hole = reader.get("Orders", 0, 3)
    assert (hole.status, hole.next_begin_offset) == (GetMessageStatus.OFFSET_FOUND_NULL, 4)
    report = fsck(database)
    assert (report.exit_code, report.totals) == (2, {"cq_missing": {"error": 1}})


def test_a_reader_sees_what_was_written_since(database: Path) -> None:
    reader = rmqcore.read(database)
    assert reader.get("New", 0, 0).status is GetMessageStatus.NO_MESSAGE_IN_QUEUE
    (view,) = reader.get("Orders", 0, 0, 1).messages
    made = Database(database / "consumequeue")
    made.put("New", 0, [(0, (view.phy_offset, view.msg_size, view.tags_code, 1))])
    made.close()
    assert reader.get("New", 0, 0).bodies() == [view.body]
    assert "New" in reader.topics()


def test_files_beside_a_database_are_read(files: Path, tmp_path: Path) -> None:
    """rocksdbCQDoubleWriteEnable: a broker reads the files."""
    root = shutil.copytree(files, tmp_path / "both")
    copy = shutil.copytree(files, tmp_path / "copy")
    place = in_rocksdb(copy)
    for path in place.iterdir():
        shutil.copy(path, root / "consumequeue" / path.name)
    assert answers(rmqcore.read(root)) == answers(rmqcore.read(files))
    assert fsck(root).exit_code == 0


# ---- half a database --------------------------------------------------------------------------------


@pytest.mark.parametrize("harm", HALVES)
def test_half_a_database_is_a_finding_by_its_name(harm: Any, database: Path) -> None:
    place = database / "consumequeue"
    harm(place)
    before = listing(database)
    report = fsck(database)
    assert report.exit_code == 2
    assert report.totals["rocksdb"]["error"] >= 1
    assert set(report.totals) == {"rocksdb"}, "of the queues nothing else is said"
    assert all(one.path.startswith("consumequeue") for one in report.findings)
    assert report.counts["records"] == 120
    with pytest.raises(RocksdbError, match="consumequeue"):
        rmqcore.read(database).get("Orders", 0, 0)
    found = rmqcore.doctor(database)
    assert {one.name: one.severity for one in found.diagnoses}.get(
        "rocksdb_damaged"
    ) == "error" or (harm is flipped_table)
    assert "queues_missing" not in {one.name for one in found.diagnoses}
    assert listing(database) == before


def test_a_link_in_the_place_of_the_database(files: Path, tmp_path: Path) -> None:
    root = shutil.copytree(files, tmp_path / "store")
    place = in_rocksdb(root, "consumequeue_rocksdb")
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    report = fsck(root)
    assert (report.exit_code, report.findings[0].kind) == (2, "rocksdb")
    assert "a link" in report.findings[0].message


# ---- without the package ----------------------------------------------------------------------------


@pytest.fixture
def without_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqcore.offline.rocksdb.view.find_spec", lambda name: None)


@pytest.mark.usefixtures("without_package")
def test_without_the_package_an_error_names_the_extra(database: Path) -> None:
    reader = rmqcore.read(database)
    for asked in (
        lambda: reader.get("Orders", 0, 0),
        reader.queues,
        lambda: fsck(database),
    ):
        with pytest.raises(RocksdbMissingError, match="rocksdict is not installed") as caught:
            asked()
        assert "rmqcore[rocksdb]" in caught.value.hint
    assert fsck(database, check_queues=False).exit_code == 0
    info = reader.info()
    assert (info.queue_count, info.topic_count, info.log_file_count) == (None, None, 2)
    assert len(list(reader.messages())) == 120
    for thorough in (False, True):
        found = rmqcore.doctor(database, thorough=thorough)
        (told,) = [one for one in found.diagnoses if one.name == "rocksdb_queues"]
        assert "rmqcore[rocksdb]" in str(told.evidence[0].found)
        assert found.exit_code == 0
