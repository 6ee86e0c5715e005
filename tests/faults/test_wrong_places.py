"""Roots and parts of a store that are no directory, or lie where nothing can be written.

Each is an error with path and cause, and nothing is changed: not even a directory is left behind.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore.cli.app import run
from rmqcore.errors import NotAStoreError, StoreError
from rmqcore.offline.fsck import fsck
from rmqcore.testing.crash_check import TINY, drain, put

STEPS: dict[str, Any] = {**TINY, "services": False}


def make_file(path: Path) -> None:
    path.write_text("mine")


def make_socket(path: Path) -> None:
    here = os.open(".", os.O_RDONLY)
    os.chdir(path.parent)  # the whole path may be longer than a socket's name can be
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.fchdir(here)
        os.close(here)


def make_dangling_link(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


def make_loop(path: Path) -> None:
    path.symlink_to(path)


KINDS: dict[str, tuple[Callable[[Path], None], str]] = {
    "file": (make_file, "a file, expected a directory"),
    "socket": (make_socket, "a socket, expected a directory"),
    "fifo": (os.mkfifo, "a FIFO, expected a directory"),
    "dangling": (make_dangling_link, "a link to .*nowhere, which does not exist"),
    "loop": (make_loop, "Too many levels of symbolic links|Symlink loop|a link to"),
}
PARTS = ("root", "commitlog", "consumequeue", "index")


def tree(folder: Path) -> list[tuple[str, int, int]]:
    """Every name with its mode and size; times of files too."""
    return [
        (str(path.relative_to(folder)), path.lstat().st_mode, path.lstat().st_size)
        for path in sorted(folder.rglob("*"))
    ]


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    """A small store, closed."""
    root = tmp_path / "sound"
    with rmqcore.open(root, **STEPS) as store:
        for number in range(30):
            put(store, number)
        drain(store)
    return root


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("new", [True, False], ids=["new", "there"])
def test_a_part_that_is_no_directory(sound: Path, part: str, kind: str, new: bool) -> None:
    make, why = KINDS[kind]
    root = sound.parent / "store"
    if not new:
        shutil.copytree(sound, root)
    elif part != "root":
        root.mkdir()
    place = root if part == "root" else root / part
    if place.is_dir():
        shutil.rmtree(place)
    make(place)
    before = tree(sound.parent)
    with pytest.raises((OSError, StoreError), match=why) as refused:
        rmqcore.open(root, **STEPS)
    assert str(place) in str(refused.value)
    assert isinstance(refused.value, OSError) and refused.value.errno is not None
    assert tree(sound.parent) == before
    with pytest.raises((OSError, StoreError), match=re.escape(str(root))):
        rmqcore.open(root, create=False, **STEPS)
    assert tree(sound.parent) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_elsewhere_that_is_no_directory(tmp_path: Path, kind: str) -> None:
    make, why = KINDS[kind]
    make(tmp_path / "log")
    before = tree(tmp_path)
    for log in (tmp_path / "log", f"{tmp_path / 'other'},{tmp_path / 'log'}"):
        with pytest.raises(OSError, match=why) as refused:
            rmqcore.open(tmp_path / "new" / "store", **STEPS, store_path_commit_log=str(log))
        assert str(tmp_path / "log") in str(refused.value)
        assert tree(tmp_path) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_the_log_that_is_no_file(sound: Path, kind: str) -> None:
    """A FIFO that bears the newest file's name was taken for an empty file, and deleted."""
    make, _ = KINDS[kind]
    names = sorted(os.listdir(sound / "commitlog"))
    place = sound / "commitlog" / f"{int(names[-1]) + TINY['mapped_file_size_commit_log']:020d}"
    make(place)
    before = tree(sound)
    with pytest.raises((OSError, StoreError), match=place.name):
        rmqcore.open(sound, **STEPS)
    assert tree(sound) == before


NO_FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "fifo": (os.mkfifo, "a FIFO, expected a file"),
    "socket": (make_socket, "a socket, expected a file"),
    "device": (lambda path: path.symlink_to("/dev/null"), "a link to /dev/null"),
    "directory": (os.mkdir, "a directory, expected a file"),
}


