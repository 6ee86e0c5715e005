"""In a child under the shim: a writer is recorded, its disk is cut at every sync, and each image is opened.

A cut during the recovery of such an image is one more cut.
"""

from __future__ import annotations

import json
import random
import shutil
import threading
from pathlib import Path
from typing import Any

from crash_check import TINY, Acked, check_directory, drain, put
from disk_images import Disk, Event, note_live, parse_live, read_events
from fault_shim import Shim, tell

import rmqcore

SYNC = {**TINY, "flush_disk_type": "SYNC_FLUSH"}


def write_threads(shim: Shim, root: Path, seed: int) -> None:
    """Three threads put under SYNC_FLUSH with all services running; each PUT_OK is noted when it is there."""
    store = rmqcore.open(root, flush_interval_consume_queue=3, **SYNC)

    def work(first: int) -> None:
        rng = random.Random(seed * 100 + first)
        for number in range(first, 90, 3):
            wait = rng.random() < 0.8
            one = put(store, number, wait=wait)
            assert one is not None
            if wait:
                shim.note("A", json.dumps([one.as_dict()]).encode())

    threads = [threading.Thread(target=work, args=(first,)) for first in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.close()


def write_steps(shim: Shim, root: Path, seed: int) -> None:
    """ASYNC_FLUSH, one step after the other in any order; what was put before a flush is noted when the flush is done."""
    rng = random.Random(seed)
    store = rmqcore.open(root, services=False, **TINY)
    waiting: list[Acked] = []
    number = 0
    for _ in range(120):
        step = rng.choice(("put", "put", "put", "flush", "dispatch", "queues", "space", "live"))
        if step == "put":
            for _ in range(rng.choice((1, 1, 5, 30))):
                one = put(store, number)
                assert one is not None
                waiting.append(one)
                number += 1
        elif step == "flush":
            store.flush()
            shim.note("A", json.dumps([one.as_dict() for one in waiting]).encode())
            waiting = []
        elif step == "dispatch":
            store.dispatch_once()
        elif step == "queues":
            store.flush_consume_queues(rng.choice((0, 2)))
            store.write_checkpoint()
        elif step == "space":
            store.prepare_space()
        else:
            note_live(shim, root)
        if rng.random() < 0.02:
            drain(store)
            store.close()
            shim.note("A", json.dumps([one.as_dict() for one in waiting]).encode())
            waiting = []
            store = rmqcore.open(root, services=False, **TINY)
    drain(store)
    store.close()
    shim.note("A", json.dumps([one.as_dict() for one in waiting]).encode())


def write_wide(shim: Shim, root: Path, seed: int) -> None:
    """So many queues that they are synced all at once (syncfs)."""
    rng = random.Random(seed)
    store = rmqcore.open(root, services=False, **TINY)
    for round_ in range(3):
        waiting = [put(store, round_ * 400 + number, topics=20, queues=20) for number in range(400)]
        drain(store)
        if rng.random() < 0.7:
            store.flush()
            shim.note("A", json.dumps([one.as_dict() for one in waiting if one]).encode())
        note_live(shim, root)
        store.flush_consume_queues(rng.choice((0, 0, 2)))
        store.write_checkpoint()
    store.close()


WRITERS = {
    "threads": (write_threads, SYNC),
    "steps": (write_steps, TINY),
    "wide": (write_wide, TINY),
}


def cut(folder: str, writer: str, seed: int, most: int) -> None:
    """Record, then check images of at most `most` cuts, and of some cuts in their recoveries."""
    base, shim = Path(folder), Shim()
    write, config = WRITERS[writer]
    root = base / "store"
    root.mkdir()
    shim.watch(root)
    with shim.recording(base / "record"):
        write(shim, root, seed)
    shim.watch(None)
    events = read_events(base / "record")
    syncs = [place for place, event in enumerate(events) if event.kind in "MFD"]
    assert len(syncs) > 50
    rng = random.Random(seed)
    chosen = sorted(rng.sample(syncs, min(most, len(syncs))))
    for place in [*chosen, len(events) - 1]:
        try:
            check_cut(shim, base, root.stat().st_ino, events, place, config, rng)
        except BaseException:
            tell(f"{writer}, seed {seed}: cut after event {place} of {len(events)}")
            raise
    tell(f"{len(chosen) + 1} cuts")


def check_cut(
    shim: Shim,
    base: Path,
    inode: int,
    events: list[Event],
    place: int,
    config: dict[str, Any],
    rng: random.Random,
) -> None:
    """The disk after event `place`: as harsh as can be, then with pages and names that happened to be written."""
    disk, live, acked = Disk(inode), None, []
    for event in events[: place + 1]:
        disk.apply(event)
        if event.kind == "A":
            acked += [Acked(**one) for one in json.loads(event.data)]
        live = parse_live(inode, event.data) if event.kind == "L" else live
        if event.kind in "MFD":
            live = live if live is None else _follow(live, event)
    for number in range(1 if live is None else 3):
        image = disk if number == 0 or live is None else disk.mixed(live, rng)
        target = base / "image"
        image.write(target)
        check_directory(target, acked, config)
        shutil.rmtree(target)
        if rng.random() < 0.3:
            check_cut_in_recovery(shim, base, image, acked, config, rng)


def _follow(live: Disk, event: Event) -> Disk:
    """What was synced after the picture was taken is in it too."""
    live.apply(event)
    return live


def check_cut_in_recovery(
    shim: Shim,
    base: Path,
    disk: Disk,
    acked: list[Acked],
    config: dict[str, Any],
    rng: random.Random,
) -> None:
    """Open the image, cut that at one of its syncs, and open again."""
    target = base / "recovered"
    disk.write(target)
    translated, record = Disk(target.stat().st_ino), base / "recovery-record"
    _scan(translated, target)
    shim.watch(target)
    with shim.recording(record):
        rmqcore.open(target, services=False, **config).close()
    shim.watch(None)
    events = read_events(record)
    for event in events[: rng.randrange(len(events) + 1)]:
        translated.apply(event)
    shutil.rmtree(target)
    record.unlink()
    translated.write(base / "image")
    check_directory(base / "image", acked, config)
    shutil.rmtree(base / "image")


def _scan(disk: Disk, folder: Path) -> None:
    """All of a directory as durable."""
    listing = disk.folders[folder.stat().st_ino] = {}
    for path in folder.iterdir():
        listing[path.name] = path.stat().st_ino, path.is_dir()
        if path.is_dir():
            _scan(disk, path)
        else:
            disk.files[path.stat().st_ino] = bytearray(path.read_bytes())
