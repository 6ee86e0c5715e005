"""`replicated` and `on_replicated`: callbacks that wait for followers, and how each of them ends."""

from __future__ import annotations

import gc
import os
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message, MessageStore
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.errors import StoreClosedError, StoreFailedError
from rmqcore.vocabulary.status import PutMessageStatus as Status

HOUR = 3_600_000  # milliseconds
SMALL: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 16,
    "broker_role": "SYNC_MASTER",
    "in_sync_replicas": 2,
    "slave_timeout": HOUR,
}
OK, LATE, UNKNOWN = Status.PUT_OK, Status.FLUSH_SLAVE_TIMEOUT, Status.UNKNOWN_ERROR


class Heard(list[Status]):
    """A callback that keeps its answers, and the name of the last thread that called it."""

    def __init__(self) -> None:
        self.come = threading.Event()
        self.thread = ""

    def __call__(self, status: Status) -> None:
        self.append(status)
        self.thread = threading.current_thread().name
        self.come.set()

    def wait(self) -> Status:
        assert self.come.wait(60)
        return self[0]


def append(store: MessageStore) -> int:
    """Append a message, and return where it ends."""
    result = store.append(Message("t", b"x"))
    return result.phy_offset + result.msg_size


@pytest.mark.parametrize("services", [True, False])
def test_called_once_in_the_thread_that_reports(tmp_path: Path, services: bool) -> None:
    with rmqcore.open(tmp_path, services=services, **SMALL) as store:
        ends = [append(store) for _ in range(3)]
        every = [Heard() for _ in ends]
        for end, heard in zip(ends, every, strict=True):
            store.on_replicated(end, heard)
        store.replicated(ends[1] - 1)
        assert every == [[OK], [], []]
        store.replicated(ends[2])
        assert every == [[OK], [OK], [OK]]
        assert {heard.thread for heard in every} == {threading.current_thread().name}
        store.replicated(ends[0])
        assert store.replicated_offset == ends[2], "it never goes back"
    assert every == [[OK], [OK], [OK]]


def test_answers_come_in_the_order_of_the_log(tmp_path: Path) -> None:
    with rmqcore.open(tmp_path, services=False, **SMALL) as store:
        ends = [append(store) for _ in range(20)]
        heard: list[int] = []

        def note(end: int, _: Status) -> None:
            heard.append(end)

        for end in reversed(ends):
            store.on_replicated(end, partial(note, end))
        store.replicated(ends[4])
        assert (heard, len(store.replica_waiters)) == (ends[:5], 15)
        store.replicated(ends[-1])
        assert (heard, len(store.replica_waiters)) == (ends, 0)


def test_a_late_one_keeps_no_other_from_its_answer(tmp_path: Path) -> None:
    """In Java a put without its ack holds up those behind it, until their time is over too."""
    with rmqcore.open(tmp_path, **SMALL) as store:
        first, second = append(store), append(store)
        late, behind, before = Heard(), Heard(), Heard()
        store.on_replicated(second, behind)
        store.on_replicated(second, late, 1)
        store.on_replicated(first, before)
        assert late.wait() is LATE
        assert late.thread == "rmqcore-deadlines"
        store.replicated(first)
        assert (before, behind) == ([OK], [])
        store.replicated(second)
        assert (late, behind) == ([LATE], [OK])


def test_without_threads_replicated_flush_and_close_answer(tmp_path: Path) -> None:
    with rmqcore.open(tmp_path, services=False, **SMALL) as store:
        end = append(store)
        late, later, reported, on_disk, left = (Heard() for _ in range(5))
        store.on_replicated(end, late, 0)
        store.on_flushed(end, on_disk, 0)
        store.replicated(0)
        assert (late, on_disk) == ([LATE], [Status.FLUSH_DISK_TIMEOUT])
        store.on_replicated(end, later, 0)
        store.on_replicated(end, reported, HOUR)
        store.flush()
        assert (later, reported) == ([LATE], [])
        store.replicated(end)
        assert reported == [OK]
        store.on_replicated(append(store), left)
    assert left == [UNKNOWN]


@pytest.mark.parametrize("services", [True, False])
def test_a_report_that_is_there_is_no_timeout_however_late_it_is_looked_at(
    tmp_path: Path, services: bool
) -> None:
    with rmqcore.open(tmp_path, services=services, **SMALL) as store:
        end, heard = append(store), Heard()
        store.on_replicated(end, heard, HOUR)
        store.replica_waiters.reached(
            end
        )  # a report whose thread was interrupted before its answers
        store.replica_waiters.expire(float("inf"))
        assert heard == [OK]