@pytest.mark.parametrize("kind", NO_FILES)
@pytest.mark.parametrize("name", ["lock", "checkpoint", "abort"])
def test_a_small_file_that_is_no_file(sound: Path, name: str, kind: str) -> None:
    """An open waited for ever for a FIFO `checkpoint`, deleted such a `lock`, and failed late over a directory `abort`."""
    make, why = NO_FILES[kind]
    (sound / name).unlink(missing_ok=True)
    make(sound / name)
    before = tree(sound)
    with pytest.raises((OSError, StoreError), match=why) as refused:
        rmqcore.open(sound, **STEPS)
    assert str(sound / name) in str(refused.value)
    assert tree(sound) == before
    errors = {finding.kind for finding in fsck(sound).findings if finding.severity == "error"}
    beside = kind == "directory" and name == "checkpoint"
    assert errors == {"checkpoint" if beside else "file_kind"}


@pytest.mark.parametrize("name", ["abort", "checkpoint"])
@pytest.mark.parametrize("kind", ["fifo", "socket", "device", "dangling", "loop"])
def test_what_lies_where_a_small_file_is_prepared_goes(sound: Path, name: str, kind: str) -> None:
    """An open waited for ever for a reader of a FIFO `.abort.tmp`, and would have written through a link."""
    make = {**KINDS, **NO_FILES}[kind][0]
    make(sound / f".{name}.tmp")
    (sound / "checkpoint").unlink()
    with rmqcore.open(sound, **STEPS) as store:
        put(store, 30)
        drain(store)
    assert not (sound / "nowhere").exists()
    assert not os.path.lexists(sound / f".{name}.tmp")
    assert fsck(sound).exit_code == 0


@pytest.mark.parametrize("path", ["", "a\0b", b"store", 7, None])
def test_paths_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: Any) -> None:
    """An empty path made the working directory a store."""
    monkeypatch.chdir(tmp_path)
    for use in (rmqcore.open, rmqcore.read, fsck):
        with pytest.raises((TypeError, ValueError), match=r"path|NUL|PathLike"):
            use(path)
    if isinstance(path, str):
        for command in ("info", "fsck", "recover", "rebuild"):
            assert run([command, path]) != 0
    assert os.listdir(tmp_path) == []


def test_a_path_object(tmp_path: Path) -> None:
    class Named:
        def __fspath__(self) -> str:
            return str(tmp_path / "store")

    rmqcore.open(Named(), **STEPS).close()
    assert rmqcore.read(Named()).paths.root == tmp_path / "store"


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"File name too long.*xxx"):
        rmqcore.open(tmp_path / "new" / ("x" * 300), **STEPS)
    assert os.listdir(tmp_path) == []


def test_an_open_that_fails_after_it_made_directories(tmp_path: Path) -> None:
    """The last directory of the log cannot be made: those before it go away again."""
    (tmp_path / "file").write_text("")
    logs = f"{tmp_path / 'a' / 'b'},{tmp_path / 'file' / 'c'}"
    for _ in range(2):
        with pytest.raises(NotADirectoryError, match=re.escape(str(tmp_path / "file"))):
            rmqcore.open(tmp_path / "new" / "store", **STEPS, store_path_commit_log=logs)
        assert os.listdir(tmp_path) == ["file"]


def test_nothing_is_made_where_nothing_may_be_made(tmp_path: Path) -> None:
    for root in (tmp_path / "none", tmp_path):
        with pytest.raises(NotAStoreError, match=re.escape(str(root))):
            rmqcore.open(root, create=False, **STEPS)
    assert os.listdir(tmp_path) == []


# ---- disks ------------------------------------------------------------------------------------------


