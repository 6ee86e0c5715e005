"""Callbacks that wait for the disk: which thread answers whom, with what, and how often (once)."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.eventually import eventually
from support.stores.fake_store import FakeStore

from rmqcore.services import Services
from rmqcore.vocabulary.status import PutMessageStatus

Running = Callable[..., tuple[FakeStore, Services]]
LONG = 600_000  # milliseconds
OK, TIMEOUT, UNKNOWN = (
    PutMessageStatus.PUT_OK,
    PutMessageStatus.FLUSH_DISK_TIMEOUT,
    PutMessageStatus.UNKNOWN_ERROR,
)
MODES = ("ASYNC_FLUSH", "SYNC_FLUSH")


class Heard:
    """A callback that keeps its answers, and the names of the threads that gave them."""

    def __init__(self) -> None:
        self.answers: list[PutMessageStatus] = []
        self.threads: list[str] = []
        self._come = threading.Event()

    def __call__(self, status: PutMessageStatus) -> None:
        self.answers.append(status)
        self.threads.append(threading.current_thread().name)
        self._come.set()

    def wait(self) -> PutMessageStatus:
        assert self._come.wait(60)
        return self.answers[0]


def ask(
    store: FakeStore,
    services: Services,
    end: int,
    callback: Callable[[PutMessageStatus], object],
    timeout_ms: int = LONG,
) -> None:
    """What `MessageStore.on_flushed` does beside its checks."""
    until = time.monotonic() + timeout_ms / 1000
    if store.flush_waiters.add(end, callback, until):
        services.look_soon()
    services.flush_soon()


@pytest.fixture(params=MODES)
def store(request: pytest.FixtureRequest) -> FakeStore:
    """No interval ends during a test: only who waits makes the thread flush."""
    return FakeStore(
        flush_disk_type=request.param,
        flush_interval_commit_log=3_600_000,
        flush_commit_log_thorough_interval=3_600_000,
    )


def test_called_by_the_thread_that_flushes_when_it_is_on_disk(
    running: Running, store: FakeStore
) -> None:
    _, services = running(store)
    heard = Heard()
    end = store.put(10)
    ask(store, services, end, heard)
    assert heard.wait() is OK
    assert store.flushed_phy_offset == end
    assert heard.threads[0] in ("rmqcore-flush", "rmqcore-group-commit")


def test_one_sync_for_all_who_wait_threads_and_callbacks(running: Running) -> None:
    store = FakeStore(flush_disk_type="SYNC_FLUSH")
    gate = store.hold("flush")
    _, services = running(store)
    first, rest = Heard(), [Heard() for _ in range(20)]
    ask(store, services, store.put(), first)
    store.wait_held("flush")
    for heard in rest:
        ask(store, services, store.put(), heard)
    with ThreadPoolExecutor(4) as pool:
        puts = [pool.submit(services.wait_flushed, store.put(), LONG) for _ in range(4)]
        eventually(lambda: len(store.flush_waiters) == 25)
        assert not any(heard.answers for heard in (first, *rest))
        gate.set()
        assert [heard.wait() for heard in (first, *rest)] == [OK] * 21
        assert [put.result(60) for put in puts] == [OK] * 4
    assert store.count("flush") == 2


def test_a_sync_that_hangs_does_not_keep_the_answer(running: Running, store: FakeStore) -> None:
    """One thread watches the time of all. The later ones' time may be the sooner one; and what was told stays the only answer."""
    gate = store.hold("flush")
    _, services = running(store)
    late, soon = Heard(), Heard()
    end = store.put()
    ask(store, services, end, late)
    store.wait_held("flush")
    ask(store, services, end, soon, 1)
    assert soon.wait() is TIMEOUT
    assert soon.threads == ["rmqcore-deadlines"]
    at_once = Heard()
    ask(store, services, end, at_once, 0)
    assert at_once.wait() is TIMEOUT
    assert not late.answers
    gate.set()
    assert late.wait() is OK
    services.stop()
    assert [heard.answers for heard in (late, soon, at_once)] == [[OK], [TIMEOUT], [TIMEOUT]]


