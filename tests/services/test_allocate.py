"""Space ahead of the writer."""

from __future__ import annotations

from collections.abc import Callable

from fake_store import FakeStore

from rmqcore.services import Services

Running = Callable[..., tuple[FakeStore, Services]]


def test_steps_follow_each_other_while_more_is_wanted(running: Running) -> None:
    store = FakeStore()
    store.space_wanted = 5
    running(store)
    store.wait_for(lambda: store.armed_for_space)
    assert store.space_wanted == 0
    assert store.count("prepare_space") >= 5


def test_low_space_wakes_it(running: Running) -> None:
    store, _ = running()
    for steps in (1, 3, 1):
        store.wait_for(lambda: store.armed_for_space)
        store.low_space(steps)
        store.wait_for(lambda: store.space_wanted == 0)


def test_nothing_is_prepared_once_it_is_stopped(running: Running) -> None:
    store, services = running()
    store.wait_for(lambda: store.armed_for_space)
    services.stop()
    calls = store.count("prepare_space")
    store.low_space(1)
    assert store.count("prepare_space") == calls
    assert store.space_wanted == 1
