"""A round of cleaning that does not get to its end: a signal handler raises, or the store is closed, in the middle of it.

Before these tests a close did not wait for a round in its pause between two files: the round went on in the directory that
another store had opened by then, and deleted the files that this one was reading. An exception at the end of a block with the
lock of the index files left the lock taken; one between two files of a queue left a file that no later round deleted, and the
next round left a hole behind it.
"""

from __future__ import annotations

import os
import random
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.doses import dose
from support.faults.interrupt_points import Injector, Interrupted, TimedOut
from support.faults.interrupt_scenes import no_hang
from support.stores.many_files import fill, settings

import rmqcore
from rmqcore import Message, MessageStore
from rmqcore.engine.recovery.index.log_look import LogLook
from rmqcore.errors import StoreClosedError, StoreFailedError
from rmqcore.offline.fsck import fsck

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
# How many places of a round, from a start that the seed chooses; 0: all of them.
POINTS = dose("RMQCORE_INTERRUPT_POINTS", test=2, verify=12, night=0)
FILE_SIZE = 16 << 10
QUEUE_FILE = 20 * 4
SETTINGS = settings(FILE_SIZE, mapped_file_size_consume_queue=QUEUE_FILE, max_index_num=12)
LATER = 1 << 41  # milliseconds, by which every file's time is over


def opened(root: Path) -> MessageStore:
    return rmqcore.open(root, **SETTINGS)


def clean(store: MessageStore, pause: Callable[[int], bool] = lambda _: False) -> None:
    store.clean_once(now_ms=LATER, disk_ratio=0.1, pause=pause)


def check_whole(folder: Path, size: int) -> None:
    """The files of a sequence follow each other."""
    starts = sorted(int(path.name) for path in folder.iterdir())
    assert starts == list(range(starts[0], starts[-1] + size, size)), folder


def check_files(root: Path) -> None:
    check_whole(root / "commitlog", FILE_SIZE)
    for topic in ("T0", "T1"):
        check_whole(root / "consumequeue" / topic / "0", QUEUE_FILE)


def everything(root: Path) -> dict[str, int]:
    return {
        str(path.relative_to(root)): path.stat().st_size
        for path in root.rglob("*")
        if path.is_file()
    }


def interrupted(root: Path, at: int) -> int:
    """Interrupt one round at an event, make further rounds, and check what is left; answer how many events there are."""
    injector = Injector(at)
    with no_hang():
        store = opened(root)
        fill(store, 3)
        with suppress(Interrupted, TimedOut):
            injector.run(clean, store)
        assert not store.failed, (injector.place, store.stats()["failed"])
        check_files(root)
        fill(store, 5)
        clean(store)
        check_files(root)
        assert store.min_phy_offset == 4 * FILE_SIZE, injector.place
        for topic in ("T0", "T1"):
            first = store.min_offset(topic, 0)
            result = store.get(topic, 0, first, 1)
            assert result.messages[0].phy_offset < store.min_phy_offset + 4000, injector.place
        end = store.max_phy_offset
        store.close()
        assert not (root / "abort").exists()
        with opened(root) as store:
            assert (store.min_phy_offset, store.max_phy_offset) == (4 * FILE_SIZE, end)
        assert not fsck(root).findings, injector.place
    return injector.events


@pytest.mark.smoke
def test_an_exception_at_any_place_of_a_round(tmp_path: Path, rng: random.Random) -> None:
    events = interrupted(tmp_path / "counted", 0)
    step = max(1, events // POINTS) if POINTS else 1
    for at in range(1 + rng.randrange(step), events + 1, step):
        root = tmp_path / str(at)
        try:
            interrupted(root, at)
        except BaseException as error:
            error.add_note(f"event {at}")
            raise
        shutil.rmtree(root)


@pytest.mark.parametrize("pauses", [1, 4])
def test_a_close_waits_for_the_round(tmp_path: Path, pauses: int) -> None:
    """The first pauses of this round are between two files of the log, the fourth is one behind a queue."""
    root = tmp_path / "store"
    store = opened(root)
    fill(store, 5)
    paused, go_on = threading.Event(), threading.Event()
    left = pauses

    def pause(_: int) -> bool:
        nonlocal left
        left -= 1
        if left == 0:
            paused.set()
            assert go_on.wait(120)
        return False

    cleaning = threading.Thread(target=clean, args=(store, pause))
    closing = threading.Thread(target=store.close)
    cleaning.start()
    assert paused.wait(120)
    closing.start()
    closing.join(0.3)
    assert closing.is_alive(), "the directory may be another store's as soon as close returns"
    go_on.set()
    closing.join()
    before = everything(root)
    cleaning.join()
    assert everything(root) == before
    assert left == 0, "the round ends with the pause"
    with pytest.raises(StoreClosedError):
        clean(store)
    with opened(root) as other:
        check_files(root)
        assert other.min_phy_offset == min(pauses, 4) * FILE_SIZE
    assert not fsck(root).findings


@pytest.mark.parametrize("pauses", [1, 4])
def test_a_store_that_fails_in_a_pause_deletes_no_more(tmp_path: Path, pauses: int) -> None:
    """Also when the reason is that another store lies at its name."""
    root, moved = tmp_path / "store", tmp_path / "moved"
    store = opened(root)
    fill(store, 5)
    left = pauses

    def pause(_: int) -> bool:
        nonlocal left
        left -= 1
        if left == 0:
            root.rename(moved)
            with opened(root) as other:
                fill(other, 5)
        return False

    with pytest.raises(StoreFailedError, match="the directory was replaced"):
        clean(store, pause)
    assert len(os.listdir(root / "commitlog")) >= 5
    check_files(root)
    check_files(moved)
    store.close()
    assert not fsck(root).findings


def test_what_is_deleted_is_in_queues_on_disk_before(tmp_path: Path) -> None:
    """A power cut took the entries of deleted messages: a queue whose messages were all deleted began again at offset 0."""
    root = tmp_path / "store"
    store = opened(root)
    for _ in range(3):
        store.put(Message("few", b"x")).raise_for_status()
    fill(store, 3)
    synced: list[int] = []
    flush = store._queues.flush

    def noted(least_pages: int = 0) -> bool:
        answer = flush(least_pages)
        synced.append(len(os.listdir(root / "commitlog")))
        return answer

    store._queues.flush = noted  # type: ignore[method-assign]
    files = len(os.listdir(root / "commitlog"))
    clean(store)
    assert synced == [files], "once, before the first file goes"
    assert len(os.listdir(root / "commitlog")) < files
    store.close()


def test_a_scrub_beside_a_round_tells_of_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It compared messages that it had read before the round with entries that the round had deleted."""
    with opened(tmp_path / "store") as store:
        fill(store, 5)
        window = LogLook.window

        def cleaned(look: LogLook, phy_offset: int) -> Any:
            found = window(look, phy_offset)
            clean(store)
            return found

        with monkeypatch.context() as patch:
            patch.setattr(LogLook, "window", cleaned)
            while store.scrub_once():
                pass
        assert store.min_phy_offset == 4 * FILE_SIZE
        assert store.stats()["scrub"]["problems"] == []
