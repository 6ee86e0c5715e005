"""In a child under the shim: a disk that is full for a while, or no file descriptor, under a store that stays open.

What must hold: nothing that was acknowledged is lost, no message is in twice, puts are refused with the reason, and all of it
goes on by itself once there is room, or descriptors.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rmqcore
from rmqcore.engine.store.store import MessageStore
from rmqcore.errors import DiskFullError, ShortageError, TooManyFilesError
from rmqcore.testing.crash_check import TINY, Acked, check_directory, drain, put
from rmqcore.testing.fault_shim import Shim, tell
from rmqcore.testing.verdict import broken, hold

MOST_PUTS = 400
TOPICS = 40  # more than a store begins with: folders are made later too
PATIENCE_S = 30.0
SAID = {
    "ENOSPC": (DiskFullError, "bytes are free"),
    "EMFILE": (TooManyFilesError, "Too many open files"),
}
REFUSED = ("CREATE_MAPPED_FILE_FAILED", "SERVICE_NOT_AVAILABLE")


def by_steps(folder: str, call: str, mode: str, allowed: int, error: str = "ENOSPC") -> None:
    """Without threads: `allowed` more calls of the kind have room, the next have none until there is room again."""
    root, shim = Path(folder) / "store", Shim()
    root.mkdir()
    acked: list[Acked] = []
    with rmqcore.open(root, services=False, **_config(mode)) as store:
        for number in range(20):
            _keep(acked, put(store, number))
        drain(store)
        _fill_up(shim, root, call, allowed, error)
        refused = 0
        for number in range(100, 100 + MOST_PUTS):
            _keep(acked, one := put(store, number, topics=TOPICS))
            refused += one is None
            try:
                drain(store)
            except ShortageError as caught:
                kind, words = SAID[error]
                what = "an error without its place, or of another kind"
                hold(
                    type(caught) is kind and str(root) in str(caught) and words in str(caught),
                    what,
                    repr(caught),
                )
            if refused > 2 and shim.fired:
                break
        else:
            broken("so many puts, and none met the full disk")
        _is_paused(store, SAID[error][1])
        _room(shim)
        store.clean_once(disk_ratio=0.5)
        hold(store.stats()["no_puts"] is None, "puts are refused after a round that found room")
        for number in range(1000, 1040):
            _keep(acked, one := put(store, number, topics=TOPICS))
            hold(one is not None, "a put was refused although there is room again")
            drain(store)
    _check(root, acked)


def with_threads(folder: str, call: str, mode: str, allowed: int, error: str = "ENOSPC") -> None:
    """With services: nobody does anything but put, and the rounds of cleaning take puts again."""
    root, shim = Path(folder) / "store", Shim()
    root.mkdir()
    acked: list[Acked] = []
    with rmqcore.open(root, clean_resource_interval=50, **_config(mode)) as store:
        for number in range(20):
            _keep(acked, put(store, number))
        _fill_up(shim, root, call, allowed, error)
        number = 100

        def once() -> bool:
            nonlocal number
            number += 1
            _keep(acked, put(store, number, topics=TOPICS))
            return shim.fired > 2

        _until(once, "the disk was never met full")
        hold(not store.failed, "the store failed:", store.stats())
        _room(shim)

        def again() -> bool:
            nonlocal number
            number += 1
            _keep(acked, one := put(store, number, topics=TOPICS))
            return one is not None and not store.stats()["errors"]

        _until(again, "puts did not go on", store)
        hold(store.wait_dispatched(PATIENCE_S), "dispatch did not go on:", store.stats())
    _check(root, acked)


def _config(mode: str) -> dict[str, Any]:
    return {**TINY, "flush_disk_type": mode, "disk_space_warning_level_ratio": 90}


def _keep(acked: list[Acked], one: Acked | None) -> None:
    if one is not None:
        acked.append(one)


def _fill_up(shim: Shim, root: Path, call: str, allowed: int, error: str) -> None:
    shim.watch(root)
    shim.fail(call, allowed + 1, error=getattr(errno, error), ever=True)


def _room(shim: Shim) -> None:
    shim.watch(None)


def _is_paused(store: MessageStore, words: str) -> None:
    hold(not store.failed, "the store failed:", store.stats())
    why = store.stats()["no_puts"]
    hold(
        why is not None and str(store.paths.root) in why and words in why,
        "stats() does not say why:",
        why,
    )
    status = store.put(rmqcore.Message("T", b"")).status.name
    hold(status in REFUSED, "a put on a full disk ended with", status)


def _until(done: Callable[[], bool], what: str, store: MessageStore | None = None) -> None:
    end = time.monotonic() + PATIENCE_S
    while not done():
        if time.monotonic() > end:
            broken(what, *([] if store is None else [store.stats()]))
        time.sleep(0.002)


def _check(root: Path, acked: list[Acked]) -> None:
    hold(not (root / "abort").exists(), "the exit was not clean")
    check_directory(root, acked)
    with rmqcore.read(root) as reader:
        hold(sum(1 for _ in reader.messages()) == len(acked), "messages that nobody was told of")
    tell("done")
