"""In a child under the shim: what must hold of a store after its first failure."""

from __future__ import annotations

import os
from pathlib import Path

import rmqcore
from rmqcore.engine.store.store import MessageStore
from rmqcore.errors import StoreFailedError
from rmqcore.testing.crash_check import TINY, Acked, check_directory, drain, put
from rmqcore.testing.failing_calls import ask
from rmqcore.testing.fault_shim import Shim, tell
from rmqcore.testing.verdict import broken, hold


def after_failure(folder: str, call: str, mode: str) -> None:
    """Everything that must hold of a store after its first failure, and that it is not believed when the next call succeeds."""
    shim, root = Shim(), Path(folder) / "store"
    root.mkdir()
    config = {**TINY, "flush_disk_type": mode}
    shim.watch(root)  # what is mapped from now on is known
    store = rmqcore.open(root, services=False, **config)
    acked = [one for number in range(10) if (one := put(store, number)) is not None]
    drain(store)
    store.flush()
    flushed = store.flushed_phy_offset
    shim.watch(root)
    shim.fail(call, 1)
    number = 100
    try:
        while not shim.fired:
            one = put(store, number)
            acked += [one] if one else []
            number += 1
            store.flush()
    except StoreFailedError:
        pass
    hold(shim.fired == 1, "only one call failed; the next ones would succeed")
    _refuses_writes(store)
    if call == "msync":
        try:
            store._log.flush()
        except OSError:
            pass
        else:
            broken("a sync after a failed one was believed")
        hold(store.flushed_phy_offset == flushed, "the flushed offset moved after a failed sync")
    _reads(store, acked[:10])
    before = _tree(root)
    store.close()
    after = _tree(root)
    hold((root / "abort").exists(), "an exit after a failure is not clean")
    hold(after == before, "something is written after a failure")
    shim.watch(None)
    check_directory(root, acked)
    tell("done")


def _refuses_writes(store: MessageStore) -> None:
    hold(store.failed and store.stats()["failed"], "the store does not say that it has failed")
    for write in (
        lambda: put(store, 7),
        store.flush,
        lambda: store.flush_consume_queues(0),
        store.prepare_space,
    ):
        try:
            write()
        except StoreFailedError:
            pass
        else:
            broken("a failed store took a write")


def _reads(store: MessageStore, acked: list[Acked]) -> None:
    for one in acked:
        ask(store, one)


def _tree(root: Path) -> dict[str, tuple[int, bytes]]:
    tree = {}
    for folder, _, files in os.walk(root):
        for name in files:
            path = Path(folder, name)
            tree[str(path.relative_to(root))] = path.stat().st_mtime_ns, path.read_bytes()
    return tree
