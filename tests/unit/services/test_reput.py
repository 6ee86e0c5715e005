"""Dispatch in the background, and waiting for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.stores.fake_store import FakeStore

from rmqcore.errors import StoreFailedError
from rmqcore.services import Services

Running = Callable[..., tuple[FakeStore, Services]]


def test_every_append_is_dispatched_without_a_poll(running: Running) -> None:
    store, services = running()
    for _ in range(200):
        assert services.wait_dispatched(store.put(), 60)
    assert store.count("dispatch_once") <= 200 * 4


def test_an_append_between_the_last_look_and_the_hook(running: Running) -> None:
    """The step finds nothing; before the hook is in place a message comes: no further append may be needed to see it."""
    store = FakeStore()
    arm = store.on_append
    before_arming = threading.Event()

    def arm_late(ring: Callable[[], object]) -> None:
        if not before_arming.is_set():
            before_arming.set()
            store.put()
        arm(ring)

    store.on_append = arm_late  # type: ignore[method-assign]
    _, services = running(store)
    assert before_arming.wait(60)
    assert services.wait_dispatched(1, 60)


def test_waiting_takes_its_time_and_no_more(running: Running) -> None:
    store = FakeStore()
    gate = store.hold("dispatch_once")
    _, services = running(store)
    end = store.put()
    assert not services.wait_dispatched(end, 0.02)
    assert not services.wait_dispatched(end, 0)
    gate.set()
    assert services.wait_dispatched(end)
    assert services.wait_dispatched(0, 0)


def test_many_who_wait_for_different_places(running: Running) -> None:
    store = FakeStore()
    store.window = 3
    _, services = running(store)
    with ThreadPoolExecutor(16) as pool:
        waits = [pool.submit(services.wait_dispatched, place, 60) for place in range(1, 100)]
        store.put(100)
        assert all(f.result(60) for f in waits)


def test_who_waits_is_let_go_when_dispatch_fails(running: Running) -> None:
    store = FakeStore()
    gate = store.hold("dispatch_once")
    store.errors["dispatch_once"] = ValueError("no record")
    _, services = running(store)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(services.wait_dispatched, store.put())
        gate.set()
        with pytest.raises(StoreFailedError, match="no record"):
            waiting.result(60)
    assert isinstance(store.failure, ValueError)


def test_who_waits_is_let_go_when_the_store_is_dropped() -> None:
    store = FakeStore()
    services = Services(store)
    services.start()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(services.wait_dispatched, 1_000_000)
        del store
        assert not waiting.result(60)
    services.stop()
