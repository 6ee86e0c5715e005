"""A log that lacks what queues, index or checkpoint know: its disk is not mounted, or it lies elsewhere."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message, MessageStore
from rmqcore._native.format.cq_arrays import CQ_DTYPE
from rmqcore.disk.checkpoint import StoreCheckpoint
from rmqcore.disk.paths import StorePaths
from rmqcore.errors import CommitLogMissingError, NotAStoreError
from rmqcore.maintenance.rebuild.rebuild import rebuild
from rmqcore.offline.diff import diff
from rmqcore.offline.missing_log import LOG_MISSING, missing_log
from rmqcore.offline.stats import stats
from rmqcore.offline.tail import LogTail

SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 16 << 10,
    "mapped_file_size_consume_queue": 2000,
    "max_hash_slot_num": 100,
    "max_index_num": 400,
}
COUNT = 120


def put(store: MessageStore, first: int, count: int) -> None:
    for n in range(first, first + count):
        message = Message("T", b"x" * 300, keys=[f"K{n}"], queue_id=n % 2)
        store.put(message).raise_for_status()
    store.wait_dispatched()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with rmqcore.open(tmp_path / "store", **SIZES) as store:
        put(store, 0, COUNT)
    return tmp_path / "store"


def end_of(root: Path) -> int:
    return rmqcore.read(root).info().max_phy_offset


def unmount(root: Path, keep: int = 0) -> int:
    """Take the log's files away but for the first ones; return where it ended."""
    end = end_of(root)
    for path in sorted((root / "commitlog").iterdir())[keep:]:
        path.unlink()
    return end


def test_every_read_reports_a_log_without_a_file(root: Path, tmp_path: Path) -> None:
    end = unmount(root)
    reader = rmqcore.read(root)
    assert list(reader.messages()) == []
    (found,) = reader.damage
    assert (found.kind, found.start_phy_offset, found.end_phy_offset) == (LOG_MISSING, 0, end)
    assert "consumequeue/T/" in str(found.expected)
    assert "--commitlog" in str(found.found)
    for _ in reader.batches(["phy_offset"]):
        pass
    assert reader.damage == [found]
    assert reader.missing_log() == [found]
    assert stats(root).damage == [found]
    assert stats(root).exit_code == 2
    tail = LogTail(reader)
    assert tail.newest(3) == []
    assert tail.damage == [found]
    with pytest.raises(CommitLogMissingError):
        rebuild(root, tmp_path / "built")
    report = diff(root, root)
    assert (report.missing_a, report.missing_b, report.exit_code) == ([found], [found], 2)


@pytest.mark.parametrize("part", ["consumequeue", "index", "checkpoint"])
def test_each_part_that_knows_a_message_tells(root: Path, part: str) -> None:
    unmount(root, keep=1)
    for other in {"consumequeue", "index", "checkpoint"} - {part}:
        shutil.rmtree(root / other, ignore_errors=True)
        (root / other).unlink(missing_ok=True)
    reader = rmqcore.read(root)
    assert list(reader.messages())
    (found,) = reader.damage
    assert found.kind == LOG_MISSING
    assert found.start_phy_offset == 16 << 10
    assert part in str(found.expected)


def test_get_and_query_report_what_their_entries_lead_to(root: Path) -> None:
    unmount(root, keep=1)
    reader = rmqcore.read(root)
    assert reader.get("T", 0, 0).messages
    assert [found.kind for found in reader.damage] == [LOG_MISSING]
    reader = rmqcore.read(root)
    assert len(reader.query("T", "K0")) == 1
    assert reader.damage == []
    last = reader.query("T", f"K{COUNT - 1}")
    assert (list(last), len(last.missing_phy_offsets)) == ([], 1)
    assert [found.kind for found in reader.damage] == [LOG_MISSING]
    # What a walk found stays where it is.
    list(reader.messages())
    damage = list(reader.damage)
    reader.query("T", f"K{COUNT - 1}")
    assert reader.damage == damage


def test_a_read_that_ends_before_the_log_does_reports_nothing(root: Path) -> None:
    unmount(root, keep=2)
    reader = rmqcore.read(root)
    list(reader.messages(end_phy_offset=1000))
    assert reader.damage == []
    list(reader.messages(end_phy_offset=16 << 10))
    assert reader.damage == []
    next(iter(reader.messages()))
    assert reader.damage == []
    list(reader.messages(start_phy_offset=1 << 20))
    assert reader.damage == []
    list(reader.messages(start_phy_offset=33_000))
    assert [found.kind for found in reader.damage] == [LOG_MISSING]


def test_a_log_that_grows_while_it_is_read_lacks_nothing(root: Path) -> None:
    with rmqcore.open(root) as store:
        reader = rmqcore.read(root)
        for number, _ in enumerate(reader.messages()):
            if number in (0, COUNT - 1):
                put(store, COUNT, 60)
        assert reader.damage == []
        # The end that was listed is far behind what queues know by now.
        assert missing_log(StorePaths(root), 1000) == []


