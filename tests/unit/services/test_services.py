"""All threads of a store together: order at the end, idleness, failures, a store that is dropped."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable

import pytest
from support.eventually import eventually
from support.stores.fake_store import FakeStore

from rmqcore.services import Services
from rmqcore.services.flush_consume_queue import FlushConsumeQueue

Running = Callable[..., tuple[FakeStore, Services]]
MODES = ("ASYNC_FLUSH", "SYNC_FLUSH")


@pytest.mark.parametrize("mode", MODES)
def test_everything_is_done_when_stop_returns(running: Running, mode: str) -> None:
    store, services = running(flush_disk_type=mode)
    store.window = 7  # many steps
    end = store.put(1000)
    services.stop()
    assert not services.running
    assert (store.flushed_phy_offset, store.reput_from_offset) == (end, end)
    # The checkpoint is the last thing, and by then everything was dispatched and the queues were flushed.
    assert store.calls[-2:] == [("flush_consume_queues", 0), ("write_checkpoint", end)]


@pytest.mark.parametrize("mode", MODES)
def test_stop_may_be_repeated_and_come_before_any_work(running: Running, mode: str) -> None:
    _, services = running(flush_disk_type=mode)
    services.stop()
    services.stop()
    assert not services.running


def test_stop_before_start() -> None:
    services = Services(FakeStore())
    services.stop()
    assert not services.running


def test_a_thread_that_cannot_be_started_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    store = FakeStore()
    services = Services(store)

    def refuse(self: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(FlushConsumeQueue, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start"):
        services.start()
    assert not services.running


@pytest.mark.parametrize("mode", MODES)
def test_an_idle_store_is_left_alone(running: Running, mode: str) -> None:
    """Nothing but the timers: no step is repeated without an interval between."""
    store, services = running(
        flush_disk_type=mode,
        flush_interval_commit_log=3_600_000,
        flush_interval_consume_queue=3_600_000,
    )
    assert services.wait_dispatched(store.put(), 60)
    store.wait_for(lambda: store.armed and store.armed_for_space)
    assert services.wait_dispatched(
        store.put(), 60
    )  # once more, so that every thread has come to rest
    store.wait_for(lambda: store.armed)

    def rests() -> bool:
        calls = len(store.calls)
        threading.Event().wait(
            0.2
        )  # no call may come in this time; in the first round some are under way
        return len(store.calls) == calls

    eventually(rests)


@pytest.mark.parametrize("mode", MODES)
def test_a_store_that_is_dropped_takes_its_threads_along(mode: str) -> None:
    store = FakeStore(flush_disk_type=mode)
    services = Services(store)
    services.start()
    assert services.wait_dispatched(store.put(), 60)
    gone = weakref.ref(store)
    del store
    gc.collect()
    services.stop()
    assert gone() is None
    assert not services.running


STEPS = ("flush", "dispatch_once", "prepare_space", "flush_consume_queues", "write_checkpoint")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_fails_fails_the_store(running: Running, step: str, mode: str) -> None:
    store = FakeStore(
        flush_disk_type=mode,
        flush_interval_commit_log=1,
        flush_interval_consume_queue=1,
        flush_consume_queue_thorough_interval=1,
    )
    error = store.errors[step] = OSError(5, "Input/output error")
    _, services = running(store)
    store.put()
    store.wait_for(lambda: store.failure is not None)
    assert store.failure is error
    services.stop()
    assert store.count(step) <= 2, "a step that failed is not tried again, but at the end"


def test_the_first_failure_is_the_one_that_is_kept(running: Running) -> None:
    store = FakeStore(flush_interval_commit_log=1)
    first = store.errors["flush"] = OSError(5, "first")
    _, services = running(store)
    store.wait_for(lambda: store.failure is not None)
    store.errors["dispatch_once"] = OSError(28, "second")
    store.put()
    services.stop()
    assert store.failure is first


def test_what_is_there_is_dispatched_although_the_disk_failed(running: Running) -> None:
    """Reads go on after a failure: the messages that the log holds become visible (ASYNC_FLUSH)."""
    store = FakeStore(flush_interval_commit_log=1)
    store.errors["flush"] = OSError(5, "Input/output error")
    _, services = running(store)
    store.wait_for(lambda: store.failure is not None)
    assert services.wait_dispatched(store.put(5), 60)
