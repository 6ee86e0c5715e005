"""The same puts by either side, with the same answers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from interop.java_store import JavaStore
from interop.workload import Put

from rmqcore.engine.store.store import MessageStore

FIELDS = ("phy_offset", "msg_size", "queue_offset", "msg_id", "count", "store_timestamp_ms")


class Clock:
    """A clock that stands where it is set."""

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def put_ours(store: MessageStore, clock: Clock, puts: Iterable[Put]) -> list[dict[str, Any]]:
    """Put by our engine, dispatch, answer the fields of each PutResult."""
    results = []
    for put in puts:
        clock.now_ms = put.now_ms
        done = store.put_batch(put.messages) if put.is_batch else store.put(put.messages[0])
        results.append(
            {"status": done.status.name, **{name: getattr(done, name) for name in FIELDS}}
        )
    assert store.wait_dispatched(60)
    return results


def put_java(store: JavaStore, puts: Iterable[Put]) -> list[dict[str, Any]]:
    """Put by Java, wait for its dispatch, answer the same fields."""
    results: list[dict[str, Any]] = []
    for is_batch, group in groupby(puts, lambda put: put.is_batch):
        if is_batch:
            results += [store.put_batch(put.messages, put.now_ms) for put in group]
        else:
            results += store.put((put.messages[0], put.now_ms) for put in group)
    store.await_dispatch()
    return results
