"""Services over a store of numbers; a test that leaves a thread behind fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.stores.fake_store import FakeStore

from rmqcore.services import Services

Running = Callable[..., tuple[FakeStore, Services]]


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    left = set(threading.enumerate()) - before
    assert not [t.name for t in left if t.name.startswith("rmqcore-")]


@pytest.fixture
def running() -> Iterator[Running]:
    """Make a store with its threads running; they are stopped after the test."""
    made: list[tuple[FakeStore, Services]] = []

    def make(store: FakeStore | None = None, **config: Any) -> tuple[FakeStore, Services]:
        store = store or FakeStore(**config)
        services = Services(store)
        made.append((store, services))
        services.start()
        return store, services

    yield make
    for _, services in made:
        services.stop()
