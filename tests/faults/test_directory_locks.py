"""A directory is written by one store, whatever name it has and whichever root leads there."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import shutil
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.doses import dose
from support.faults.interrupt_points import Injector, Interrupted, TimedOut
from support.places import TESTS

import rmqcore
from rmqcore.disk.locks.directory_lock import DirectoryLock
from rmqcore.disk.locks.store_locks import StoreLocks
from rmqcore.disk.paths import StorePaths
from rmqcore.errors import StoreLockedError
from rmqcore.offline.fsck import fsck
from rmqcore.testing.crash_check import TINY, check_directory, drain, put

STEPS: dict[str, Any] = {**TINY, "services": False}
OPENS = f"""
import json, sys
sys.path.insert(0, {str(TESTS)!r})
from rmqcore.testing.crash_check import *
root, log = sys.argv[1:3]
settings = {{**TINY, "services": False, "store_path_commit_log": log or None, "follow_links": True}}
"""
HOLDS = OPENS + "store = rmqcore.open(root, **settings); put(store, 1)\n"
HOLDS_AS_JAVA = """
import fcntl, os, sys
from pathlib import Path
root, log = map(Path, sys.argv[1:3])
root.mkdir(exist_ok=True)
lock = open(root / "lock", "w")
fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
file = open(log / f"{0:020d}", "r+b")
"""
TRIES = """
try:
    rmqcore.open(root, **settings).close()
except rmqcore.errors.StoreLockedError as error:
    print(error)
"""


@contextmanager
def other_process(code: str, *arguments: object) -> Iterator[int]:
    """Another process that has run `code` and waits; answers its id."""
    text = f"{code}\nprint('ready', flush=True)\nsys.stdin.readline()\n"
    with subprocess.Popen(
        [sys.executable, "-c", text, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield process.pid
        finally:
            process.kill()


def refused_elsewhere(root: Path, log: Path | str = "") -> str:
    """What another process is told when it opens a store; empty where it could."""
    done = subprocess.run(
        [sys.executable, "-c", OPENS + TRIES, str(root), str(log)],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return done.stdout.strip()


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path.relative_to(folder)): (path.lstat().st_size, path.lstat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
    }


def test_two_roots_over_one_commitlog(tmp_path: Path) -> None:
    """Two stores with one storePathCommitLog both opened: 100 acknowledged messages got 50 offsets, and 50 of them were lost."""
    log = tmp_path / "log"
    config: dict[str, Any] = {**STEPS, "store_path_commit_log": str(log)}
    with rmqcore.open(tmp_path / "one", **config) as store:
        acked = [put(store, number) for number in range(50)]
        with pytest.raises(StoreLockedError, match=re.escape(str(log))) as refused:
            rmqcore.open(tmp_path / "two", **config)
        assert f"in this process ({os.getpid()})" in str(refused.value)
        told = refused_elsewhere(tmp_path / "two", log)
        assert str(log) in told and f"process {os.getpid()}" in told
        assert not (tmp_path / "two").exists()
    assert all(acked)
    rmqcore.open(tmp_path / "two", **config).close()


@pytest.mark.parametrize("part", ["commitlog", "consumequeue", "index"])
@pytest.mark.parametrize("fresh", [True, False], ids=["made-while-open", "there-at-the-open"])
def test_a_part_that_is_a_link_into_an_open_store(tmp_path: Path, part: str, fresh: bool) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    if not fresh:
        with rmqcore.open(one, **STEPS) as store:
            put(store, 1)
    with rmqcore.open(one, **STEPS) as store:
        put(store, 2)
        drain(store)
        two.mkdir()
        (two / part).symlink_to(one / part)
        before = tree(tmp_path)
        with pytest.raises(StoreLockedError, match=re.escape(str(two / part))):
            rmqcore.open(two, **STEPS, follow_links=True)
        assert str(two / part) in refused_elsewhere(two)
        assert tree(tmp_path).keys() == before.keys()


def test_parts_that_are_links_to_a_disk_of_their_own(tmp_path: Path) -> None:
    """Both stores keep their queues on /ssd: that is fine, each has its own directory there."""
    stores = []
    for name in ("one", "two"):
        for part in ("consumequeue", "index", "commitlog"):
            (tmp_path / "ssd" / name / part).mkdir(parents=True)
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / part).symlink_to(tmp_path / "ssd" / name / part)
        stores.append(rmqcore.open(tmp_path / name, **STEPS, follow_links=True))
        put(stores[-1], 1)
    for store in stores:
        store.close()
    for name in ("one", "two"):
        assert os.listdir(tmp_path / "ssd" / name / "consumequeue")


def test_one_directory_for_two_parts_of_a_store(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    with pytest.raises(ValueError, match="are the same directory"):
        rmqcore.open(tmp_path / "store", **STEPS, store_path_commit_log=str(tmp_path / "store"))
    assert os.listdir(tmp_path / "store") == []


@pytest.mark.parametrize("part", ["consumequeue", "index", "consumequeue/t/0"])
def test_a_log_or_a_root_among_the_queues_of_a_store(tmp_path: Path, part: str) -> None:
    """A new store with its log in its own queues opened once and never again; in those of another it emptied files."""
    with pytest.raises(
        ValueError, match=f"new/{part} is inside .*, which is the .* of the store .*/new"
    ):
        rmqcore.open(tmp_path / "new", store_path_commit_log=str(tmp_path / "new" / part))
    assert not (tmp_path / "new").exists()
    (tmp_path / "link").symlink_to(tmp_path / "old" / part)
    with rmqcore.open(tmp_path / "old", **STEPS) as store:
        put(store, 3)
        store.wait_dispatched()
        for place in (tmp_path / "old" / part, tmp_path / "link"):
            for root, log in ((place, None), (tmp_path / "other", str(place))):
                with pytest.raises(ValueError, match=r"which is the .* of the store .*/old"):
                    rmqcore.open(root, **STEPS, store_path_commit_log=log)
    assert sorted(os.listdir(tmp_path)) == ["link", "old"]
    assert [one for one in fsck(tmp_path / "old").findings if one.severity == "error"] == []


def test_a_lock_file_that_is_replaced_lets_nobody_in(tmp_path: Path) -> None:
    """Somebody deletes "stale" lock files: the store that is open holds the root itself."""
    root = tmp_path / "store"
    with rmqcore.open(root, **STEPS):
        (root / "lock").unlink()
        with pytest.raises(StoreLockedError, match="in this process"):
            rmqcore.open(root, **STEPS)
        assert str(root) in refused_elsewhere(root)


def test_a_bind_mount(tmp_path: Path) -> None:
    """The directory has two names and no link says so."""
    one, two = tmp_path / "one", tmp_path / "two"
    rmqcore.open(one, **STEPS).close()
    (two / "commitlog").mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "--bind", str(one / "commitlog"), str(two / "commitlog")],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("this user cannot mount")
    try:
        with (
            rmqcore.open(one, **STEPS),
            pytest.raises(StoreLockedError, match=re.escape(str(two / "commitlog"))),
        ):
            rmqcore.open(two, **STEPS)
    finally:
        subprocess.run(["umount", str(two / "commitlog")], check=True)


def test_a_store_that_is_dropped_lets_go_of_all(tmp_path: Path) -> None:
    config: dict[str, Any] = {**STEPS, "store_path_commit_log": str(tmp_path / "log")}
    store = rmqcore.open(tmp_path / "one", **config)
    put(store, 1)
    del store
    gc.collect()
    rmqcore.open(tmp_path / "two", **config).close()


class SlowStep:
    """Lets the next dispatch of any store wait until it is told to go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        step = rmqcore.MessageStore.dispatch_once

        def slow(store: rmqcore.MessageStore) -> int:
            self.begun.set()
            self.go_on.wait(120)
            return step(store)

        monkeypatch.setattr(rmqcore.MessageStore, "dispatch_once", slow)