@pytest.fixture
def mounts() -> Iterator[Callable[..., None]]:
    """Mounts a small file system of its own; unmounted after the test."""
    mounted: list[Path] = []

    def mount(place: Path, *options: str) -> None:
        place.mkdir(exist_ok=True)
        words = ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(place)]
        if subprocess.run(words, capture_output=True, check=False).returncode:
            pytest.skip("this user cannot mount")
        mounted.append(place)

    yield mount
    for place in reversed(mounted):
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("existing", [True, False])
def test_a_read_only_disk(
    sound: Path, tmp_path: Path, mounts: Callable[..., None], existing: bool
) -> None:
    disk = tmp_path / "disk"
    mounts(disk, "size=16m")
    if existing:
        shutil.copytree(sound, disk / "store")
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    before = tree(disk)
    with pytest.raises(OSError, match=re.escape(str(disk / "store"))) as refused:
        rmqcore.open(disk / "store", **STEPS)
    assert refused.value.errno == errno.EROFS
    assert tree(disk) == before
    with pytest.raises(OSError, match=re.escape(str(disk / "store"))):
        rmqcore.open(tmp_path / "root", **STEPS, store_path_commit_log=str(disk / "store" / "x"))
    assert not (tmp_path / "root").exists()
    if existing:
        assert len(list(rmqcore.read(disk / "store").messages())) == 30
        assert fsck(disk / "store").exit_code == 0


@pytest.mark.parametrize("inodes", range(3, 9))
def test_a_disk_without_room_for_another_file(
    tmp_path: Path, mounts: Callable[..., None], inodes: int
) -> None:
    """Each step of an open in turn finds no room: what it had made before is gone again."""
    disk = tmp_path / "disk"
    mounts(disk, "size=64k", f"nr_inodes={inodes}")
    (disk / "mine").write_text("")
    before = tree(disk)
    store, refused = None, OSError()
    try:
        store = rmqcore.open(disk / "store", **STEPS)
    except OSError as error:
        refused = error
    if store is None:
        assert refused.errno == errno.ENOSPC
        assert str(disk / "store") in str(refused)
        assert tree(disk) == before
    else:
        with contextlib.suppress(
            StoreError
        ):  # there was room for an open, and may be none for a clean end
            store.close()


def test_a_disk_without_room_for_another_byte(tmp_path: Path, mounts: Callable[..., None]) -> None:
    disk = tmp_path / "disk"
    mounts(disk, "size=64k")
    with contextlib.suppress(OSError), (disk / "mine").open("wb", 0) as file:
        while True:
            file.write(bytes(4096))
    before = tree(disk)
    with pytest.raises(OSError, match=re.escape(str(disk / "store"))) as refused:
        rmqcore.open(disk / "store", **STEPS)
    assert refused.value.errno == errno.ENOSPC
    assert tree(disk) == before


OTHER_USER = """
import os, sys
import rmqcore
opening = rmqcore.open  # what it imports may not be readable later
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
for path, log in zip(sys.argv[1::2], sys.argv[2::2]):
    try:
        opening(path, services=False, store_path_commit_log=log or None)
    except PermissionError as error:
        print(error)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_store_of_another_user(sound: Path, tmp_path: Path) -> None:
    """Modes mean nothing to root, so the test becomes nobody."""
    open_to_all = Path("/tmp" if os.access("/tmp", os.W_OK) else "/var/tmp")
    place = open_to_all / f"rmqcore-{os.getpid()}-other-user"
    place.mkdir(mode=0o755)
    try:
        root, closed = place / "store", place / "closed"
        shutil.copytree(sound, root)
        shutil.copytree(sound, closed)
        closed.chmod(0o700)
        free = place / "free"
        free.mkdir()
        free.chmod(0o777)
        before = tree(place)
        words = [
            str(root),
            "",
            str(closed),
            "",
            str(place / "new"),
            "",
            str(free / "s"),
            str(root / "x"),
        ]
        done = subprocess.run(
            [sys.executable, "-c", OTHER_USER, *words],
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        lines = done.stdout.splitlines()
        assert len(lines) == 4, done.stdout + done.stderr
        for line, named in zip(lines, (root, closed, place / "new", root / "x"), strict=True):
            assert "Permission denied" in line and str(named) in line
        assert tree(place) == before
    finally:
        shutil.rmtree(place)
