"""In a child under the shim: the same short life of a store, again and again, and each time one more system call fails.

What must hold whichever it is: an error of the documented kinds or none, no put answered with PUT_OK that is not there
afterwards, no write after the failure, reads that go on, and a directory that the next open finds sound.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

from crash_check import TINY, Acked, check_directory, drain, put
from fault_shim import Shim, tell

import rmqcore
from rmqcore.engine.store import MessageStore
from rmqcore.errors import StoreError, StoreFailedError

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
                    elif not store.failed:
                        raise AssertionError("neither stored nor failed")
                drain(store)
                store.flush()
                store.flush_consume_queues(0)
                store.write_checkpoint()
                store.prepare_space()


def threads(root: Path, config: dict[str, Any], acked: list[Acked]) -> None:
    """The same with services."""
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


LIVES = {"life": life, "threads": threads}


def each_call(
    folder: str,
    call: str,
    how: str,
    mode: str,
    error: str = "EIO",
    ever: bool = False,
    stride: int = 1,
) -> None:
    """Fail call number 1, 2, ... of a kind until the life goes through without."""
    shim, base = Shim(), Path(folder)
    config = {**TINY, "flush_disk_type": mode}
    number, fired = 1, 0
    while True:
        root = base / f"{call}-{number}"
        root.mkdir()
        acked: list[Acked] = []
        shim.watch(root)
        shim.fail(call, number, error=getattr(errno, error), ever=ever)
        try:
            LIVES[how](root, config, acked)
            raised = None
        except ALLOWED as caught:
            raised = caught
        now = shim.fired
        shim.watch(None)
        fired += now > 0
        assert raised is None or now, (
            f"{call} {number}: {raised!r} although nothing was made to fail"
        )
        tell(f"{call} {number}: fired {now}, acked {len(acked)}, {raised!r}")
        check_directory(root, acked)
        shutil.rmtree(root)
        if not now:
            break
        number += stride
    tell(f"done: {fired} failures")


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
    assert shim.fired == 1, "only one call failed; the next ones would succeed"
    _refuses_writes(store)
    if call == "msync":
        try:
            store._log.flush()  # as a flush that waited for the lock while the other one failed
        except OSError:
            pass
        else:
            raise AssertionError("a sync after a failed one was believed")
        assert store.flushed_phy_offset == flushed
    _reads(store, acked[:10])
    before = _tree(root)
    store.close()
    after = _tree(root)
    assert (root / "abort").exists(), "an exit after a failure is not clean"
    assert after == before, "nothing is written after a failure"
    shim.watch(None)
    check_directory(root, acked)
    tell("done")


def _refuses_writes(store: MessageStore) -> None:
    assert store.failed
    assert store.stats()["failed"]
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
            raise AssertionError("a failed store took a write")


def _reads(store: MessageStore, acked: list[Acked]) -> None:
    for one in acked:
        view = store.lookup(one.phy_offset)
        assert view is not None and view.body == one.body
        assert store.query(one.topic, one.key).messages
        with store.get(one.topic, one.queue_id, one.queue_offset, 1) as result:
            assert result.messages[0].phy_offset == one.phy_offset


def _tree(root: Path) -> dict[str, tuple[int, bytes]]:
    tree = {}
    for folder, _, files in os.walk(root):
        for name in files:
            path = Path(folder, name)
            tree[str(path.relative_to(root))] = path.stat().st_mtime_ns, path.read_bytes()
    return tree
