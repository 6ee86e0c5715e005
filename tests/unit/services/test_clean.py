"""The thread that cleans: when its rounds come, and what ends one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.stores.fake_store import FakeStore

from rmqcore.services import Services, clean
from rmqcore.services.clean import Clean

Running = Callable[..., tuple[FakeStore, Services]]


def test_the_first_round_comes_after_a_minute() -> None:
    store = FakeStore(clean_resource_interval=2500)
    thread = Clean(store)
    assert thread.step(store) == 60.0
    assert store.count("clean_once") == 0
    assert thread.step(store) == 2.5
    assert thread.step(store) == 2.5
    assert store.count("clean_once") == 2


def test_a_stop_ends_the_pause_and_the_round(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clean, "FIRST", 0.0)
    store, services = running(clean_resource_interval=3_600_000)
    store.pauses = [3_600_000] * 3
    store.wait_for(lambda: store.count("clean_once") == 1)
    services.stop()
    assert store.pauses == [3_600_000] * 3, "the round ended with the pause that the stop ended"


def test_what_could_not_be_deleted_is_told() -> None:
    store = FakeStore()
    thread = Clean(store)
    thread.step(store)
    thread.step(store)
    assert store.noted == {}
    store.kept = "commitlog/0: not permitted"
    thread.step(store)
    assert "not permitted" in str(store.noted["clean"])
