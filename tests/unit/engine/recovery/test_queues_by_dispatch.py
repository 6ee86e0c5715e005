"""A store of which all queues are gone: dispatch makes them, where it makes what healing would.

Healing writes entry by entry to the places that the records name, for the queues may hold anything. Without a queue that took
more than twice the time of a dispatch from the beginning of the log, which goes over all records for the index anyway.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message
from rmqcore.disk.checkpoint import read_checkpoint
from rmqcore.engine.dispatch.dispatcher import Dispatcher
from rmqcore.engine.recovery.comparison import Comparer
from rmqcore.offline.fsck import fsck

SETTINGS: dict[str, Any] = {
    "services": False,
    "enable_lmq": True,
    "enable_multi_dispatch": True,
    "mapped_file_size_commit_log": 1 << 12,
    "mapped_file_size_consume_queue": 100,
    "max_hash_slot_num": 16,
    "max_index_num": 64,
}
COUNT = 70
LIGHT = {"INNER_MULTI_DISPATCH": "%LMQ%y"}


def message(number: int) -> Message:
    """Three queues of one topic, and a light queue that every fifth message names too."""
    return Message(
        "t",
        b"%d" % number * (number % 40 + 1),
        queue_id=number % 3,
        keys=f"k{number}",
        properties=LIGHT if number % 5 == 0 else {},
    )


def queues_of(root: Path) -> dict[str, bytes]:
    folder = root / "consumequeue"
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A closed store over several files of the log."""
    root = tmp_path / "store"
    with rmqcore.open(root, **SETTINGS) as store:
        for number in range(COUNT):
            store.put(message(number)).raise_for_status()
        store.wait_dispatched()
    return root


def sound(root: Path) -> bool:
    return all(one.severity == "info" for one in fsck(root).findings)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("index", [True, False])
def test_dispatch_makes_what_healing_makes(
    root: Path, clean: bool, index: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = queues_of(root)
    for folder in ["consumequeue"] if index else ["consumequeue", "index"]:
        shutil.rmtree(root / folder)
    if not clean:
        (root / "abort").write_text("1")
        (root / "checkpoint").unlink()  # it lets the scan begin in the newest file
    healed = root.with_name("healed")
    shutil.copytree(root, healed)
    with rmqcore.open(root, **SETTINGS) as store:
        assert store.recovery.queues_by_dispatch
        assert store.recovery.healed_entries == COUNT + COUNT // 5
        assert store.dispatch_behind_bytes == 0
        checkpoint = read_checkpoint(root / "checkpoint")
        assert checkpoint is not None
        assert checkpoint.logics_physical_offset == 0
        # The next message has the place behind the last, and no dispatch was asked for.
        assert store.put(message(COUNT)).queue_offset == len(range(COUNT % 3, COUNT, 3))
        assert store.get("%LMQ%y", 0, 3, 1).messages[0].body == message(15).body
    with monkeypatch.context() as patch:
        patch.setattr(Comparer, "is_in_order", False)
        with rmqcore.open(healed, **SETTINGS) as store:
            assert not store.recovery.queues_by_dispatch
    assert queues_of(healed) == original
    with rmqcore.open(healed, **SETTINGS) as store:
        store.put(message(COUNT)).raise_for_status()
    assert queues_of(root) == queues_of(healed)
    assert sound(root)
    assert sound(healed)


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_an_open_that_ends_in_the_middle(
    root: Path, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next open finds some queues, of some length, and a checkpoint that promises nothing of them."""
    original = queues_of(root)
    shutil.rmtree(root / "consumequeue")
    step, done = Dispatcher.dispatch_once, 0

    def some(self: Dispatcher, end_offset: int, max_bytes: int = 0) -> int:
        nonlocal done
        if done == steps:
            raise KeyboardInterrupt
        done += 1
        return step(self, end_offset, 2000)

    with monkeypatch.context() as patch:
        patch.setattr(Dispatcher, "dispatch_once", some)
        with pytest.raises(KeyboardInterrupt):
            rmqcore.open(root, **SETTINGS)
    assert (root / "abort").exists()
    with rmqcore.open(root, **SETTINGS) as store:
        assert store.recovery.queues_by_dispatch == (steps == 0)
        store.wait_dispatched()
    assert queues_of(root) == original
    assert sound(root)


@pytest.mark.parametrize("why", ["a lost message", "a topic made anew", "a queue that is left"])
def test_other_logs_are_healed(root: Path, why: str) -> None:
    if why == "a lost message":
        sorted((root / "commitlog").iterdir())[1].unlink()
    elif why == "a topic made anew":
        shutil.rmtree(root / "consumequeue" / "t")
        with rmqcore.open(root, **SETTINGS, recover_check_bytes=0) as store:
            store._parts.log.set_next_queue_offset("t", 0, 0)
            store.put(message(0)).raise_for_status()
    if why == "a queue that is left":
        shutil.rmtree(root / "consumequeue" / "t")
    else:
        shutil.rmtree(root / "consumequeue")
    with rmqcore.open(root, **SETTINGS) as store:
        assert not store.recovery.queues_by_dispatch
        assert store.recovery.healed_entries > 0
        store.wait_dispatched()
    if why == "a queue that is left":
        assert sound(root)
