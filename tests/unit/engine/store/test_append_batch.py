"""`append_batch`: a `put_batch` that waits for nothing."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.errors import StoreFailedError
from rmqcore.vocabulary.status import PutMessageStatus as Status

SMALL: dict[str, Any] = {"mapped_file_size_commit_log": 1 << 16}
MOST_SECONDS = 60


def batch() -> list[Message]:
    return [Message("t", b"one"), Message("t", b"two")]


def test_it_waits_for_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    flush = CommitLog.flush

    def slow(self: CommitLog, least_pages: int = 0) -> int:
        assert gate.wait(MOST_SECONDS)
        return flush(self, least_pages)

    with rmqcore.open(tmp_path, flush_disk_type="SYNC_FLUSH", **SMALL) as store:
        monkeypatch.setattr(CommitLog, "flush", slow)
        result = store.append_batch(batch())
        assert (result.status, result.count) == (Status.PUT_OK, 2)
        assert store.flushed_phy_offset == 0
        heard: list[Status] = []
        come = threading.Event()
        end = result.phy_offset + result.msg_size

        def hear(status: Status) -> None:
            heard.append(status)
            come.set()

        store.on_flushed(end, hear)
        gate.set()
        assert come.wait(MOST_SECONDS)
        assert heard == [Status.PUT_OK]
        assert store.put_batch(batch()).status is Status.PUT_OK
        assert store.flushed_phy_offset == store.max_phy_offset


@pytest.mark.parametrize(
    ("settings", "status"),
    [
        ({"broker_role": "SLAVE"}, Status.SERVICE_NOT_AVAILABLE),
        ({"broker_role": "SYNC_MASTER", "in_sync_replicas": 2}, Status.PUT_OK),
    ],
)
def test_it_is_refused_as_put_batch_is(
    tmp_path: Path, settings: dict[str, Any], status: Status
) -> None:
    with rmqcore.open(tmp_path, **SMALL, **settings) as store:
        assert store.append_batch(batch()).status is status
        with pytest.raises(ValueError, match="no message"):
            store.append_batch([])
        store.fail(OSError("gone"))
        with pytest.raises(StoreFailedError):
            store.append_batch(batch())