def test_a_report_beyond_the_log_is_refused(tmp_path: Path) -> None:
    """Java counts it as an ack: a follower that claims more than it was sent makes each put PUT_OK."""
    with rmqcore.open(tmp_path, services=False, **SMALL) as store:
        end, heard = append(store), Heard()
        store.on_replicated(end, heard)
        for bad in (end + 1, 1 << 70, -1):
            with pytest.raises(ValueError, match=f"phy_offset is {bad}, expected 0 to {end}"):
                store.replicated(bad)
            with pytest.raises(ValueError, match=f"end_phy_offset is {bad}, expected 0 to {end}"):
                store.on_replicated(bad, heard)
        assert (heard, store.replicated_offset) == ([], 0)


@pytest.mark.parametrize("services", [True, False])
def test_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, services: bool) -> None:
    def broken(self: CommitLog, least_pages: int = 0) -> int:
        raise OSError(5, "Input/output error")

    store = rmqcore.open(tmp_path, services=services, **SMALL)
    good = append(store)
    store.replicated(good)
    with monkeypatch.context() as patch:
        patch.setattr(CommitLog, "flush", broken)
        heard, kept, refused = Heard(), Heard(), Heard()
        store.on_replicated(append(store), heard)
        with pytest.raises(StoreFailedError):
            store.flush()
        assert heard.wait() is UNKNOWN
    store.on_replicated(good, kept)
    assert kept == [OK], "followers held it before the failure"
    with pytest.raises(StoreFailedError):
        store.on_replicated(store.max_phy_offset, refused)
    store.replicated(store.max_phy_offset)
    store.on_replicated(store.max_phy_offset, kept)
    assert kept == [OK, OK], "followers hold it, whatever became of this store"
    store.close()
    with pytest.raises(StoreClosedError):
        store.on_replicated(good, refused)
    with pytest.raises(StoreClosedError):
        store.replicated(good)
    assert (heard, refused) == ([UNKNOWN], [])


@pytest.mark.parametrize("services", [True, False])
def test_a_close_answers_all_that_wait(tmp_path: Path, services: bool) -> None:
    heard = Heard()
    with rmqcore.open(tmp_path, services=services, **SMALL) as store:
        store.on_replicated(append(store), heard)
    assert heard == [UNKNOWN]
    assert not (tmp_path / "abort").exists()


def test_a_store_that_is_dropped_leaves_no_callback_waiting(tmp_path: Path) -> None:
    store = rmqcore.open(tmp_path, **SMALL)
    heard = Heard()
    store.on_replicated(append(store), heard)
    del store
    gc.collect()
    assert heard.wait() is UNKNOWN


def test_a_callback_may_use_the_store_and_close_it(tmp_path: Path) -> None:
    store = rmqcore.open(tmp_path, **SMALL)
    answers: list[object] = []

    def use(status: Status) -> None:
        answers.append(status)
        end = append(store)
        store.on_replicated(end, answers.append)
        store.replicated(end)
        store.flush()
        store.close()

    end = append(store)
    store.on_replicated(end, use)
    store.replicated(end)
    assert answers == [OK, OK]
    with pytest.raises(StoreClosedError):
        store.flush()


def test_what_a_callback_raises_is_in_stats(tmp_path: Path) -> None:
    def refuse(_: Status) -> None:
        raise ValueError("not mine")

    with rmqcore.open(tmp_path, services=False, **SMALL) as store:
        end, heard = append(store), Heard()
        store.on_replicated(end, refuse)
        store.on_replicated(end, heard)
        store.replicated(end)
        assert heard == [OK]
        assert store.stats()["errors"]["on_replicated"] == "ValueError: not mine"
        assert not store.failed


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.forks
def test_a_forked_child_answers_no_callback(tmp_path: Path) -> None:
    with rmqcore.open(tmp_path, services=False, **SMALL) as store:
        end, heard = append(store), Heard()
        store.on_replicated(end, heard)
        child = os.fork()
        if child == 0:
            store.close()
            os._exit(len(heard))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert heard == []
        store.replicated(end)
        assert heard == [OK]
