"""A master that waits for followers: which puts wait, until when, and what they answer. `replicated` stands in for followers."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.eventually import eventually

import rmqcore
from rmqcore import Message, MessageStore, MessageStoreConfig
from rmqcore.config.unused import UnusedSettingWarning
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.engine.store.put_waits import replicas_needed
from rmqcore.errors import PutFailedError, StoreFailedError
from rmqcore.vocabulary.status import PutMessageStatus as Status

SMALL: dict[str, Any] = {"mapped_file_size_commit_log": 1 << 16}
WAITS: dict[str, Any] = {"broker_role": "SYNC_MASTER", "in_sync_replicas": 2}
HOUR = 3_600_000  # milliseconds: a wait that does not end by itself during a test
PATIENT: dict[str, Any] = {**SMALL, **WAITS, "slave_timeout": HOUR}
HASTY: dict[str, Any] = {**SMALL, **WAITS, "slave_timeout": 30}
MODES = ("ASYNC_FLUSH", "SYNC_FLUSH")
UNWAITED = Message("t", b"u", properties={"WAIT": "false"})
OK, LATE = Status.PUT_OK, Status.FLUSH_SLAVE_TIMEOUT
Put = Callable[[MessageStore], object]


def put_rows(store: MessageStore) -> object:
    arrow = pytest.importorskip("pyarrow")
    rows = arrow.table({"topic": ["t", "t"], "body": [b"1", b"2"]})
    return set(store.put_arrow(rows).statuses)


PUTS: dict[str, Put] = {
    "put": lambda store: {store.put(Message("t", b"1")).status},
    "put_batch": lambda store: {store.put_batch([Message("t", b"1")] * 3).status},
    "put_many": lambda store: set(store.put_many([Message("t", b"1")] * 3).statuses),
    "put_arrow": put_rows,
}


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


def begin(pool: ThreadPoolExecutor, store: MessageStore, put: Put = PUTS["put"]) -> Future[object]:
    """Put in another thread, and return when the message is stored and the thread waits for followers."""
    waiting = pool.submit(put, store)
    eventually(lambda: waiting.done() or len(store.replica_waiters))
    return waiting


@pytest.mark.parametrize(
    ("settings", "needed"),
    [
        ({}, 1),
        ({"in_sync_replicas": 2}, 1),
        ({"broker_role": "SLAVE", "in_sync_replicas": 2}, 1),
        ({"broker_role": "SYNC_MASTER"}, 1),
        ({"broker_role": "SYNC_MASTER", "in_sync_replicas": 0}, 1),
        (WAITS, 2),
        ({**WAITS, "in_sync_replicas": 3}, 3),
        ({**WAITS, "duplication_enable": True}, 1),
    ],
)
def test_how_many_replicas_must_hold_a_message(settings: dict[str, Any], needed: int) -> None:
    assert replicas_needed(MessageStoreConfig(**settings)) == needed


@pytest.mark.parametrize(
    ("settings", "needed"),
    [
        ({"enable_auto_in_sync_replicas": True}, 2),
        ({"all_ack_in_sync_state_set": True}, 2),
        ({"min_in_sync_replicas": 2, "in_sync_replicas": 1}, 1),
    ],
)
@pytest.mark.parametrize("mode", ["enableSlaveActingMaster", "enableControllerMode"])
def test_settings_of_modes_that_are_not_served_warn_and_change_nothing(
    settings: dict[str, Any], needed: int, mode: str
) -> None:
    with pytest.warns(UnusedSettingWarning, match="enableSlaveActingMaster or enableController"):
        config = MessageStoreConfig(**{**WAITS, **settings}, extra={mode: "true"})
    assert replicas_needed(config) == needed


@pytest.mark.parametrize("flush", MODES)
@pytest.mark.parametrize("services", [True, False])
def test_a_put_without_enough_followers_is_stored_and_says_so(
    tmp_path: Path, services: bool, flush: str
) -> None:
    """A SYNC_MASTER with ``in_sync_replicas=2`` and no follower answered PUT_OK: the user took that for two copies."""
    with rmqcore.open(tmp_path, services=services, flush_disk_type=flush, **HASTY) as store:
        result = store.put(Message("t", b"1"))
        assert (result.status, result.stored, result.queue_offset) == (LATE, True, 0)
        with pytest.raises(PutFailedError, match="FLUSH_SLAVE_TIMEOUT") as failed:
            result.raise_for_status()
        assert failed.value.stored
        assert store.put(UNWAITED).status is OK
        assert store.put_batch([Message("t", b"2")] * 2).status is LATE
        assert store.put_batch([UNWAITED]).status is OK
        many = store.put_many([Message("t", b"3"), Message("", b"illegal"), UNWAITED])
        assert list(many.statuses) == [LATE, Status.MESSAGE_ILLEGAL, LATE]
        assert store.put(Message("", b"")).status is Status.MESSAGE_ILLEGAL
        if flush == "SYNC_FLUSH":
            assert store.flushed_phy_offset == store.max_phy_offset
        assert len(store.replica_waiters) == 0, "a put that is late leaves nothing behind"
        assert store.wait_dispatched(60)
        assert store.max_offset("t", 0) == 7


@pytest.mark.parametrize("put", PUTS)
@pytest.mark.parametrize("flush", MODES)
@pytest.mark.parametrize("services", [True, False])
def test_a_put_is_answered_when_followers_hold_all_of_it(
    tmp_path: Path, pool: ThreadPoolExecutor, services: bool, flush: str, put: str
) -> None:
    with rmqcore.open(tmp_path, services=services, flush_disk_type=flush, **PATIENT) as store:
        waiting = begin(pool, store, PUTS[put])
        assert store.put(UNWAITED).status is OK
        end = store.max_phy_offset - store.append(UNWAITED).msg_size
        store.replicated(end - 1)
        assert not waiting.done()
        store.replicated(end)
        assert waiting.result(60) == {OK}
        assert store.replicated_offset == end
        if flush == "SYNC_FLUSH":
            assert store.flushed_phy_offset >= end


def test_puts_are_answered_in_the_order_of_the_log(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    with rmqcore.open(tmp_path, **PATIENT) as store:
        waiting: list[Future[object]] = []
        ends: list[int] = []
        for _ in range(4):
            waiting.append(pool.submit(PUTS["put"], store))
            eventually(lambda: len(store.replica_waiters) == len(waiting))
            ends.append(store.max_phy_offset)
        store.replicated(ends[1])
        assert [one.result(60) for one in waiting[:2]] == [{OK}, {OK}]
        assert not any(one.done() for one in waiting[2:])
        store.replicated(ends[3])
        assert [one.result(60) for one in waiting[2:]] == [{OK}, {OK}]


def test_what_followers_hold_already_is_not_waited_for(tmp_path: Path) -> None:
    """Java answers FLUSH_SLAVE_TIMEOUT to a put whose time is over when its turn comes, though followers hold it."""
    with rmqcore.open(tmp_path, **SMALL, **WAITS, slave_timeout=0) as store:
        assert store.put(Message("t", b"1")).status is LATE
        heard: list[Status] = []
        store.on_replicated(store.max_phy_offset, heard.append, HOUR)
        store.on_replicated(store.max_phy_offset - 1, heard.append, HOUR)
        store.replicated(store.max_phy_offset)
        assert heard == [OK, OK]
        store.on_replicated(store.max_phy_offset, heard.append, 0)
        assert heard == [OK, OK, OK], "at once, in this thread"


@pytest.mark.parametrize(
    ("disk_is_late", "followers_come", "status"),
    [
        (False, True, OK),
        (True, True, Status.FLUSH_DISK_TIMEOUT),
        (False, False, LATE),
        (True, False, LATE),
    ],
)
def test_both_are_waited_for_and_followers_decide(
    tmp_path: Path,
    pool: ThreadPoolExecutor,
    monkeypatch: pytest.MonkeyPatch,
    disk_is_late: bool,
    followers_come: bool,
    status: Status,
) -> None:
    gate, flush = threading.Event(), CommitLog.flush

    def slow(self: CommitLog, least_pages: int = 0) -> int:
        assert gate.wait(60)
        return flush(self, least_pages)

    times = {
        "sync_flush_timeout": 1 if disk_is_late else HOUR,
        "slave_timeout": HOUR if followers_come else 1,
    }
    settings = {**SMALL, **WAITS, **times, "flush_disk_type": "SYNC_FLUSH"}
    with rmqcore.open(tmp_path, **settings) as store:
        monkeypatch.setattr(CommitLog, "flush", slow)
        waiting = pool.submit(store.put, Message("t", b"1"))
        eventually(lambda: store.max_phy_offset)
        if not disk_is_late:
            gate.set()
        if followers_come:
            store.replicated(store.max_phy_offset)
        result = waiting.result(60)
        gate.set()
        assert (result.status, result.stored) == (status, True)


@pytest.mark.parametrize("services", [True, False])
def test_a_put_that_waits_for_followers_does_not_outlive_its_store(
    tmp_path: Path, pool: ThreadPoolExecutor, services: bool
) -> None:
    store = rmqcore.open(tmp_path, services=services, **PATIENT)
    waiting = begin(pool, store)
    store.close()
    assert waiting.result(60) == {LATE}, "it is stored, and the close has flushed it"


def test_a_failure_ends_the_wait_of_a_put(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    store = rmqcore.open(tmp_path, **PATIENT)
    waiting = begin(pool, store)
    store.fail(OSError(5, "Input/output error"))
    with pytest.raises(StoreFailedError, match="Input/output error"):
        waiting.result(60)
    store.close()


def test_an_interrupt_ends_the_wait_and_the_store_goes_on(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    def interrupt(store: MessageStore) -> None:
        eventually(lambda: len(store.replica_waiters))
        os.kill(os.getpid(), signal.SIGINT)

    with rmqcore.open(tmp_path, **PATIENT) as store:
        interrupting = pool.submit(interrupt, store)
        with pytest.raises(KeyboardInterrupt):
            store.put(Message("t", b"1"))
        interrupting.result(60)
        assert len(store.replica_waiters) == 0
        waiting = begin(pool, store)
        store.replicated(store.max_phy_offset)
        assert waiting.result(60) == {OK}
        assert store.wait_dispatched(60)
        assert store.max_offset("t", 0) == 2


def test_many_threads_and_a_follower_that_comes_after_them(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    """Each put is answered after its own end was reported, and not before."""
    over = threading.Event()

    def put_many_times(store: MessageStore) -> None:
        for _ in range(300):
            result = store.put(Message("t", b"1"))
            assert result.status is OK
            assert store.replicated_offset >= result.phy_offset + result.msg_size

    def follow(store: MessageStore) -> None:
        while not over.is_set():
            store.replicated(store.max_phy_offset)

    with rmqcore.open(tmp_path, **PATIENT) as store, ThreadPoolExecutor(2) as followers:
        following = [followers.submit(follow, store) for _ in range(2)]
        try:
            for one in [pool.submit(put_many_times, store) for _ in range(4)]:
                one.result(120)
        finally:
            over.set()
        for one in following:
            one.result(60)
        assert store.replicated_offset == store.max_phy_offset
