"""SYNC_FLUSH: who waits, who is answered what, and by which sync."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.eventually import eventually
from support.stores.fake_store import FakeStore

from rmqcore.errors import StoreClosedError, StoreFailedError
from rmqcore.services import Services
from rmqcore.vocabulary.status import PutMessageStatus

Running = Callable[..., tuple[FakeStore, Services]]
LONG = 20_000  # milliseconds
OK, TIMEOUT = PutMessageStatus.PUT_OK, PutMessageStatus.FLUSH_DISK_TIMEOUT


@pytest.fixture
def store() -> FakeStore:
    return FakeStore(flush_disk_type="SYNC_FLUSH")


def test_answered_when_on_disk(running: Running, store: FakeStore) -> None:
    _, services = running(store)
    end = store.put(10)
    assert services.wait_flushed(end, LONG) is OK
    assert store.flushed_phy_offset == end


def test_what_is_flushed_already_is_not_waited_for(running: Running, store: FakeStore) -> None:
    _, services = running(store)
    end = store.put(10)
    services.wait_flushed(end, LONG)
    calls = store.count("flush")
    store.hold("flush").set()
    assert services.wait_flushed(end - 5, 0) is OK
    assert store.count("flush") == calls


def test_async_flush_waits_for_nothing(running: Running) -> None:
    store, services = running()
    assert services.wait_flushed(store.put(10), LONG) is OK
    assert store.flushed_phy_offset == 0


def test_one_sync_serves_all_who_wait(running: Running, store: FakeStore) -> None:
    gate = store.hold("flush")
    _, services = running(store)
    with ThreadPoolExecutor(33) as pool:
        first = pool.submit(services.wait_flushed, store.put(), LONG)
        store.wait_held("flush")  # the first sync is under way, and has seen one message
        rest = [pool.submit(services.wait_flushed, store.put(), LONG) for _ in range(32)]
        eventually(lambda: len(store.flush_waiters) == 33)
        assert not any(f.done() for f in rest)
        gate.set()
        assert first.result(60) is OK
        assert [f.result(60) for f in rest] == [OK] * 32
    assert store.count("flush") == 2


def test_a_sync_that_takes_too_long(running: Running, store: FakeStore) -> None:
    gate = store.hold("flush")
    _, services = running(store)
    end = store.put()
    assert services.wait_flushed(end, 1) is TIMEOUT
    assert services.wait_flushed(end, 0) is TIMEOUT
    gate.set()
    assert services.wait_flushed(end, LONG) is OK


def test_what_nobody_waits_for_is_flushed_and_dispatched_too(
    running: Running, store: FakeStore
) -> None:
    """WAIT=false: the put returns, but the message becomes visible without a second put."""
    _, services = running(store)
    store.wait_for(lambda: store.armed)
    end = store.put()
    assert services.wait_dispatched(end, 60)
    assert store.flushed_phy_offset == end


def test_what_somebody_else_flushed_is_dispatched(running: Running, store: FakeStore) -> None:
    """`put` with WAIT=false, then `flush()` by hand: the group commit was woken, found nothing to flush, and told nobody.

    The message stayed invisible until another one came (2 of 12 not there after two seconds).
    """
    running(store)
    store.wait_for(lambda: store.armed and store.count("dispatch_once") > 0)
    store.put_and_flush()
    store.wait_for(lambda: store.reput_from_offset == 1)


def test_nothing_is_dispatched_before_it_is_flushed(running: Running, store: FakeStore) -> None:
    gate = store.hold("flush")
    _, services = running(store)
    end = store.put()
    store.wait_held("flush")
    assert not services.wait_dispatched(end, 0.05)
    assert store.reput_from_offset == 0
    gate.set()
    assert services.wait_dispatched(end, 60)


def test_a_failed_sync_fails_everyone_who_waits(running: Running, store: FakeStore) -> None:
    gate = store.hold("flush")
    error = store.errors["flush"] = OSError(5, "Input/output error")
    _, services = running(store)
    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(services.wait_flushed, store.put(), LONG) for _ in range(8)]
        store.wait_held("flush")
        gate.set()
        for future in waiting:
            with pytest.raises(StoreFailedError, match="Input/output error"):
                future.result(60)
    assert store.failure is error
    assert store.flushed_phy_offset == 0


def test_a_sync_that_succeeds_after_a_failed_one_is_not_believed(
    running: Running, store: FakeStore
) -> None:
    """Linux reports a failed write-back once and marks the pages clean: the next sync has nothing to complain about."""
    _, services = running(store)
    good = store.put()
    assert services.wait_flushed(good, LONG) is OK
    store.errors["flush"] = OSError(5, "Input/output error")
    lost = store.put()
    with pytest.raises(StoreFailedError):
        services.wait_flushed(lost, LONG)
    del store.errors["flush"]
    for end in (lost, store.put()):
        with pytest.raises(StoreFailedError):
            services.wait_flushed(end, LONG)
    services.stop()
    assert store.flushed_phy_offset == good
    assert services.wait_flushed(good, LONG) is OK  # on disk before the failure


def test_who_waits_when_the_store_stops_is_answered(running: Running, store: FakeStore) -> None:
    gate = store.hold("flush")
    _, services = running(store)
    with ThreadPoolExecutor(2) as pool:
        end = store.put()
        waiting = pool.submit(services.wait_flushed, end, LONG)
        store.wait_held("flush")
        stopping = pool.submit(services.stop)
        gate.set()
        assert waiting.result(60) is OK
        stopping.result(60)
    with pytest.raises(StoreClosedError):
        services.wait_flushed(end + 1, LONG)


def test_many_threads(running: Running, store: FakeStore) -> None:
    _, services = running(store)

    def work() -> list[PutMessageStatus]:
        answers = []
        for _ in range(200):
            end = store.put()
            answers.append(services.wait_flushed(end, LONG))
            assert store.flushed_phy_offset >= end
        return answers

    with ThreadPoolExecutor(16) as pool:
        results = [pool.submit(work) for _ in range(16)]
        for result in results:
            assert result.result(60) == [OK] * 200
    assert store.count("flush") < 16 * 200