def test_times_are_watched_one_after_the_other(running: Running, store: FakeStore) -> None:
    store.hold("flush")
    _, services = running(store)
    end = store.put()
    every = [Heard() for _ in range(5)]
    for number, heard in enumerate(every):
        ask(store, services, end, heard, 1 + 3 * number)
    assert [heard.wait() for heard in every] == [TIMEOUT] * 5
    store._gates["flush"].set()


def test_a_failed_sync_is_told_to_all(running: Running, store: FakeStore) -> None:
    gate = store.hold("flush")
    error = store.errors["flush"] = OSError(5, "Input/output error")
    _, services = running(store)
    every = [Heard() for _ in range(8)]
    for heard in every:
        ask(store, services, store.put(), heard)
    store.wait_held("flush")
    gate.set()
    assert [heard.wait() for heard in every] == [UNKNOWN] * 8
    assert store.failure is error
    late = Heard()  # who comes between the failure and its own look at the store
    ask(store, services, store.put(), late)
    assert late.answers == [UNKNOWN]


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3)], ids=["error", "exit"])
def test_a_callback_that_raises_hurts_nobody(
    running: Running, store: FakeStore, error: BaseException
) -> None:
    gate = store.hold("flush")
    _, services = running(store)
    before, after = Heard(), Heard()

    def refuse(_: PutMessageStatus) -> None:
        raise error

    ask(store, services, store.put(), before)
    store.wait_held("flush")
    ask(store, services, store.put(), refuse)
    ask(store, services, store.put(), after)
    gate.set()
    assert (before.wait(), after.wait()) == (OK, OK)
    assert store.noted["on_flushed"] is error
    again = Heard()
    ask(store, services, store.put(), again)
    assert again.wait() is OK, "the thread goes on"
    assert store.failure is None
    services.stop()
    assert len(store.flush_waiters) == 0


def test_a_callback_may_put_and_wait_for_that(running: Running, store: FakeStore) -> None:
    _, services = running(store)
    last = Heard()

    def once_more(_: PutMessageStatus) -> None:
        ask(store, services, store.put(), last)

    ask(store, services, store.put(), once_more)
    assert last.wait() is OK


def test_who_waits_at_the_end_is_answered(running: Running, store: FakeStore) -> None:
    gate = store.hold("flush")
    _, services = running(store)
    heard = Heard()
    ask(store, services, store.put(), heard)
    store.wait_held("flush")
    with ThreadPoolExecutor(1) as pool:
        stopping = pool.submit(services.stop)
        gate.set()
        stopping.result(60)
    assert heard.answers == [OK]
    late = Heard()
    store.flush_waiters.add(store.put(), late)
    assert late.answers == [UNKNOWN]


@pytest.mark.parametrize("mode", MODES)
def test_a_store_that_is_dropped_leaves_nobody_waiting(mode: str) -> None:
    store = FakeStore(flush_disk_type=mode)
    services = Services(store)
    heard = Heard()
    store.flush_waiters.add(store.put(), heard)  # nobody is woken: the threads do not run yet
    services.start()
    del store
    gc.collect()
    assert heard.wait() in (OK, UNKNOWN)
    services.stop()
    assert len(heard.answers) == 1


def test_each_is_called_once_whatever_comes_first(running: Running, store: FakeStore) -> None:
    """Syncs and ends of their time race for each of 2,000 callbacks."""
    _, services = running(store)
    every: list[Heard] = []

    def work() -> None:
        for number in range(500):
            heard = Heard()
            every.append(heard)
            ask(store, services, store.put(), heard, number % 3)

    with ThreadPoolExecutor(4) as pool:
        for working in [pool.submit(work) for _ in range(4)]:
            working.result(60)
    for heard in every:
        assert heard.wait() in (OK, TIMEOUT)
    services.stop()
    assert all(len(heard.answers) == 1 for heard in every)
