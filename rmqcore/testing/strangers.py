"""Malicious directories, on each of which every action of a user is tried.

Files outside the directory must be unchanged afterwards, byte by byte. No action hangs, and a refused action raises an
error that names the place.
"""

from __future__ import annotations

import gc
import hashlib
import os
import random
import shutil
import signal
import stat
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import rmqcore
from rmqcore.codec.message import Message
from rmqcore.disk.paths import StorePaths
from rmqcore.errors import StoreError
from rmqcore.maintenance.backup.backup import backup
from rmqcore.maintenance.doctor.doctor import doctor
from rmqcore.maintenance.rebuild.rebuild import rebuild
from rmqcore.maintenance.retention.retention import retention
from rmqcore.maintenance.salvage.salvage import salvage
from rmqcore.offline.export.export import export
from rmqcore.offline.fsck import fsck
from rmqcore.offline.reader import StoreReader
from rmqcore.offline.stats import stats
from rmqcore.testing.crash_check import TINY, drain, put
from rmqcore.testing.harm import spoil
from rmqcore.testing.verdict import broken, hold

MESSAGES = 60
LONGEST_S, MOST_KIB = 60, 600 * 1024
EXIT_BROKEN = 3
REFUSALS = (StoreError, OSError, ValueError)


def _cat(root: Path, out: Path) -> None:
    del out
    for _ in StoreReader(root).messages():
        pass


def _get(root: Path, out: Path) -> None:
    del out
    reader = StoreReader(root)
    for queue in reader.queues():
        reader.get(queue.topic, queue.queue_id, queue.min_offset)
    reader.query("T0", "k1")


def _export(root: Path, out: Path) -> None:
    export(StoreReader(root), out, file_format="jsonl")


def _rebuild(root: Path, out: Path) -> None:
    rebuild(StorePaths(root), out, overwrite=out.exists())


def _retention(root: Path, out: Path) -> None:
    del out
    retention(root, what_if={"fileReservedTime": "1"})


def _backup(root: Path, out: Path) -> None:
    backup(root, out)
    backup(root, out)


def _open(root: Path, out: Path) -> None:
    del out
    with rmqcore.open(root, services=False, **TINY) as store:
        store.put(Message("T0", b"one more", keys="k1"))
        while store.dispatch_once():
            pass
        store.get("T0", 0, 0)


ACTIONS: dict[str, Callable[[Path, Path], object]] = {
    "info": lambda root, out: StoreReader(root).info(),
    "fsck": lambda root, out: fsck(root),
    "cat": _cat,
    "get": _get,
    "export": _export,
    "rebuild": _rebuild,
    "rebuild into it": lambda root, out: _rebuild(root, root / "rebuilt"),
    "stats": lambda root, out: stats(root, by=["hour", "queue"]),
    "retention": _retention,
    "backup": _backup,
    "doctor": lambda root, out: doctor(root, thorough=True),
    "salvage": salvage,
    "salvage the log": lambda root, out: salvage(root, out, log_only=True),
    "salvage into it": lambda root, out: salvage(root, root / "salvaged"),
    "open": _open,
    "open again": _open,
    "recover": lambda root, out: rmqcore.open(root, services=False, recover="deep", **TINY).close(),
}


def _act(root: Path, out: Path, log: Path) -> Iterator[str]:
    """Run all actions, each under an alarm; yield the name of each before it runs."""
    for name, action in ACTIONS.items():
        yield name
        signal.alarm(LONGEST_S)
        try:
            action(root, out / name.replace(" ", "-"))
        except REFUSALS as error:
            if isinstance(error, UnicodeError):  # a name or text that the code does not expect
                raise
            with log.open("a") as file:
                file.write(f"{name}: {type(error).__name__}: {error!r}\n")
        signal.alarm(0)


