"""Directories and disks that cannot be written to; stores of another process, closed stores, stores after a fork."""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.doses import dose
from support.places import TESTS

import rmqcore
from rmqcore.engine.store.store import MessageStore
from rmqcore.errors import (
    NotAStoreError,
    StoreClosedError,
    StoreError,
    StoreFormatError,
    StoreLockedError,
)
from rmqcore.offline.fsck import fsck
from rmqcore.testing.crash_check import TINY, check_directory, drain, put

START = f"import sys; sys.path.insert(0, {str(TESTS)!r}); from rmqcore.testing.crash_check import *; from pathlib import Path\n"


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", START + program, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


# ---- a full disk ------------------------------------------------------------------------------------

FULL = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
root, limit, services = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "services"
config = {**TINY, "mapped_file_size_commit_log": 1 << 20, "mapped_file_size_consume_queue": 20 * 400}
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
acked, failed = [], None
try:
    with rmqcore.open(root, services=services, **config) as store:
        try:
            for number in range(3000):
                answer = put(store, number, queues=1, topics=1)
                if answer is None:  # its status says that no room could be made
                    failed = store.stats()["failed"]
                    break
                acked.append(answer)
                if number % 100 == 0 and not services:
                    store.dispatch_once()
                    store.flush_consume_queues()
        except rmqcore.errors.StoreFailedError as error:
            failed = error
        assert store.failed or len(acked) == 3000
        for answer in acked:
            assert store.lookup(answer.phy_offset).body == answer.body
except (rmqcore.errors.StoreError, OSError) as error:
    failed = error
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
check_directory(root, acked, config)
print(len(acked), type(failed).__name__)
"""


@pytest.mark.parametrize("services", ["services", "steps"])
@pytest.mark.parametrize(
    ("limit", "least"),
    [
        (0, 0),  # not even the lock file
        (100, 0),  # no CommitLog file
        (4096, 0),
        (1 << 19, 0),
        (1 << 20, 0),  # CommitLog files fit
    ],
)
def test_files_cannot_grow(tmp_path: Path, limit: int, least: int, services: str) -> None:
    """RLIMIT_FSIZE: what a full disk or a quota looks like, for any user on any system."""
    done = run(FULL, str(tmp_path / "store"), str(limit), services)
    assert done.returncode == 0, done.stdout + done.stderr
    count, error = done.stdout.split()
    assert int(count) >= least
    assert (int(count) == 3000) == (error == "NoneType")


FEW_FILES = """
import resource
root = Path(sys.argv[1])
acked, failed = [], None
try:
    with rmqcore.open(root, services=False, **TINY) as store:
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) + int(sys.argv[2]), 4096))
        try:
            for number in range(300):
                answer = put(store, number, topics=10, queues=10)
                if answer is None:
                    break
                acked.append(answer)
                drain(store)
        except rmqcore.errors.StoreError as error:
            failed = error
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
except (rmqcore.errors.StoreError, OSError) as error:
    failed = error
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
check_directory(root, acked)
print(len(acked), type(failed).__name__)
"""


@pytest.mark.parametrize("room", [0, 1, 2, 5])
def test_descriptors_run_out(tmp_path: Path, room: int) -> None:
    done = run("import os\n" + FEW_FILES, str(tmp_path / "store"), str(room))
    assert done.returncode == 0, done.stdout + done.stderr


# ---- directories ------------------------------------------------------------------------------------


@pytest.fixture
def store_folder(tmp_path: Path) -> Path:
    """A small store, closed."""
    root = tmp_path / "store"
    with rmqcore.open(root, services=False, **TINY) as store:
        for number in range(50):
            put(store, number)
        drain(store)
    return root


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        rmqcore.open(tmp_path / "file" / "store")


def test_a_path_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("")
    with pytest.raises((OSError, StoreError)):
        rmqcore.open(tmp_path / "store")
    assert (tmp_path / "store").read_text() == ""


def test_nothing_there_and_nothing_to_be_made(tmp_path: Path) -> None:
    with pytest.raises(NotAStoreError):
        rmqcore.open(tmp_path / "store", create=False)
    assert not (tmp_path / "store").exists()


READ_ONLY = """
import os
opening = rmqcore.open  # what it imports may not be readable later
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
root = sys.argv[1]
assert not os.access(root, os.W_OK), "this user may write all the same"
try:
    opening(root, **TINY)
