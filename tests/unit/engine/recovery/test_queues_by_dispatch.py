"""A store of which all queues are gone: dispatch makes them, where it makes what healing would.

Healing writes entry by entry to the places that the records name, for the queues may hold anything. Without a queue that took
more than twice the time of a dispatch from the beginning of the log, which goes over all records for the index anyway.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.disk.checkpoint import read_checkpoint
from rmqcore.engine.dispatch.dispatcher import Dispatcher
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.engine.queues.consume_queues import ConsumeQueues
from rmqcore.engine.recovery import plan, queue_findings, recovery
from rmqcore.engine.recovery.queue_findings import QueueCheck
from rmqcore.engine.recovery.queue_maker import QueueMaker
from rmqcore.errors import StoreFormatError
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


def message(number: int, *, light: bool = True) -> Message:
    """Three queues of one topic, and a light queue that every fifth message names too."""
    return Message(
        "t",
        b"%d" % number * (number % 40 + 1),
        queue_id=number % 3,
        keys=f"k{number}",
        properties=LIGHT if light and number % 5 == 0 else {},
    )


def queues_of(root: Path) -> dict[str, bytes]:
    folder = root / "consumequeue"
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def all_but_index(root: Path) -> dict[str, bytes]:
    """The files that a second open leaves as they are: of the index a crash takes what was not full."""
    files = (path for path in root.rglob("*") if path.is_file() and path.parent.name != "index")
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def made(root: Path, *, light: bool) -> Path:
    """A closed store over several files of the log."""
    with rmqcore.open(root, **SETTINGS) as store:
        for number in range(COUNT):
            store.put(message(number, light=light)).raise_for_status()
        store.wait_dispatched()
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return made(tmp_path / "store", light=True)


def sound(root: Path) -> bool:
    return all(one.severity == "info" for one in fsck(root).findings)


def opened_and_killed(root: Path, *, by_dispatch: bool) -> tuple[Path, dict[str, Any]]:
    """What an open leaves of a store when it is killed at once, and its report."""
    killed = root.with_name(root.name + "_killed")
    with rmqcore.open(root, **SETTINGS) as store:
        assert store.recovery.queues_by_dispatch == by_dispatch
        shutil.copytree(root, killed)
        report = asdict(store.recovery)
    of_the_path = "queues_by_dispatch", "plan_seconds", "apply_seconds", "index"
    return killed, {name: value for name, value in report.items() if name not in of_the_path}


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("kept", ["all rows", "small batches", "too many queues", "light queues"])
def test_dispatch_makes_what_healing_makes(
    tmp_path: Path, clean: bool, index: bool, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries, checkpoint and report are the same: the store machine once found the checkpoint left for the next open."""
    root = made(tmp_path / "store", light=kept == "light queues")
    original = queues_of(root)
    if kept == "small batches":
        monkeypatch.setattr(plan, "MAKING_ROWS", 7)
    if kept == "too many queues":
        monkeypatch.setattr(queue_findings, "MADE_QUEUES", 2)
        monkeypatch.setattr(plan, "MAKING_ROWS", 2)  # two queues are made, and taken away again
    passes: list[int] = []
    again = recovery._dispatch_log

    def dispatch_log(dispatcher: Dispatcher, log: CommitLog, end_phy_offset: int) -> None:
        passes.append(end_phy_offset)
        again(dispatcher, log, end_phy_offset)

    monkeypatch.setattr(recovery, "_dispatch_log", dispatch_log)
    for folder in ["consumequeue"] if index else ["consumequeue", "index"]:
        shutil.rmtree(root / folder)
    if not clean:
        (root / "abort").write_text("1")
        (root / "checkpoint").unlink()  # it lets the scan begin in the newest file
    healed = root.with_name("healed")
    shutil.copytree(root, healed)
    killed, report = opened_and_killed(root, by_dispatch=True)
    assert len(passes) == (kept not in ("all rows", "small batches"))
    with monkeypatch.context() as patch:
        patch.setattr(QueueCheck, "is_in_order", False)  # from the first batch on
        other_killed, other_report = opened_and_killed(healed, by_dispatch=False)
    assert report == other_report
    entries = COUNT + (COUNT // 5 if kept == "light queues" else 0)
    assert report["healed_entries"] == report["differing_entries"] == entries
    assert read_checkpoint(killed / "checkpoint") == read_checkpoint(other_killed / "checkpoint")
    assert queues_of(killed) == queues_of(other_killed) == queues_of(root) == original
    before = all_but_index(killed)
    opened, report = opened_and_killed(killed, by_dispatch=False)
    assert report["differing_entries"] == 0
    assert all_but_index(opened) == before
    assert sound(root)
    assert sound(healed)


def test_the_next_message_has_the_place_behind_the_last(root: Path) -> None:
    shutil.rmtree(root / "consumequeue")
    with rmqcore.open(root, **SETTINGS) as store:
        assert store.recovery.queues_by_dispatch
        assert store.put(message(COUNT)).queue_offset == len(range(COUNT % 3, COUNT, 3))
        assert store.get("%LMQ%y", 0, 3, 1).messages[0].body == message(15).body
    assert sound(root)


def test_a_file_that_is_taken_away_meanwhile(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dispatch waits for a file that is not there yet; the open must not take the queues for complete."""
    shutil.rmtree(root / "consumequeue")
    window, starts = CommitLog.window, CommitLog.file_starts
    gone = 1 << 12
    monkeypatch.setattr(CommitLog, "window", lambda log, at: window(log, at) if at < gone else None)
    monkeypatch.setattr(
        CommitLog, "file_starts", lambda log: [start for start in starts(log) if start < gone]
    )
    with pytest.raises(StoreFormatError, match=r"ends at 4064, expected records up to \d+:"):
        rmqcore.open(root, **SETTINGS)


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_an_open_that_ends_in_the_middle(
    root: Path, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next open finds some queues, of some length."""
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
    with rmqcore.open(root, **SETTINGS) as store:
        assert store.recovery.queues_by_dispatch == (steps == 0)
        store.wait_dispatched()
    assert queues_of(root) == original
    assert sound(root)


@pytest.mark.parametrize(
    "why", ["a lost message", "an old log", "a topic made anew", "a queue that is left"]
)
def test_other_logs_are_healed(root: Path, why: str) -> None:
    if why in ("a lost message", "an old log"):
        sorted((root / "commitlog").iterdir())[why == "a lost message"].unlink()
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


def go_back(root: Path) -> None:
    """Let the last message of a store lie at the first place of its queue, where another one is."""
    with rmqcore.open(root, **SETTINGS) as store:
        store._parts.log.set_next_queue_offset("t", 0, 0)
        store.put(message(0, light=False)).raise_for_status()


def name_light_queue(root: Path) -> None:
    """Let the last message of a store name a light queue."""
    with rmqcore.open(root, **SETTINGS) as store:
        store.put(message(0)).raise_for_status()


def lose_a_file(root: Path) -> None:
    """Delete the second file of a store's log."""
    sorted((root / "commitlog").iterdir())[1].unlink()


@pytest.mark.parametrize("spoil", [go_back, name_light_queue, lose_a_file])
def test_what_was_made_is_taken_away_where_the_log_is_in_no_order(
    tmp_path: Path, spoil: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That shows late: the first records of each queue were in order, and had their entries already."""
    monkeypatch.setattr(plan, "MAKING_ROWS", 7)
    root = made(tmp_path / "store", light=False)
    spoil(root)
    shutil.rmtree(root / "consumequeue")
    other = root.with_name("other")
    shutil.copytree(root, other)
    by_dispatch = spoil is name_light_queue
    taken: list[int] = []
    destroy_all = ConsumeQueues.destroy_all

    def count(queues: ConsumeQueues) -> None:
        taken.append(sum(queue.max_offset for queue in queues._all()))
        destroy_all(queues)

    with monkeypatch.context() as patch:
        patch.setattr(ConsumeQueues, "destroy_all", count)
        killed, report = opened_and_killed(root, by_dispatch=by_dispatch)
    assert len(taken) == 1 and taken[0] >= 21
    with monkeypatch.context() as patch:
        patch.setattr(QueueMaker, "take", lambda *_: None)
        other_killed, other_report = opened_and_killed(other, by_dispatch=by_dispatch)
    for one in (report, other_report):
        del one["warnings"]  # they name the directory
    assert report == other_report
    assert queues_of(killed) == queues_of(other_killed)
    assert read_checkpoint(killed / "checkpoint") == read_checkpoint(other_killed / "checkpoint")


@pytest.mark.parametrize("batches", [0, 1, 5, 9])
@pytest.mark.parametrize("clean", [True, False])
def test_an_open_that_ends_while_it_makes_queues(
    tmp_path: Path, batches: int, clean: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next open finds the beginnings of all queues."""
    root = made(tmp_path / "store", light=False)
    original = queues_of(root)
    shutil.rmtree(root / "consumequeue")
    if not clean:
        (root / "abort").write_text("1")
        (root / "checkpoint").unlink()  # it lets the scan begin in the newest file
    take, done = QueueMaker.take, 0

    def some(maker: QueueMaker, scan: ColumnScan, batch: Batch) -> None:
        nonlocal done
        if done == batches:
            raise KeyboardInterrupt
        done += 1
        take(maker, scan, batch)

    with monkeypatch.context() as patch:
        patch.setattr(plan, "MAKING_ROWS", 7)
        patch.setattr(QueueMaker, "take", some)
        with pytest.raises(KeyboardInterrupt):
            rmqcore.open(root, **SETTINGS)
    assert (batches == 0) == (queues_of(root) == {})
    with rmqcore.open(root, **SETTINGS) as store:
        assert store.recovery.queues_by_dispatch == (batches == 0)
        store.wait_dispatched()
    assert queues_of(root) == original
    assert sound(root)