def test_the_text_names_the_directories_where_files_of_a_log_lie(root: Path) -> None:
    (root / "log1").mkdir()
    (root / "log2").mkdir()
    files = sorted((root / "commitlog").iterdir())
    files[0].rename(root / "log1" / files[0].name)
    for path in files[1:]:
        path.rename(root / "log2" / path.name)
    reader = rmqcore.read(root)
    list(reader.messages())
    text = str(reader.damage[0].found)
    assert "log1/, log2/ has CommitLog files" in text
    option = shlex.split(text.partition("--commitlog ")[2])[0]
    whole = rmqcore.read(root, commitlog=option)
    assert len(list(whole.messages())) == COUNT
    assert whole.damage == []
    # One of two directories: the other is named beside it.
    half = rmqcore.read(root, commitlog=str(root / "log1"))
    list(half.messages())
    text = str(half.damage[0].found)
    assert f"--commitlog {root}/log1,{root}/log2 reads them" in text


def test_queues_of_another_directory_name_are_no_log(root: Path) -> None:
    (root / "timerlog").mkdir()
    (root / "timerlog" / f"{0:020}").write_bytes(b"x")
    unmount(root)
    reader = rmqcore.read(root)
    list(reader.messages())
    assert "timerlog" not in str(reader.damage[0].found)


def test_zeros_where_queues_know_messages_are_reported(root: Path) -> None:
    """A power cut can leave the queues ahead of the log."""
    end = end_of(root)
    last = max((root / "commitlog").iterdir())
    base = int(last.name)
    *_, before, newest = rmqcore.read(root).messages()
    with last.open("r+b") as file:
        file.seek(newest.phy_offset - base)
        file.write(bytes(newest.msg_size))
    reader = rmqcore.read(root)
    list(reader.messages())
    (found,) = reader.damage
    assert (found.kind, found.start_phy_offset) == (
        LOG_MISSING,
        before.phy_offset + before.msg_size,
    )
    assert found.end_phy_offset == end


def test_a_torn_record_that_queues_know_is_reported_once(root: Path) -> None:
    *_, newest = rmqcore.read(root).messages()
    last = max((root / "commitlog").iterdir())
    with last.open("r+b") as file:
        file.seek(newest.phy_offset - int(last.name) + 50)
        file.write(bytes(newest.msg_size - 60))
    reader = rmqcore.read(root)
    list(reader.messages())
    assert [found.kind for found in reader.damage] == ["torn_tail"]


@pytest.mark.parametrize("size", [-1, 0, 1 << 30])
def test_an_impossible_entry_is_not_believed(root: Path, size: int) -> None:
    newest = max((root / "consumequeue" / "T" / "0").iterdir())
    data = bytearray(newest.read_bytes())
    used = len(bytes(data).rstrip(b"\0")) // CQ_DTYPE.itemsize
    data[(used - 1) * 20 : used * 20] = (
        (1 << 60).to_bytes(8, "big") + size.to_bytes(4, "big", signed=True) + bytes(8)
    )
    newest.write_bytes(data)
    reader = rmqcore.read(root)
    assert len(list(reader.messages())) == COUNT
    assert reader.damage == []


def test_the_newest_of_a_long_queue_is_found(tmp_path: Path) -> None:
    with rmqcore.open(tmp_path / "store", mapped_file_size_commit_log=1 << 20) as store:
        put(store, 0, 1500)
    end = unmount(tmp_path / "store")
    assert rmqcore.read(tmp_path / "store").missing_log()[0].end_phy_offset == end


def test_a_cleanly_closed_store_costs_no_look_at_its_queues(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("queues were looked at")

    monkeypatch.setattr("rmqcore.offline.missing_log.each_queue", refuse)
    assert missing_log(StorePaths(root), end_of(root)) == []


def test_a_new_store_lacks_nothing(tmp_path: Path) -> None:
    rmqcore.open(tmp_path / "store", **SIZES).close()
    reader = rmqcore.read(tmp_path / "store")
    assert list(reader.messages()) == []
    assert reader.damage == []


def test_a_log_alone_lacks_nothing(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / "commitlog", tmp_path / "copy" / "commitlog")
    max((tmp_path / "copy" / "commitlog").iterdir()).unlink()
    reader = rmqcore.read(tmp_path / "copy")
    assert list(reader.messages())
    assert reader.damage == []


def test_an_unreadable_checkpoint_tells_nothing(root: Path) -> None:
    (root / "checkpoint").write_bytes(StoreCheckpoint().encode()[:20])
    reader = rmqcore.read(root)
    assert len(list(reader.messages())) == COUNT
    assert reader.damage == []


# ---- a path that is not the store's -----------------------------------------------------------------


def test_a_file_of_the_log_given_as_the_store_names_the_root(root: Path) -> None:
    path = min((root / "commitlog").iterdir())
    with pytest.raises(
        NotADirectoryError, match=f"expected the store's root, the directory {root}:"
    ):
        rmqcore.read(path)


def test_the_parent_of_a_store_names_the_store(root: Path) -> None:
    with pytest.raises(NotAStoreError, match=f"there is a store in {root}"):
        rmqcore.read(root.parent)
