"""Runs in a child under the shim: records a writer, cuts its disk at many moments, and opens the resulting images.

A cut during the recovery of an image counts as a further cut. A recording has a seed, an image the place of its cut and
a number: the three reproduce the image, as far as threads allow.
"""

from __future__ import annotations

import json
import random
import shutil
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rmqcore
from rmqcore.engine.store.store import MessageStore
from rmqcore.offline.fsck import fsck
from rmqcore.testing.crash_check import TINY, Acked, check_directory, drain, put
from rmqcore.testing.disks.disk_images import Disk, Event, Luck, read_events
from rmqcore.testing.fault_shim import Shim, tell
from rmqcore.testing.verdict import hold

SYNC = {**TINY, "flush_disk_type": "SYNC_FLUSH"}
SHARES = (0.0, 1.0, 0.1, 0.5, 0.9)
"""Shares of the unsynced changes in an image: none, all, and random parts."""


def note(shim: Shim, acked: Iterable[Acked]) -> None:
    """Note in the record that no message of `acked` may be lost from here on."""
    shim.note("A", json.dumps([one.as_dict() for one in acked]).encode())


def write_threads(shim: Shim, root: Path, seed: int) -> None:
    """Put from three threads under SYNC_FLUSH with all services; note each PUT_OK when it is returned."""
    store = rmqcore.open(root, flush_interval_consume_queue=3, **SYNC)

    def work(first: int) -> None:
        rng = random.Random(seed * 100 + first)
        for number in range(first, 90, 3):
            wait = rng.random() < 0.8
            one = put(store, number, wait=wait)
            assert one is not None
            if wait:
                note(shim, [one])

    threads = [threading.Thread(target=work, args=(first,)) for first in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.close()


def write_behind(shim: Shim, root: Path, seed: int) -> None:
    """Put under ASYNC_FLUSH with all services; note the messages below `flushed_phy_offset`."""
    rng = random.Random(seed)
    number, waiting = 0, list[Acked]()
    for _ in range(2):
        with rmqcore.open(
            root,
            flush_interval_commit_log=rng.choice((1, 5)),
            flush_interval_consume_queue=rng.choice((1, 5)),
            flush_consume_queue_thorough_interval=rng.choice((1, 60_000)),
            **TINY,
        ) as store:
            for _ in range(60):
                one = put(store, number)
                assert one is not None
                waiting.append(one)
                number += 1
                flushed = store.flushed_phy_offset  # read before the note, because it can only grow
                done = [one for one in waiting[:-1] if waiting[-1].phy_offset <= flushed]
                if done:
                    note(shim, done)
                    waiting = waiting[-1:]
        note(shim, waiting)
        waiting = []


def write_steps(shim: Shim, root: Path, seed: int) -> None:
    """Put under ASYNC_FLUSH, with steps in random order; after a flush, note the messages that were put before it."""
    rng = random.Random(seed)
    store = rmqcore.open(root, services=False, **TINY)
    waiting: list[Acked] = []
    number = 0
    for _ in range(120):
        step = rng.choice(("put", "put", "put", "flush", "dispatch", "queues", "space"))
        if step == "put":
            for _ in range(rng.choice((1, 1, 5, 30))):
                one = put(store, number)
                assert one is not None
                waiting.append(one)
                number += 1
        elif step == "flush":
            store.flush()
            note(shim, waiting)
            waiting = []
        elif step == "dispatch":
            store.dispatch_once()
        elif step == "queues":
            store.flush_consume_queues(rng.choice((0, 2)))
            store.write_checkpoint()
        else:
            store.prepare_space()
        if rng.random() < 0.02:
            _end(store)
            note(shim, waiting)
            waiting = []
            store = rmqcore.open(root, services=False, **TINY)
    _end(store)
    note(shim, waiting)


def _end(store: MessageStore) -> None:
    drain(store)
    store.close()


def write_wide(shim: Shim, root: Path, seed: int) -> None:
    """Put into 400 queues, so that one syncfs syncs all of them."""
    rng = random.Random(seed)
    store = rmqcore.open(root, services=False, **TINY)
    for round_ in range(3):
        waiting = [put(store, round_ * 400 + number, topics=20, queues=20) for number in range(400)]
        drain(store)
        if rng.random() < 0.7:
            store.flush()
            note(shim, [one for one in waiting if one])
        store.flush_consume_queues(rng.choice((0, 0, 2)))
        store.write_checkpoint()
    store.close()


@dataclass(frozen=True)
class Writer:
    """A way to fill a store while it is recorded, and the settings to open it with."""

    write: Callable[[Shim, Path, int], None]
    config: dict[str, Any]


WRITERS = {
    "threads": Writer(write_threads, SYNC),
    "behind": Writer(write_behind, TINY),
    "steps": Writer(write_steps, TINY),
    "wide": Writer(write_wide, TINY),
}


def cut(folder: str, writer: str, seed: int, most: int) -> None:
    """Record a writer, then check `most` images of its disk; print the number of cuts."""
    base, shim = Path(folder), Shim()
    how = WRITERS[writer]
    root = base / "store"
    root.mkdir()
    shim.watch(root)
    with shim.recording(base / "record"):
        how.write(shim, root, seed)
    shim.watch(None)
    events = read_events(base / "record")
    cuts = Cuts(shim, base, how.config, f"{writer} {seed}")
    cuts.of_run(root.stat().st_ino, events, most)
    for name in ("record", "store"):
        path = base / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    tell(f"{cuts.done} cuts, {len(events)} events")


class Cuts:
    """Images of one recorded run: half of them by the harsh model of names and lengths, half by the journal's.

    Parameters
    ----------
    shim : Shim
    base : Path
        Directory for the images, and for the records of their recoveries.
    config : dict
        Settings to open an image with.
    seed : str
    """

    def __init__(self, shim: Shim, base: Path, config: dict[str, Any], seed: str) -> None:
        self._shim = shim
        self._base = base
        self._config = config
        self._seed = seed
        self.done = 0

    def of_run(self, inode: int, events: list[Event], most: int) -> None:
        """Check `most` images at moments of the whole record, half of them right after a sync."""
        rng = random.Random(self._seed)
        ends = [at for at, event in enumerate(events) if event.kind == "E"]
        hold(len(ends) > 20, "the record holds no more syncs than", len(ends))
        chosen = sorted(
            rng.choice(ends) if rng.random() < 0.5 else rng.randrange(len(events))
            for _ in range(most)
        )
        disk, acked, at = Disk(inode), list[Acked](), -1
        for number, place in enumerate(chosen):
            while at < place:
                at += 1
                disk.apply(events[at])
                if events[at].kind == "A":
                    acked += [Acked(**one) for one in json.loads(events[at].data)]
            luck = self._luck(disk, number, place)
            try:
                self._check(disk, acked, luck)
            except BaseException:
                tell(f"{self._seed}: cut after event {place} of {len(events)}, image {number}")
                raise

    def _luck(self, disk: Disk, number: int, place: int) -> Luck:
        seed = f"{self._seed} {place} {number}"
        harsh = number // len(SHARES) % 2
        end = 0 if harsh else disk.journal_end(random.Random(seed))
        return Luck(SHARES[number % len(SHARES)], seed, end)

    def _check(self, disk: Disk, acked: list[Acked], luck: Luck) -> None:
        image = self._base / "image"
        disk.write(image, luck)
        if luck.random.random() < 0.2:
            image = self._cut_in_recovery(image, luck)
        self.done += 1
        if any((image / "commitlog").glob("*")):
            fsck(image)  # before any repair, fsck must end with a report
        check_directory(image, acked, self._config)
        shutil.rmtree(image)

    def _cut_in_recovery(self, image: Path, luck: Luck) -> Path:
        """Open an image, cut the power at a moment of that, and return an image of the result."""
        disk, record = Disk.of(image), self._base / "recovery-record"
        self._shim.watch(image)
        with self._shim.recording(record):
            rmqcore.open(image, services=False, **self._config).close()
        self._shim.watch(None)
        events = read_events(record)
        for event in events[: luck.random.randrange(len(events) + 1)]:
            disk.apply(event)
        luck.journal_end = luck.journal_end and disk.journal_end(luck.random)
        shutil.rmtree(image)
        record.unlink()
        self.done += 1
        found = self._base / "recovered"
        disk.write(found, luck)
        return found
