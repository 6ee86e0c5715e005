"""The way to disk: in which order a flush and a clean exit sync, and what a failure on the way leaves."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message
from rmqcore.disk.abort import AbortFile
from rmqcore.disk.checkpoint import CheckpointFile, read_checkpoint
from rmqcore.engine.index.index_file import IndexFile
from rmqcore.engine.index.index_service import IndexService
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.engine.queues.consume_queues import ConsumeQueues
from rmqcore.errors import StoreFailedError

SMALL: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 16,
    "mapped_file_size_consume_queue": 20 * 50,
    "max_hash_slot_num": 10,
    "max_index_num": 10,
}
NOW = 1_700_000_000_000


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each step that brings something to disk, in order."""
    done: list[str] = []

    def watch(owner: type, method: str) -> None:
        inner = getattr(owner, method)

        def watched(*given: Any, **named: Any) -> Any:
            done.append(f"{owner.__name__}.{method}")
            return inner(*given, **named)

        monkeypatch.setattr(owner, method, watched)

    watch(CommitLog, "flush")
    watch(CommitLog, "close")
    watch(ConsumeQueues, "flush")
    watch(IndexService, "flush_full")
    watch(IndexFile, "flush")
    watch(CheckpointFile, "flush")
    watch(AbortFile, "remove")
    return done


def test_each_step_syncs_its_own_part_and_a_clean_exit_all_in_the_order_of_the_data(
    tmp_path: Path, syncs: list[str]
) -> None:
    with rmqcore.open(tmp_path, services=False, clock=lambda: NOW, **SMALL) as store:
        store.put(Message("t", b"", keys="k"))
        store.wait_dispatched()
        syncs.clear()
        assert store.flush() == store.max_phy_offset
        assert syncs == ["CommitLog.flush"]
        store.flush_consume_queues(1)
        store.flush_consume_queues(0)
        assert syncs[1:] == [
            "ConsumeQueues.flush",
            "CommitLog.flush",
            "ConsumeQueues.flush",
            "IndexService.flush_full",
        ]
        store.write_checkpoint()
        assert syncs[5:] == ["CheckpointFile.flush"]
        written = read_checkpoint(tmp_path / "checkpoint")
        assert written is not None
        assert (written.physic_msg_timestamp_ms, written.logics_msg_timestamp_ms) == (NOW, NOW)
        syncs.clear()
    assert syncs == [
        "CommitLog.flush",
        "CommitLog.flush",
        "ConsumeQueues.flush",
        "IndexService.flush_full",
        "IndexService.flush_full",
        "IndexFile.flush",
        "CommitLog.close",
        "CheckpointFile.flush",
        "AbortFile.remove",
    ]


def test_the_checkpoint_never_says_more_of_the_log_than_a_flush_brought_to_disk(
    tmp_path: Path,
) -> None:
    times = iter(range(NOW, NOW + 10))
    with rmqcore.open(tmp_path, services=False, clock=lambda: next(times), **SMALL) as store:
        store.put(Message("t", b""))
        store.write_checkpoint()
        before = read_checkpoint(tmp_path / "checkpoint")
        assert before is None or before.physic_msg_timestamp_ms == 0
        store.flush()
        store.put(Message("t", b""))
        store.write_checkpoint()
        after = read_checkpoint(tmp_path / "checkpoint")
        assert after is not None and after.physic_msg_timestamp_ms == NOW


def test_a_close_whose_index_sync_fails_says_so_and_syncs_nothing_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory was let go of by a second sync of the index: its plain OSError hid the StoreFailedError."""
    tried: list[Path] = []

    def failing(file: IndexFile) -> None:
        tried.append(file.path)
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(file.path))

    store = rmqcore.open(tmp_path, services=False, **SMALL)
    store.put(Message("t", b"", keys="k"))
    monkeypatch.setattr(IndexFile, "flush", failing)
    with pytest.raises(StoreFailedError, match="Input/output"):
        store.close()
    assert len(tried) == 1
    assert (tmp_path / "abort").exists()
    monkeypatch.undo()
    with rmqcore.open(tmp_path, services=False, **SMALL) as again:
        assert again.wait_dispatched()
        assert len(again.query("t", "k").messages) == 1


def test_after_a_failure_close_syncs_no_index_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = rmqcore.open(tmp_path, services=False, **SMALL)
    for number in range(12):  # one full file waits for its sync, and the checkpoint for that
        store.put(Message("t", b"", keys=f"k{number}"))
    store.wait_dispatched()
    store.fail(OSError(errno.EIO, os.strerror(errno.EIO)))
    tried: list[IndexFile] = []
    monkeypatch.setattr(IndexFile, "flush", tried.append)
    before = read_checkpoint(tmp_path / "checkpoint")
    store.close()
    assert tried == []
    assert read_checkpoint(tmp_path / "checkpoint") == before