def _resident_kib(field: str) -> int:
    """Return the resident memory of this process in KiB: now (VmRSS), or its maximum (VmHWM)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0])


def _child(root: Path, out: Path, log: Path) -> None:
    """Run all actions and end the process, with EXIT_BROKEN after an error that is not documented."""
    code = 0
    try:
        # Memory inherited by the fork is not the store's: 700 MB in a process that has run other tests. Nor may a
        # collection of inherited garbage hide the memory that the store uses.
        gc.freeze()
        inherited = _resident_kib("VmRSS")
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        for name in _act(root, out, log):
            log.with_suffix(".now").write_text(name)
        log.with_suffix(".used").write_text(str(_resident_kib("VmHWM") - inherited))
    except BaseException:  # noqa: BLE001 - the parent reports it
        log.write_text(traceback.format_exc())
        code = EXIT_BROKEN
    os._exit(code)


def try_store(root: Path, outside: Path, scratch: Path) -> int:
    """Run all actions on one store, in a process of its own; return how many of them refused the store.

    Raises
    ------
    PromiseBrokenError
        A file outside was changed or created; or an action hung, crashed, used too much memory or raised an
        undocumented error.
    """
    out, log = scratch / "out", scratch / "log"
    out.mkdir()
    log.touch()
    before = fingerprint(outside)
    beside = sorted(os.listdir(root.parent))
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _child(root, out, log)
    _, status = os.waitpid(child, 0)
    now = log.with_suffix(".now")
    doing = now.read_text() if now.exists() else "nothing yet"
    code = os.waitstatus_to_exitcode(status)
    hold(code != -signal.SIGALRM, f"{doing} did not end in {LONGEST_S} s")
    hold(code == 0, f"{doing} ended with {code}:", log.read_text())
    used = int(log.with_suffix(".used").read_text())
    hold(used < MOST_KIB, f"{used} KiB of memory were used")
    hold(sorted(os.listdir(root.parent)) == beside, "something was made beside the store")
    after = fingerprint(outside)
    for path in sorted(before.keys() | after.keys()):
        if before.get(path) != after.get(path):
            broken(f"outside of the store {path} was {before.get(path)}, and is {after.get(path)}")
    return len(log.read_text().splitlines())


def fingerprint(folder: Path) -> dict[str, tuple[object, ...]]:
    """Return kind and mode, size, time of change and a hash of the bytes of every path below a folder."""
    found: dict[str, tuple[object, ...]] = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        status = path.lstat()
        content: object = None
        if stat.S_ISREG(status.st_mode):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        found[os.fspath(path)] = status.st_mode, status.st_size, status.st_mtime_ns, content
    return found


def stranger_rounds(base: Path, seed: int, rounds: int) -> Counter[str]:
    """Spoil `rounds` copies of one store, and run all actions on each; return the counts of outcomes.

    Raises
    ------
    PromiseBrokenError
        As for `try_store`. The message names the damage, and the files are kept.
    """
    base.mkdir()
    rng = random.Random(seed)
    sound, outside = base / "sound", base / "outside"
    with rmqcore.open(sound, services=False, **TINY) as store:
        for number in range(MESSAGES):
            put(store, number, topics=2, queues=2)
        drain(store)
    (outside / "folder").mkdir(parents=True)
    (outside / "folder" / "precious").write_text("precious")
    (outside / "file").write_text("precious too")
    shutil.copytree(sound, outside / "store")
    counts: Counter[str] = Counter()
    for number in range(rounds):
        case = base / f"stranger-{number}"
        scratch = base / f"scratch-{number}"
        case.mkdir()
        scratch.mkdir()
        root = case / "store"
        shutil.copytree(sound, root)
        if rng.random() < 0.5:
            (root / "abort").write_text("1")
        told = spoil(root, outside, rng)
        try:
            counts["refusals"] += try_store(root, outside, scratch)
        except Exception as error:
            error.add_note(f"store {number} of seed {seed}: {'; '.join(told)}")
            raise
        counts["stores"] += 1
        for folder in (case, scratch):
            shutil.rmtree(folder)
    return counts