except (OSError, rmqcore.errors.StoreError) as error:
    print(type(error).__name__, error)
else:
    raise SystemExit("it was opened")
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.mark.parametrize("existing", [True, False])
def test_a_read_only_directory(store_folder: Path, open_folder: Path, existing: bool) -> None:
    """Modes mean nothing to root, so a test that runs as root becomes another user for this."""
    root = open_folder / "store"
    shutil.copytree(store_folder, root) if existing else root.mkdir()
    paths = [root, *root.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = {path: path.stat().st_mtime_ns for path in paths}
    done = run(READ_ONLY, str(root))
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} | {
        root: root.stat().st_mtime_ns
    } == before
    for path in paths:
        path.chmod(0o755 if path.is_dir() else 0o644)
    assert done.returncode == 0, done.stdout + done.stderr
    assert str(root) in done.stdout


def test_a_file_of_another_size(store_folder: Path) -> None:
    first = min((store_folder / "commitlog").iterdir())
    os.truncate(first, first.stat().st_size - 1)
    with pytest.raises(StoreFormatError, match=first.name):
        rmqcore.open(store_folder, **TINY)
    os.truncate(first, first.stat().st_size + 1)
    rmqcore.open(store_folder, **TINY).close()  # the lock was let go of


def test_other_sizes_configured(store_folder: Path) -> None:
    with pytest.raises(StoreFormatError, match="file size"):
        rmqcore.open(store_folder, **{**TINY, "mapped_file_size_commit_log": 32 * 1024})
    with pytest.raises(StoreFormatError, match="file size"):
        rmqcore.open(store_folder, **{**TINY, "mapped_file_size_consume_queue": 20 * 17})


# ---- two writers ------------------------------------------------------------------------------------


