"""The lock file: against another process, against a second open in this one, after a fork, and against Java's kind of lock."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rmqcore.disk.locks.lock import StoreLock
from rmqcore.errors import StoreLockedError

HOLDS = "from rmqcore.disk.locks.lock import StoreLock; import sys; lock = StoreLock(sys.argv[1]).acquire()"
HOLDS_AS_JAVA = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
"""


@contextmanager
def other_process(code: str, path: Path) -> Iterator[int]:
    """Another process that has run `code` and waits; answers its id."""
    text = f"{textwrap.dedent(code)}\nprint('ready', flush=True)\ninput()\n"
    with subprocess.Popen(
        [sys.executable, "-c", text, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield process.pid
        finally:
            process.kill()


def java_gets_it(path: Path) -> bool:
    """Whether another process can take the kind of lock that Java takes."""
    code = HOLDS_AS_JAVA + "\nprint('got it')"
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, check=False, timeout=60
    )
    return b"got it" in done.stdout


def test_the_text_is_javas(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with StoreLock(path) as lock:
        assert lock.held
        assert path.read_bytes() == b"lock"
    assert not lock.held
    path.write_bytes(b"lo")
    with StoreLock(path):
        assert path.read_bytes() == b"lock"


def test_a_file_that_was_made_for_something_else_keeps_its_text(tmp_path: Path) -> None:
    """Any open emptied a file that bore the name, and wrote "lock" into it."""
    path = tmp_path / "lock"
    path.write_bytes(b"something longer")
    with StoreLock(path) as lock:
        assert lock.held and not java_gets_it(path)
    assert path.read_bytes() == b"something longer"


def test_a_second_open_in_this_process_is_refused_and_takes_nothing_away(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with StoreLock(path):
        for other in (path, tmp_path / "." / "lock", _link(tmp_path) / "lock"):
            with pytest.raises(StoreLockedError, match="already open in this process"):
                StoreLock(other).acquire()
        assert not java_gets_it(path)
    assert java_gets_it(path)
    StoreLock(path).acquire().release()


def _link(folder: Path) -> Path:
    link = folder / "link"
    if not link.exists():
        link.symlink_to(folder, target_is_directory=True)
    return link


@pytest.mark.skipif(sys.platform != "linux", reason="locks of open file descriptions")
def test_whoever_closes_a_copy_of_the_file_does_not_let_the_lock_go(tmp_path: Path) -> None:
    """shutil.copytree of a live store, in the process that has it open, opens and closes its lock file."""
    path = tmp_path / "store" / "lock"
    path.parent.mkdir()
    with StoreLock(path):
        shutil.copytree(path.parent, tmp_path / "copy")
        path.read_bytes()
        assert not java_gets_it(path)


@pytest.mark.parametrize("code", [HOLDS, HOLDS_AS_JAVA], ids=["ours", "java"])
def test_another_process_is_named(tmp_path: Path, code: str) -> None:
    path = tmp_path / "lock"
    with other_process(code, path) as process:
        with pytest.raises(StoreLockedError, match=rf"in use by process {process}\b"):
            StoreLock(path).acquire()
        assert not java_gets_it(path)
    with StoreLock(path) as lock:  # the other process is dead
        assert lock.held


def test_java_is_kept_out(tmp_path: Path) -> None:
    with StoreLock(tmp_path / "lock") as lock:
        assert not java_gets_it(tmp_path / "lock")
        lock.release()
        assert java_gets_it(tmp_path / "lock")


def test_a_failed_attempt_leaves_the_directory_free(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with other_process(HOLDS_AS_JAVA, path), pytest.raises(StoreLockedError):
        StoreLock(path).acquire()
    StoreLock(path).acquire().release()


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        StoreLock(tmp_path / "none" / "lock").acquire()


def test_release_twice(tmp_path: Path) -> None:
    lock = StoreLock(tmp_path / "lock").acquire()
    lock.release()
    with StoreLock(tmp_path / "lock"):
        lock.release()
        assert not java_gets_it(tmp_path / "lock")


def test_a_forked_child_has_no_lock_and_keeps_none(tmp_path: Path) -> None:
    """A worker that outlives its parent must not keep the store locked."""
    path = tmp_path / "lock"
    code = f"""
import os, sys
{HOLDS}
if os.fork() == 0:
    assert not lock.held
    lock.release()
    print("ready", flush=True)
    sys.stdin.readline()
    os._exit(0)
sys.stdin.readline()
os._exit(0)
"""
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as parent:
        assert parent.stdout is not None and parent.stdin is not None
        assert parent.stdout.readline() == b"ready\n"
        with pytest.raises(StoreLockedError, match=f"process {parent.pid}"):
            StoreLock(path).acquire()
        parent.kill()
        parent.wait()
        with StoreLock(path) as lock:  # the child still runs
            assert lock.held
        parent.stdin.close()


def test_only_one_of_many_threads_gets_it(tmp_path: Path) -> None:
    got: list[StoreLock] = []
    refused: list[StoreLockedError] = []

    def attempt() -> None:
        try:
            got.append(StoreLock(tmp_path / "lock").acquire())
        except StoreLockedError as error:
            refused.append(error)

    threads = [threading.Thread(target=attempt) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(got), len(refused)) == (1, 7)
    got[0].release()


def test_descriptors_do_not_leak(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    StoreLock(path).acquire().release()
    probe = os.open(path, os.O_RDWR)
    os.close(probe)
    with other_process(HOLDS_AS_JAVA, path):
        for _ in range(20):
            with pytest.raises(StoreLockedError):
                StoreLock(path).acquire()
    for _ in range(20):
        StoreLock(path).acquire().release()
    again = os.open(path, os.O_RDWR)
    os.close(again)
    assert again <= probe + 1
