"""`append` and `on_flushed` of a whole store: a put under SYNC_FLUSH without a thread that waits."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.errors import StoreClosedError, StoreFailedError
from rmqcore.vocabulary.status import PutMessageStatus as Status

SMALL: dict[str, Any] = {"mapped_file_size_commit_log": 1 << 16}
MODES = ("ASYNC_FLUSH", "SYNC_FLUSH")
HOUR = 3_600_000
SLOW: dict[str, Any] = {
    "flush_interval_commit_log": HOUR,
    "flush_commit_log_thorough_interval": HOUR,
    "flush_interval_consume_queue": HOUR,
}


class Heard(list[Status]):
    """A callback that keeps its answers."""

    def __init__(self) -> None:
        self.come = threading.Event()

    def __call__(self, status: Status) -> None:
        self.append(status)
        self.come.set()


@pytest.mark.parametrize("mode", MODES)
def test_append_waits_for_nothing_and_on_flushed_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    gate = threading.Event()
    flush = CommitLog.flush

    def slow(self: CommitLog, least_pages: int = 0) -> int:
        assert gate.wait(60)
        return flush(self, least_pages)

    with rmqcore.open(tmp_path, flush_disk_type=mode, **SMALL, **SLOW) as store:
        monkeypatch.setattr(CommitLog, "flush", slow)
        result = store.append(Message("t", b"x"))
        end = result.phy_offset + result.msg_size
        assert (result.status, end) == (Status.PUT_OK, store.max_phy_offset)
        heard, late = Heard(), Heard()
        store.on_flushed(end, heard)
        store.on_flushed(end, late, 1)
        assert late.come.wait(60)
        assert (late, heard, store.flushed_phy_offset) == ([Status.FLUSH_DISK_TIMEOUT], [], 0)
        gate.set()
        assert heard.come.wait(60)
        assert store.flushed_phy_offset == end
        again = Heard()
        store.on_flushed(end, again, 0)
        assert again == [Status.PUT_OK], "at once, in this thread: it is on disk"
        assert store.wait_dispatched(60)
        assert store.max_offset("t", 0) == 1
    assert (heard, late) == ([Status.PUT_OK], [Status.FLUSH_DISK_TIMEOUT])


@pytest.mark.parametrize("mode", MODES)
def test_without_threads_flush_and_close_answer(tmp_path: Path, mode: str) -> None:
    heard, late, last = Heard(), Heard(), Heard()
    with rmqcore.open(tmp_path, services=False, flush_disk_type=mode, **SMALL) as store:
        store.append(Message("t", b"x"))
        store.on_flushed(store.max_phy_offset, heard)
        store.on_flushed(store.max_phy_offset, late, 0)
        assert (heard, late) == ([], [])
        store.flush(1000)  # not so many pages: nothing is flushed, but the time is over
        assert (heard, late) == ([], [Status.FLUSH_DISK_TIMEOUT])
        store.flush()
        assert heard == [Status.PUT_OK]
        store.append(Message("t", b"x"))
        store.on_flushed(store.max_phy_offset, last)
    assert (heard, late, last) == ([Status.PUT_OK], [Status.FLUSH_DISK_TIMEOUT], [Status.PUT_OK])


@pytest.mark.parametrize("services", [True, False])
def test_a_failed_sync_is_no_answer_that_anybody_may_believe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, services: bool
) -> None:
    def broken(self: CommitLog, least_pages: int = 0) -> int:
        raise OSError(5, "Input/output error")

    store = rmqcore.open(tmp_path, services=services, **SMALL, **SLOW)
    store.append(Message("t", b"x"))
    good = store.max_phy_offset
    store.flush()
    with monkeypatch.context() as patch:
        patch.setattr(CommitLog, "flush", broken)
        store.append(Message("t", b"x"))
        heard, kept, refused = Heard(), Heard(), Heard()
        store.on_flushed(store.max_phy_offset, heard)
        if not services:
            with pytest.raises(StoreFailedError):
                store.flush()
        assert heard.come.wait(60)
    assert (heard, store.failed) == ([Status.UNKNOWN_ERROR], True)
    store.on_flushed(good, kept)
    assert kept == [Status.PUT_OK], "on disk before the failure"
    with pytest.raises(StoreFailedError):
        store.on_flushed(store.max_phy_offset, refused)
    store.close()
    with pytest.raises(StoreClosedError):
        store.on_flushed(good, refused)
    assert refused == []


def test_bad_arguments(tmp_path: Path) -> None:
    with rmqcore.open(tmp_path, services=False, **SMALL) as store:
        end = store.append(Message("t", b"x")).msg_size
        for bad in (end + 1, -1):
            with pytest.raises(ValueError, match=f"is {bad}, expected 0 to {end}"):
                store.on_flushed(bad, print)
        with pytest.raises(TypeError, match="callback"):
            store.on_flushed(end, None)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            store.on_flushed("1", print)  # type: ignore[arg-type]


def test_append_is_refused_as_put_is(tmp_path: Path) -> None:
    message, unwaited = Message("t", b"1"), Message("t", b"1", properties={"WAIT": "false"})
    with rmqcore.open(tmp_path / "slave", services=False, broker_role="SLAVE", **SMALL) as store:
        assert store.append(message).status is Status.SERVICE_NOT_AVAILABLE
        assert store.append(unwaited).status is Status.SERVICE_NOT_AVAILABLE
    waits: dict[str, Any] = {
        "broker_role": "SYNC_MASTER",
        "in_sync_replicas": 2,
        "slave_timeout": HOUR,
    }
    with rmqcore.open(tmp_path / "master", services=False, **SMALL, **waits) as store:
        assert store.append(message).status is Status.PUT_OK, (
            "stored, and nobody has asked for followers"
        )


@pytest.mark.parametrize("mode", MODES)
def test_a_callback_may_use_the_store_and_close_it(tmp_path: Path, mode: str) -> None:
    """It holds no lock: a callback under one would wait for itself in each of these."""
    closed = threading.Event()
    store = rmqcore.open(tmp_path, flush_disk_type=mode, **SMALL, **SLOW)
    answers: list[object] = []

    def use(status: Status) -> None:
        answers.append(status)
        answers.append(store.append(Message("t", b"y")).status)
        store.flush()
        store.flush_consume_queues()
        store.stats()

    def use_and_close(status: Status) -> None:
        use(status)
        try:
            store.close()
            answers.append("closed")
        finally:
            closed.set()

    store.append(Message("t", b"x"))
    store.on_flushed(store.max_phy_offset, use)
    store.on_flushed(store.max_phy_offset, use_and_close)
    assert closed.wait(60)
    store.close()
    assert answers == [*[Status.PUT_OK, Status.PUT_OK] * 2, "closed"]
    assert not (tmp_path / "abort").exists()


def test_what_a_callback_raises_is_in_stats(tmp_path: Path) -> None:
    def refuse(_: Status) -> None:
        raise ValueError("not mine")

    def interrupt(_: Status) -> None:
        raise KeyboardInterrupt

    heard = Heard()
    with rmqcore.open(tmp_path, services=False, **SMALL) as store:
        store.append(Message("t", b"x"))
        for callback in (refuse, interrupt, heard):
            store.on_flushed(store.max_phy_offset, callback)
        with pytest.raises(KeyboardInterrupt):
            store.flush()  # of this thread: its Ctrl-C goes to it, and the others are answered next
        store.flush()
        assert heard == [Status.PUT_OK]
        assert store.stats()["errors"]["on_flushed"] == "KeyboardInterrupt: "
        store.on_flushed(0, refuse)
        assert store.stats()["errors"]["on_flushed"] == "ValueError: not mine"
        assert not store.failed


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.forks
def test_a_forked_child_answers_nobody(tmp_path: Path) -> None:
    """The parent does: a child that answers for it, too, would send each answer twice."""
    with rmqcore.open(tmp_path, services=False, **SMALL) as store:
        store.append(Message("t", b"x"))
        heard = Heard()
        store.on_flushed(store.max_phy_offset, heard)
        child = os.fork()
        if child == 0:
            store.close()
            os._exit(len(heard))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert heard == []
        store.flush()
        assert heard == [Status.PUT_OK]
