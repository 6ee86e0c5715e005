"""What the first table of docs/durability.md says of a slow disk, on a whole store."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.vocabulary.status import PutMessageStatus as Status

SYNC: dict[str, Any] = {"mapped_file_size_commit_log": 1 << 16, "flush_disk_type": "SYNC_FLUSH"}
WAITS: dict[str, Any] = {"broker_role": "SYNC_MASTER", "in_sync_replicas": 2, "slave_timeout": 1}


@pytest.mark.parametrize(
    ("settings", "late"), [({}, Status.FLUSH_DISK_TIMEOUT), (WAITS, Status.FLUSH_SLAVE_TIMEOUT)]
)
def test_a_put_whose_sync_takes_too_long_is_stored_and_a_later_answer_tells(
    settings: dict[str, Any], late: Status, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no failure: the sync goes on. A master that waits for followers says so whatever the disk says, as in Java."""
    gate = threading.Event()
    flush = CommitLog.flush

    def slow(self: CommitLog, least_pages: int = 0) -> int:
        assert gate.wait(60)
        return flush(self, least_pages)

    with rmqcore.open(tmp_path, sync_flush_timeout=1, **SYNC, **settings) as store:
        monkeypatch.setattr(CommitLog, "flush", slow)
        message = Message("t", b"x")
        results = [store.put(message), store.put_batch([message, message])]
        assert [(result.status, result.stored) for result in results] == [(late, True)] * 2
        assert list(store.put_many([message, Message("", b"")]).statuses) == [
            late,
            Status.MESSAGE_ILLEGAL,
        ]
        assert (store.flushed_phy_offset, store.failed) == (0, False)
        assert len(store.get("t", 0, 0).messages) == 0, "consumers see what is on disk alone"
        gate.set()
        assert store.flush() == store.max_phy_offset
        assert store.wait_dispatched(60)
        assert store.max_offset("t", 0) == 4