def test_a_store_that_is_dropped_in_the_middle_of_a_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`del store; rmqcore.open(...)` was refused 15 times of 40: a thread was dispatching the last put, and held the store."""
    slow = SlowStep(monkeypatch)
    assert rmqcore.opening.LONGEST_STEP >= 1
    monkeypatch.setattr("rmqcore.opening.LONGEST_STEP", 120)
    store = rmqcore.open(tmp_path, **TINY)
    put(store, 1)
    assert slow.begun.wait(120)
    del store
    # The open below waits at this moment; where it does not yet, it finds nothing to wait for.
    later = threading.Timer(0.2, slow.go_on.set)
    later.start()
    with rmqcore.open(tmp_path, **TINY) as again:
        assert again.max_phy_offset > 0
    later.join()


def test_a_store_that_is_in_the_middle_of_a_step_is_still_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = SlowStep(monkeypatch)
    monkeypatch.setattr("rmqcore.opening.LONGEST_STEP", 0.1)
    with rmqcore.open(tmp_path, **TINY) as store:
        put(store, 1)
        assert slow.begun.wait(120)
        with pytest.raises(StoreLockedError, match="in this process"):
            rmqcore.open(tmp_path, **TINY)
        slow.go_on.set()


def test_an_open_that_fails_lets_go_of_all(tmp_path: Path) -> None:
    root = tmp_path / "store"
    rmqcore.open(root, **STEPS).close()
    (root / "commitlog" / f"{0:020d}").write_bytes(b"short")
    (root / "index").mkdir(exist_ok=True)
    for _ in range(2):
        with pytest.raises(rmqcore.errors.StoreFormatError):
            rmqcore.open(root, **STEPS)
    for part in (root, root / "commitlog", root / "index"):
        DirectoryLock(part).acquire().release()


FORKS = (
    HOLDS
    + """
import os
child = os.fork()
if child == 0:
    assert not store._parts.locks.held
    print(os.getpid(), flush=True)
    sys.stdin.readline()
    os._exit(0)
