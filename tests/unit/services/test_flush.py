"""The timers of the flush threads, with a clock that the test moves."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from support.stores.fake_store import FakeStore

from rmqcore.services import Services, flush, flush_consume_queue
from rmqcore.services.flush import FlushCommitLog
from rmqcore.services.flush_consume_queue import FlushConsumeQueue
from rmqcore.services.wakeups import Wakeups

Running = Callable[..., tuple[FakeStore, Services]]


class Clock:
    """`time` of a module, stopped."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(flush, "time", clock)
    monkeypatch.setattr(flush_consume_queue, "time", clock)
    return clock


def test_intervals_of_the_commit_log(clock: Clock) -> None:
    store = FakeStore()
    service = FlushCommitLog(store, Wakeups())
    assert service.step(store) == 0.5
    assert store.calls == [("flush", 4)]
    clock.now += 0.2
    assert service.step(store) == pytest.approx(0.3)  # woken too early: nothing is flushed
    assert len(store.calls) == 1
    for _ in range(19):
        clock.now += 0.5
        service.step(store)
    assert {pages for _, pages in store.calls} == {4}
    clock.now += 0.5
    service.step(store)  # 10 s after the start
    assert store.calls[-1] == ("flush", 0)
    service.step(store)
    clock.now += 0.5
    service.step(store)
    assert store.calls[-1] == ("flush", 4)


def test_few_pages_are_flushed_at_the_thorough_interval_only(clock: Clock) -> None:
    store = FakeStore()
    service = FlushCommitLog(store, Wakeups())
    store.put(3)  # less than 4 "pages"
    service.step(store)
    assert store.flushed_phy_offset == 0
    clock.now += 10
    service.step(store)
    assert store.flushed_phy_offset == 3


def test_a_log_that_grows_fast_does_not_wait_for_the_interval(clock: Clock) -> None:
    """Half a gigabyte waited for the disk at the end of an interval, and puts for the kernel: up to half a second."""
    store = FakeStore()
    service = FlushCommitLog(store, Wakeups())
    service.step(store)
    store.put(flush.MOST_WAITING - 1)
    service.look(store)
    assert not service.bell.rung
    assert service.step(store) == 0.5
    assert store.flushed_phy_offset == 0
    end = store.put(1)
    service.look(store)
    assert service.bell.rung
    service.step(store)
    assert store.flushed_phy_offset == end


def test_room_ahead_looks_whether_much_waits(running: Running) -> None:
    store, _ = running(flush_interval_commit_log=3_600_000)
    store.wait_for(lambda: store.count("flush") == 1 and store.armed_for_space)
    end = store.put(flush.MOST_WAITING)
    store.low_space(1)
    store.wait_for(lambda: store.flushed_phy_offset == end)


def test_an_append_ends_the_wait_when_it_is_not_timed(running: Running) -> None:
    store, _ = running(
        flush_commit_log_timed=False,
        flush_interval_commit_log=3_600_000,
        flush_commit_log_least_pages=1,
    )
    store.wait_for(lambda: store.count("flush") > 0 and store.armed)
    end = store.put(5)
    store.wait_for(lambda: store.flushed_phy_offset == end)


def test_an_append_does_not_end_the_wait_when_it_is_timed(running: Running) -> None:
    store, services = running(flush_interval_commit_log=3_600_000)
    store.wait_for(lambda: store.count("flush") == 1)
    services.wait_dispatched(store.put(100))
    assert store.count("flush") == 1


def test_intervals_of_the_queues(clock: Clock) -> None:
    store = FakeStore()
    service = FlushConsumeQueue(store)
    assert service.step(store) == 1.0
    assert store.calls == []
    for _ in range(59):
        clock.now += 1.0
        assert service.step(store) == 1.0
    assert store.calls == [("flush_consume_queues", 2)] * 59
    clock.now += 1.0
    service.step(store)
    assert store.calls[59:] == [("flush_consume_queues", 0), ("write_checkpoint", 0)]


def test_a_thread_in_the_middle_of_a_flush_is_waited_for(running: Running) -> None:
    """A sync is never cut off: stop returns after it."""
    store = FakeStore()
    gate = store.hold("flush")
    _, services = running(store)
    store.wait_held("flush")
    stopper = threading.Thread(target=services.stop)
    stopper.start()
    stopper.join(0.05)
    assert stopper.is_alive()
    gate.set()
    stopper.join(60)
    assert not stopper.is_alive()
    assert not services.running