def test_two_stores_of_one_process(store_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(store_folder)
    with rmqcore.open(store_folder, **TINY) as store:
        for path in (store_folder, tmp_path / "link", store_folder / ".." / store_folder.name):
            with pytest.raises(StoreLockedError, match=str(os.getpid())):
                rmqcore.open(path, **TINY)
        put(store, 100)
    rmqcore.open(store_folder, **TINY).close()


SECOND = """
try:
    rmqcore.open(sys.argv[1], **TINY)
except rmqcore.errors.StoreLockedError as error:
    print(error)
"""


def test_two_processes(store_folder: Path) -> None:
    with rmqcore.open(store_folder, **TINY) as store:
        before = fsck(store_folder).exit_code
        done = run(SECOND, str(store_folder))
        assert done.returncode == 0, done.stderr
        assert str(os.getpid()) in done.stdout and str(store_folder) in done.stdout
        put(store, 100)
        assert store.wait_dispatched(60)
        assert fsck(store_folder).exit_code == before
        assert (store_folder / "abort").exists()
    assert run(SECOND, str(store_folder)).stdout == ""


# ---- after close ------------------------------------------------------------------------------------

USES: dict[str, Callable[[MessageStore], object]] = {
    "put": lambda store: put(store, 1),
    "put_batch": lambda store: store.put_batch([rmqcore.Message("T", b"x")]),
    "put_many": lambda store: store.put_many([rmqcore.Message("T", b"x")]),
    "get": lambda store: store.get("T0", 0, 0),
    "query": lambda store: store.query("T0", "K0"),
    "lookup": lambda store: store.lookup(0),
    "lookup_id": lambda store: store.lookup_id("0" * 32),
    "offset_by_time": lambda store: store.offset_by_time("T0", 0, 0),
    "phy_offset_of": lambda store: store.phy_offset_of("T0", 0, 0),
    "min_offset": lambda store: store.min_offset("T0", 0),
    "max_offset": lambda store: store.max_offset("T0", 0),
    "topics": lambda store: store.topics(),
    "queues": lambda store: store.queues(),
    "dispatch_once": lambda store: store.dispatch_once(),
    "flush": lambda store: store.flush(),
    "flush_consume_queues": lambda store: store.flush_consume_queues(),
    "write_checkpoint": lambda store: store.write_checkpoint(),
    "prepare_space": lambda store: store.prepare_space(),
    "wait_dispatched": lambda store: store.wait_dispatched(1),
    "min_phy_offset": lambda store: store.min_phy_offset,
    "max_phy_offset": lambda store: store.max_phy_offset,
    "flushed_phy_offset": lambda store: store.flushed_phy_offset,
    "confirm_offset": lambda store: store.confirm_offset,
    "dispatch_behind_bytes": lambda store: store.dispatch_behind_bytes,
    "stats": lambda store: store.stats(),
    "repr": repr,
}
HARMLESS = {
    "min_phy_offset",
    "max_phy_offset",
    "flushed_phy_offset",
    "confirm_offset",
    "dispatch_behind_bytes",
    "stats",
    "repr",
}
"""These may answer with the last numbers."""


@pytest.mark.parametrize("services", [True, False])
def test_use_after_close(store_folder: Path, services: bool) -> None:
    store = rmqcore.open(store_folder, services=services, **TINY)
    view = store.lookup(0)
    result = store.get("T0", 0, 0)
    store.close()
    for name, use in USES.items():
        if name in HARMLESS:
            use(store)
        else:
            with pytest.raises(StoreClosedError, match=re.escape(str(store_folder))):
                use(store)
    store.close()
    assert view is not None and view.body.startswith(b"0:")  # a view keeps what it looks at
    assert result.messages[0].body.startswith(b"0:")
    result.release()
    assert fsck(store_folder).exit_code == 0


def test_a_store_that_is_dropped_is_closed_as_a_crash_would(tmp_path: Path) -> None:
    """Without `close()` nothing is promised but that the next open recovers; the lock must not be kept."""
    root = tmp_path / "store"
    store = rmqcore.open(root, services=False, **TINY)
    acked = [answer for number in range(20) if (answer := put(store, number))]
    del store
    gc.collect()
    check_directory(root, acked)


# ---- after fork -------------------------------------------------------------------------------------

FORKS = dose("RMQCORE_FORKS", test=2, verify=8, night=50)
"""Of a store that threads put into; every second one ends without Python's own end."""

FORKED = """
import os, threading, time
sys.path.insert(0, str(Path(sys.argv[2]).parent))
from test_bad_places import HARMLESS, USES
root = Path(sys.argv[1])
services = sys.argv[3] == "services"
store = rmqcore.open(root, services=services, **{**TINY, "flush_disk_type": sys.argv[4]})
acked = [put(store, number) for number in range(20)]
if services:
    assert store.wait_dispatched(60)
else:
    drain(store)
view, result = store.lookup(acked[0].phy_offset), store.get("T0", 0, 0)
busy = True
def work(number):
    while busy:
        acked.append(put(store, number))
        number += 1
        time.sleep(0.001)  # its pace: the store stays small
threads = [threading.Thread(target=work, args=(first,)) for first in (1000, 1_000_000)]
for thread in threads:
    thread.start()
parent = os.getpid()
for round in range(int(sys.argv[5])):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            for name, use in USES.items():
                if name in HARMLESS and name != "stats":
                    continue
                try:
                    use(store)
                    print("no error from", name, flush=True)
                except rmqcore.errors.StoreClosedError as error:
                    assert str(parent) in str(error), error
            store.close()
            store.close()
            assert view.body == acked[0].body
            try:
                rmqcore.open(root, **TINY)
                print("opened in the child", flush=True)
            except rmqcore.errors.StoreLockedError:
                pass
            del store, view, result
            other = rmqcore.open(str(root) + f"-{os.getpid()}", **TINY)  # a store of its own is fine
            assert put(other, 1)
            other.close()
            code = 0
        finally:
            sys.stdout.flush()
            if round % 2:
                os._exit(code)
            sys.exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
busy = False
for thread in threads:
    thread.join()
assert (root / "abort").exists()
store.close()
assert not (root / "abort").exists()
check_directory(root, acked)
print("fine", len(acked))
"""


@pytest.mark.parametrize("mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("services", ["services", "steps"])
def test_use_after_fork(folder: Path, services: str, mode: str) -> None:
    done = run(FORKED, str(folder / "store"), __file__, services, mode, str(FORKS))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("fine"), done.stdout