os.wait()
"""
)


def test_a_forked_child_keeps_no_directory(tmp_path: Path) -> None:
    """A worker that outlives its parent, with views of its parent's store, does not keep others out."""
    root, log = tmp_path / "store", tmp_path / "log"
    with subprocess.Popen(
        [sys.executable, "-c", FORKS, str(root), str(log)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.kill()
        process.wait()
        assert Path(f"/proc/{child}").exists()
        assert refused_elsewhere(root, log) == ""
        assert refused_elsewhere(tmp_path / "other", log) == ""


def test_another_process_is_named_for_each_directory(tmp_path: Path) -> None:
    root, log = tmp_path / "one", tmp_path / "log"
    with other_process(HOLDS, root, log) as process:
        for other in (root, tmp_path / "two"):
            with pytest.raises(StoreLockedError, match=rf"in use by process {process}\b"):
                rmqcore.open(other, **STEPS, store_path_commit_log=str(log))
        assert not (tmp_path / "two").exists()
    with rmqcore.open(tmp_path / "two", **STEPS, store_path_commit_log=str(log)) as store:
        assert store.max_phy_offset > 0  # that process is dead


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells who has a file open")
def test_a_broker_with_another_root_on_our_log(tmp_path: Path) -> None:
    """Java locks its root only: it is seen by the file of the log that it has open for writing."""
    root, log = tmp_path / "store", tmp_path / "log"
    config: dict[str, Any] = {**STEPS, "store_path_commit_log": str(log)}
    with rmqcore.open(root, **config) as store:
        put(store, 1)
    with (
        other_process(HOLDS_AS_JAVA, tmp_path / "java", log) as process,
        pytest.raises(StoreLockedError, match=rf"log is in use by process {process}\b"),
    ):
        rmqcore.open(root, **config)
    rmqcore.open(root, **config).close()


def test_readers_and_views_do_not_keep_a_store_from_opening(tmp_path: Path) -> None:
    """A view keeps its file mapped and open for writing after the close; it writes nothing."""
    root = tmp_path / "store"
    with rmqcore.open(root, **STEPS) as store:
        answer = put(store, 1)
        assert answer is not None
        view = store.lookup(answer.phy_offset)
    with (root / "commitlog" / f"{0:020d}").open("r+b"), rmqcore.open(root, **STEPS):
        assert view is not None and view.body == answer.body


def test_a_file_system_without_such_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS refuses to lock a directory: the stores of one process are told apart all the same, a log elsewhere gets a warning."""

    def refuse(fd: int, kind: int) -> None:
        raise OSError(9, "Bad file descriptor")

    monkeypatch.setattr("fcntl.flock", refuse)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rmqcore.open(tmp_path / "plain", **STEPS).close()
    log = tmp_path / "log"
    locks = StoreLocks(StorePaths(tmp_path / "one", commitlog=log))
    with pytest.warns(RuntimeWarning, match=re.escape(f"{log}: its file system cannot lock")):
        locks.acquire(create=True)
    assert locks.held
    with pytest.raises(StoreLockedError, match=re.escape(str(log))):
        StoreLocks(StorePaths(tmp_path / "two", commitlog=log)).acquire(create=True)
    locks.release()
    check_directory(tmp_path / "plain", [])


# ---- interrupts -------------------------------------------------------------------------------------


STRIDE = dose("RMQCORE_LOCK_STRIDE", test=35, verify=7, night=1)


def interrupted(act: Any, at: int) -> bool:
    """Run `act` until its event number `at`; whether it came to that."""
    injector = Injector(at)
    with contextlib.suppress(Interrupted, TimedOut):
        injector.run(act)
    return bool(injector.place)


@pytest.mark.parametrize("there", [True, False], ids=["there", "new"])
def test_an_interrupt_anywhere_leaves_no_lock(tmp_path: Path, there: bool) -> None:
    """A descriptor that an interrupt loses keeps its lock until the process ends: no later open gets the directory."""
    paths = StorePaths(tmp_path / "root", commitlog=[tmp_path / "a", tmp_path / "b"])
    if there:
        for part in (*paths.commitlogs, paths.root, paths.index, paths.consumequeue):
            part.mkdir()
    at, more = 0, True
    while more:
        at += STRIDE
        locks = StoreLocks(paths)
        more = interrupted(lambda locks=locks: locks.acquire(create=True), at)
        locks.release()
        StoreLocks(paths).acquire(create=True).undo()
        if more and not there:
            for part in (paths.root, *paths.commitlogs):
                shutil.rmtree(part, ignore_errors=True)
    assert at > 300
    for step in ("release", "undo"):
        at, more = 0, True
        while more:
            at += 1
            locks = StoreLocks(paths).acquire(create=True)
            more = interrupted(getattr(locks, step), at)
            locks.release()
            StoreLocks(paths).acquire(create=True).undo()
        assert at > 50
