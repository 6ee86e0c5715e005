"""Runs in a child under the shim: repeats the same short life of a store, and fails another system call each time.

Whichever call fails, these must hold: only documented errors are raised, each put with PUT_OK is stored, no write
follows the failure, reads continue, and the next open finds the directory sound.
"""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Any

import rmqcore
from rmqcore.engine.store.store import MessageStore
from rmqcore.errors import StoreError, StoreFailedError
from rmqcore.offline.fsck import fsck
from rmqcore.testing.crash_check import TINY, Acked, check_directory, drain, put
from rmqcore.testing.fault_shim import Shim, tell
from rmqcore.testing.verdict import broken, hold

ALLOWED = (StoreError, OSError, ValueError)


def life(root: Path, config: dict[str, Any], acked: list[Acked]) -> None:
    """Two opens of one store, with rolling, dispatch, flush and checkpoint in each."""
    for generation in range(2):
        with rmqcore.open(root, services=False, **config) as store:
            for step in range(3):
                for number in range(12):
                    one = put(store, generation * 100 + step * 12 + number)
                    if one is not None:
                        acked.append(one)
                    elif store.stats()["no_puts"] is not None:
                        store.clean_once(
                            disk_ratio=0.5
                        )  # only one call failed, or the next put reports it again
                    elif not store.failed:
                        broken("a put that neither stored nor failed")
                drain(store)
                if acked:
                    ask(store, acked[-1])
                store.flush()
                store.flush_consume_queues(0)
                store.write_checkpoint()
                store.prepare_space()


def threads(root: Path, config: dict[str, Any], acked: list[Acked]) -> None:
    """Live as `life`, with the store's threads."""
    for generation in range(2):
        with rmqcore.open(
            root, flush_interval_commit_log=2, flush_interval_consume_queue=2, **config
        ) as store:
            for number in range(36):
                one = put(store, generation * 100 + number)
                if one is not None:
                    acked.append(one)
            store.wait_dispatched(10)
            store.flush()


def ask(store: MessageStore, one: Acked) -> None:
    """Try each kind of read; a failed call must raise an error, and never return a wrong result."""
    view = store.lookup(one.phy_offset)
    hold(view is not None and view.body == one.body, "lookup does not find", one)
    with store.get(one.topic, one.queue_id, one.queue_offset, 1) as result:
        hold([view.body for view in result.messages] == [one.body], "get does not find", one)
    hold(len(store.query(one.topic, one.key).messages) == 1, "query does not find", one)
    store.offset_by_time(one.topic, one.queue_id, 0)


def look(root: Path, _config: dict[str, Any], acked: list[Acked]) -> None:
    """Only read: walk through an existing store and check it."""
    with rmqcore.read(root) as reader:
        bodies = [view.body for view in reader.messages()]
    report = fsck(root)
    unreadable = [finding for finding in report.findings if finding.kind == "unreadable"]
    hold(
        unreadable or len(bodies) == len(acked),
        "of",
        len(acked),
        "messages",
        len(bodies),
        "are read without an error",
    )
    hold(unreadable or report.exit_code == 0, "fsck finds", *map(str, report.findings[:3]))


LIVES = {"life": life, "threads": threads, "look": look}


def each_call(
    folder: str,
    call: str,
    how: str,
    mode: str,
    error: str = "EIO",
    ever: bool = False,
    stride: int = 1,
    first: int = 1,
) -> None:
    """Fail call number `first` of a kind ("any": of all) and every `stride`-th after it, one per life.

    It ends with the first life in which no call fails, because the life makes fewer calls.
    """
    shim, base = Shim(), Path(folder)
    config = {**TINY, "flush_disk_type": mode}
    number, fired = first, 0
    while True:
        root = base / f"{call}-{number}"
        root.mkdir()
        acked: list[Acked] = []
        if how == "look":
            _fill(root, config, acked)
        shim.watch(root)
        shim.fail(call, number, error=getattr(errno, error), ever=ever)
        try:
            LIVES[how](root, config, acked)
            raised = None
        except ALLOWED as caught:
            raised = caught
        now, name = shim.fired, shim.fired_name
        shim.watch(None)
        fired += now > 0
        what = f"{how} {mode} {error}: {call} {number} ({name})"
        tell(f"{what}: fired {now}, acked {len(acked)}, {raised!r}")
        hold(raised is None or now, what, repr(raised), "although nothing was made to fail")
        if error in ("EMFILE", "ENFILE") and name.startswith("open"):
            hold(
                not isinstance(raised, StoreFailedError),
                what,
                "a missing descriptor failed the store:",
                repr(raised),
            )
        check_directory(root, acked)
        shutil.rmtree(root)
        if not now:
            break
        number += stride
    tell(f"done: {fired} failures")


def _fill(root: Path, config: dict[str, Any], acked: list[Acked]) -> None:
    with rmqcore.open(root, services=False, **config) as store:
        for number in range(36):
            one = put(store, number)
            assert one is not None
            acked.append(one)
        drain(store)
