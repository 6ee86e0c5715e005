"""A rebuild that takes the place of queues and index: what these know and the log does not is not lost without a word."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from support.stores.built_store import QUEUE_ENTRIES, BuiltStore

import rmqcore
from rmqcore.errors import (
    CommitLogMissingError,
    ForeignFilesError,
    KnowsLessError,
    StoreKindError,
)
from rmqcore.maintenance.rebuild.rebuild import rebuild

STEPS: dict[str, Any] = {"services": False, "message_index_enable": False}


@pytest.fixture
def built(tmp_path: Path) -> BuiltStore:
    return BuiltStore(tmp_path / "store")


def tree(root: Path) -> dict[str, bytes]:
    files = sorted(path for path in root.rglob("*") if path.is_file() and path.name != "lock")
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def queues_alone(root: Path) -> None:
    for path in (root / "index").iterdir():
        path.unlink()
    (root / "checkpoint").unlink()


def index_alone(root: Path) -> None:
    for path in (root / "consumequeue").rglob("0" * 20):
        path.unlink()
    (root / "checkpoint").unlink()


def checkpoint_alone(root: Path) -> None:
    kept = (root / "checkpoint").read_bytes()
    index_alone(root)
    for path in (root / "index").iterdir():
        path.unlink()
    (root / "checkpoint").write_bytes(kept)


@pytest.mark.parametrize("left", [None, queues_alone, index_alone, checkpoint_alone])
@pytest.mark.parametrize("parts", [{}, {"index": False}, {"queues": False}])
def test_a_log_whose_disk_is_not_mounted(
    built: BuiltStore, left: object, parts: dict[str, Any]
) -> None:
    """All queues and the index went, with exit code 0."""
    for _ in range(6):
        built.put()
    root = built.write()
    if callable(left):
        left(root)
    for path in (root / "commitlog").iterdir():
        path.unlink()
    before = tree(root)
    for apply in (True, False):
        with pytest.raises(CommitLogMissingError, match="there is no CommitLog file"):
            rebuild(root, apply=apply, **parts)
        assert tree(root) == before


def test_a_newest_log_file_that_is_missing(built: BuiltStore) -> None:
    built.fill(60)
    root = built.write()
    missing = max((root / "commitlog").iterdir())
    start = int(missing.name)
    lost = [record for record in built.records if record.phy_offset >= start]
    missing.unlink()
    before = tree(root)
    with pytest.raises(KnowsLessError) as caught:
        rebuild(root, index=False, apply=True)
    assert caught.value.count == len(lost)
    assert f"{len(lost)} entries would be lost" in str(caught.value)
    assert f"drop={len(lost)}" in caught.value.hint
    assert caught.value.exit_code == 2
    assert tree(root) == before
    with pytest.raises(KnowsLessError, match="accepted: 1"):
        rebuild(root, index=False, apply=True, drop=1)
    old = tree(root / "consumequeue")
    report = rebuild(root, index=False, apply=True, drop=len(lost))
    assert (report.exit_code, report.dropped_entries) == (2, len(lost))
    assert report.kept == ("consumequeue.kept-000001",)
    assert tree(root / report.kept[0]) == old
    again = rebuild(root, index=False, apply=True)
    assert (again.kept, again.dropped_entries) == ((), 0)
    assert [one.kind for one in again.damage] == ["log_missing"], "the index knows these messages"
    assert tree(root / report.kept[0]) == old, "what was kept is not deleted by the next run"


def test_index_entries_that_the_log_does_not_have(built: BuiltStore) -> None:
    built.fill(60)
    root = built.write()
    missing = max((root / "commitlog").iterdir())
    missing.unlink()
    before = tree(root)
    with pytest.raises(KnowsLessError) as caught:
        rebuild(root, queues=False, apply=True)
    assert "index entries of" in str(caught.value)
    assert tree(root) == before
    report = rebuild(root, queues=False, apply=True, drop=caught.value.count)
    assert report.kept == ("index.kept-000001",)


def test_entries_of_messages_that_damage_took(built: BuiltStore) -> None:
    built.fill(30)
    root = built.write()
    gone = built.records[10]
    built.change_log(gone.phy_offset, b"\x55" * (gone.msg_size or 0))
    with pytest.raises(KnowsLessError) as caught:
        rebuild(root, index=False, apply=True)
    assert caught.value.count == 1


def test_garbage_in_queues_is_nothing_that_is_known(built: BuiltStore) -> None:
    built.fill(30)
    root = built.write()
    expected = tree(root / "consumequeue")
    path, _ = built.queue_file("T", 1, 0)
    path.write_bytes(b"\x7f" * (20 * QUEUE_ENTRIES))
    report = rebuild(root, index=False, apply=True)
    assert (report.exit_code, report.kept) == (0, ())
    assert tree(root / "consumequeue") == expected


def test_a_queue_whose_messages_have_expired_goes_on_where_it_ended(built: BuiltStore) -> None:
    """The next message had queue offset 0, and a group that had read 20 messages did not get it."""
    for _ in range(20):
        built.put("Idle", body=b"x" * 100)
    built.fill(90)
    root = built.write()
    for path in sorted((root / "commitlog").iterdir())[:2]:
        path.unlink()
    beside = rebuild(root, root.parent / "out", index=False)
    assert beside.idle_queues == 1
    assert (root.parent / "out" / "consumequeue" / "Idle" / "0").is_dir()
    report = rebuild(root, apply=True)
    assert (report.exit_code, report.idle_queues, report.kept) == (0, 1, ())
    with rmqcore.open(root, mapped_file_size_commit_log=4096, **STEPS) as store:
        assert store.max_offset("Idle", 0) == 20
        assert store.put(rmqcore.Message("Idle", b"")).queue_offset == 20


@pytest.mark.parametrize(
    "name",
    [
        "consumequeue/notes.txt",
        "consumequeue/T/notes",
        "consumequeue/T/0/notes~",
        "index/copy/file",
    ],
)
def test_a_file_of_another_program(built: BuiltStore, name: str) -> None:
    built.fill(10)
    root = built.write()
    foreign = root / name
    foreign.parent.mkdir(exist_ok=True)
    foreign.write_text("mine")
    before = tree(root)
    part = name.partition("/")[0]
    with pytest.raises(ForeignFilesError, match=part) as caught:
        rebuild(root, queues=part != "index", index=part == "index", apply=True, drop=10)
    assert caught.value.exit_code == 2
    assert tree(root) == before


def test_a_file_of_another_program_beside_the_store(built: BuiltStore) -> None:
    built.fill(10)
    root = built.write()
    rebuild(root)
    (root / "rebuilt" / "consumequeue" / "mine").write_text("mine")
    with pytest.raises(ForeignFilesError):
        rebuild(root)
    assert (root / "rebuilt" / "consumequeue" / "mine").read_text() == "mine"


def test_queues_in_rocksdb(built: BuiltStore) -> None:
    """The database was deleted, and the broker that was started on the result could not serve the first message."""
    built.fill(10)
    root = built.write()
    for path in (root / "consumequeue").rglob("*"):
        if path.is_file():
            path.unlink()
    for name in ("000004.log", "000010.sst", "CURRENT", "IDENTITY", "LOCK", "MANIFEST-000005"):
        (root / "consumequeue" / name).write_text("rocksdb")
    before = tree(root)
    with pytest.raises(StoreKindError):
        rebuild(root, index=False, apply=True)
    assert tree(root) == before


def test_records_in_no_queue_are_named(built: BuiltStore) -> None:
    """The report said how many records were left out, and not which; the exit code was 0."""
    for _ in range(4):
        built.put()
    repeat = built.put(queue_offset=3, body=b"other")
    built.put()
    root = built.write()
    report = rebuild(root, root.parent / "out")
    assert (report.ignored_records, report.exit_code) == (1, 2)
    (one,) = report.set_aside
    assert (one.topic, one.queue_id, one.first_queue_offset) == ("T", 0, 3)
    assert one.first_phy_offset == one.last_phy_offset == repeat.phy_offset
    assert one.why == "another record has its queue offset"
    with pytest.raises(KnowsLessError) as caught:  # consumers reach the later record today
        rebuild(root, index=False, apply=True)
    assert caught.value.count == 1


def test_a_store_that_knows_nothing_and_has_no_log(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    report = rebuild(tmp_path, apply=True)
    assert (report.exit_code, report.records) == (0, 0)
    assert sorted(name for name in os.listdir(tmp_path) if "kept" in name) == []
