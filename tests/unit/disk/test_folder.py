"""`Folder`: what lies below an open directory is reached name by name, and no name of it leads out."""

from __future__ import annotations

import errno
import os
import re
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import rmqcore
from rmqcore.cli import main
from rmqcore.disk.inside import opened
from rmqcore.disk.inside.files import check_is_file, open_file, rename, unlink
from rmqcore.disk.inside.folder import MOST_DEEP, Folder, open_target, remove_made
from rmqcore.errors import LinkError, StoreError, StoreFormatError, SyncFailedError

CALLS: dict[str, Callable[[Folder, str], object]] = {
    "folder": lambda folder, place: folder.folder(place),
    "make": lambda folder, place: folder.make(place, exist_ok=True),
    "open": lambda folder, place: folder.open_file(place, os.O_RDWR | os.O_CREAT),
    "read": lambda folder, place: folder.read(place),
}
BELOW: dict[str, Callable[[Folder, str], object]] = {
    **CALLS,
    "write": lambda folder, place: folder.write(place, b"ours"),
    "move": lambda folder, place: folder.move("mine", place),
    "move away": lambda folder, place: folder.move(place, "elsewhere"),
    "unlink": lambda folder, place: folder.delete(place),
    "remove": lambda folder, place: folder.remove(place),
    "remove_empty": lambda folder, place: folder.remove_empty(place),
    "take": lambda folder, place: folder.take(folder.path / "mine", place),
    "status": lambda folder, place: folder.status(place),
    "is_folder": lambda folder, place: folder.is_folder(place),
}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A folder with a file and two links out of it: one to a folder, one to a file."""
    (tmp_path / "inside").mkdir()
    (tmp_path / "outside" / "deep").mkdir(parents=True)
    (tmp_path / "outside" / "file").write_bytes(b"theirs")
    (tmp_path / "inside" / "mine").write_bytes(b"mine")
    (tmp_path / "inside" / "link").symlink_to("../outside")
    (tmp_path / "inside" / "file").symlink_to(tmp_path / "outside" / "file")
    (tmp_path / "inside" / "dangling").symlink_to(tmp_path / "outside" / "new")
    return Folder(tmp_path / "inside")


def outside(folder: Folder) -> dict[str, bytes]:
    top = folder.path.parent / "outside"
    return {
        str(path.relative_to(top)): path.read_bytes() if path.is_file() else b""
        for path in sorted(top.rglob("*"))
    }


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("place", ["link", "file", "dangling"])
def test_a_link_is_an_error_that_says_where_it_leads(folder: Folder, call: str, place: str) -> None:
    before = outside(folder)
    with pytest.raises(LinkError) as refused:
        CALLS[call](folder, place)
    text = str(refused.value)
    assert text.startswith(f"{folder.path / place}: a link to ")
    assert (", which does not exist" in text) == (place == "dangling")
    assert refused.value.errno == errno.ELOOP
    assert outside(folder) == before


@pytest.mark.parametrize("call", BELOW)
@pytest.mark.parametrize("name", ["file", "deep", "new"])
def test_a_link_on_the_way_is_not_followed(folder: Folder, call: str, name: str) -> None:
    before = outside(folder)
    with pytest.raises(LinkError, match="inside/link: a link to"):
        BELOW[call](folder, f"link/{name}")
    assert outside(folder) == before


@pytest.mark.parametrize("call", BELOW)
@pytest.mark.parametrize(
    "place", ["../outside/file", "/etc/hostname", "a/../../outside", "", ".", "..", "a//b", "a\0b"]
)
def test_a_place_that_leads_out_is_none(folder: Folder, call: str, place: str) -> None:
    before = outside(folder)
    with pytest.raises(StoreFormatError, match="is not a path inside a directory"):
        BELOW[call](folder, place)
    assert outside(folder) == before


def test_links_go_themselves(folder: Folder) -> None:
    before = outside(folder)
    (folder.path / "tree" / "deep").mkdir(parents=True)
    (folder.path / "tree" / "deep" / "link").symlink_to(folder.path.parent / "outside")
    folder.write("file", b"ours")
    folder.move("mine", "dangling")
    for place in ("tree", "link", "never there"):
        folder.remove(place)
    assert folder.names() == ["dangling", "file"]
    assert folder.read("file") == b"ours"
    assert outside(folder) == before


def test_the_directory_stays_the_one_that_was_opened(folder: Folder) -> None:
    folder.path.rename(folder.path.with_name("renamed"))
    folder.path.symlink_to(folder.path.with_name("outside"))
    folder.write("new", b"ours")
    assert (folder.path.with_name("renamed") / "new").read_bytes() == b"ours"
    assert "new" not in outside(folder)


def make_socket(path: Path) -> None:
    here = os.open(".", os.O_RDONLY)
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.fchdir(here)
        os.close(here)


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY, os.O_RDWR | os.O_CREAT])
@pytest.mark.parametrize(("kind", "make"), [("a FIFO", os.mkfifo), ("a socket", make_socket)])
def test_what_is_no_file_is_not_opened(
    folder: Folder, kind: str, make: Callable[[Path], None], flags: int
) -> None:
    make(folder.path / "odd")
    for call in (folder.open_file, lambda name, how: open_file(folder.path / name, how)):
        with pytest.raises(StoreFormatError, match=f"odd: {kind}, expected a file"):
            call("odd", flags)
    with pytest.raises(StoreFormatError, match=kind):
        check_is_file(folder.path / "odd")


def test_directories_and_files_in_each_others_place(folder: Folder) -> None:
    folder.make("a/b", exist_ok=True)
    for call in (folder.read, lambda name: open_file(folder.path / name, os.O_RDONLY)):
        with pytest.raises(IsADirectoryError, match="inside/a"):
            call("a")
    with pytest.raises(NotADirectoryError, match=r"a file, expected a directory.*inside/mine"):
        folder.folder("mine")
    with pytest.raises(FileNotFoundError, match="inside/none"):
        folder.make("none/x")


def test_a_write_keeps_the_one_before_under_another_name(folder: Folder) -> None:
    folder.write("new", b"one", backup="new.bak")
    assert folder.names().count("new.bak") == 0
    folder.write("new", b"two", backup="new.bak")
    folder.write("new", b"three", backup="new.bak")
    assert (folder.read("new"), folder.read("new.bak")) == (b"three", b"two")


def test_a_crash_between_the_two_steps_leaves_the_one_before(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both renames follow each other; the new file is whole, under its working name, before the old one is moved."""
    folder.write("new", b"one")
    moved: list[str] = []
    replace = os.replace

    def crash(source: str, target: str, **folders: int) -> None:
        if target == "new":
            raise KeyboardInterrupt
        moved.append((folder.path / ".new.tmp").read_text())
        replace(source, target, **folders)

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        folder.write("new", b"two", backup="new.bak")
    assert moved == ["two"]
    assert (folder.path / "new.bak").read_text() == "one"


def test_a_write_leaves_the_old_file_or_the_new(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder.path / ".mine.tmp").symlink_to(folder.path.parent / "outside" / "file")

    def full(fd: int, data: object, pos: int) -> int:
        raise OSError(errno.ENOSPC, "full")

    before = outside(folder)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(OSError, match="inside/mine"):
            folder.write("mine", b"new")
    assert folder.read("mine") == b"mine"
    assert ".mine.tmp" not in folder.names()
    folder.write("mine", b"new")
    assert folder.read("mine") == b"new"
    assert outside(folder) == before


def test_a_tree_that_is_too_deep_is_left(tmp_path: Path) -> None:
    """No stack and no descriptor table is large enough for what somebody may nest."""
    place = "/".join(["d"] * (MOST_DEEP + 3))
    (tmp_path / place).mkdir(parents=True)
    with pytest.raises(StoreError, match="nested directories"):
        Folder(tmp_path).remove("d")


def test_a_folder_of_the_store_and_one_of_the_callers(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "disk").mkdir()
    for name in ("store/rebuilt", "mine"):
        (tmp_path / name).symlink_to(tmp_path / "disk")
    with pytest.raises(LinkError):
        open_target(tmp_path / "store" / "rebuilt", tmp_path / "store")
    assert open_target(tmp_path / "mine", tmp_path / "store").names() == []
    open_target(tmp_path / "store" / "out", tmp_path / "store", make=True)
    open_target(tmp_path / "a" / "b", tmp_path / "store", make=True).write("x", b"")
    remove_made(tmp_path / "a")
    remove_made(tmp_path / "a")
    assert sorted(os.listdir(tmp_path)) == ["disk", "mine", "store"]


def test_what_is_made_has_the_umask_of_the_caller(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        folder = Folder(tmp_path)
        folder.make("a/b", exist_ok=True)
        folder.write("a/file", b"")
        assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o750
        assert (tmp_path / "a" / "file").stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(before)


def test_somebody_who_swaps_a_folder_for_a_link(tmp_path: Path) -> None:
    """Between two looks at a path its folder may become a link: no call follows it, whenever that happens."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "inside" / "real").mkdir(parents=True)
    os.symlink(tmp_path / "outside", tmp_path / "inside" / "fake")
    folder, ended = Folder(tmp_path / "inside"), threading.Event()

    def swap() -> None:
        while not ended.is_set():
            for name in ("real", "fake"):
                rename(tmp_path / "inside" / name, tmp_path / "inside" / "at")
                rename(tmp_path / "inside" / "at", tmp_path / "inside" / name)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for number in range(300):
            for name in ("at", "real"):
                try:
                    folder.write(f"{name}/{number}", b"")
                except OSError:
                    continue
    finally:
        ended.set()
        swapping.join()
    assert os.listdir(tmp_path / "outside") == []


def test_a_name_is_deleted_and_what_it_leads_to_stays(folder: Folder) -> None:
    before = outside(folder)
    unlink(folder.path / "file")
    unlink(folder.path / "file", missing_ok=True)
    with pytest.raises(FileNotFoundError):
        unlink(folder.path / "file")
    assert outside(folder) == before


def test_a_sync_waits_for_one_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task of a write waited for all dirty pages of the machine, and for ever where another mount hung."""

    def waits_for_all() -> None:
        raise AssertionError("os.sync() waits for every file system")

    monkeypatch.setattr(os, "sync", waits_for_all)
    with Folder(tmp_path) as one:
        one.write("name", b"bytes")
        one.sync_file_system()


def test_a_sync_of_a_file_system_that_fails_names_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened, "_syncfs", lambda: lambda fd: errno.EIO)
    with Folder(tmp_path) as one, pytest.raises(SyncFailedError, match=re.escape(str(tmp_path))):
        one.sync_file_system()


def test_without_syncfs_all_file_systems_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bool] = []
    monkeypatch.setattr(opened, "_syncfs", lambda: lambda fd: errno.ENOSYS)
    monkeypatch.setattr(os, "sync", lambda: synced.append(True))
    with Folder(tmp_path) as one:
        one.sync_file_system()
    assert synced == [True]


@pytest.mark.parametrize(
    "words",
    [
        ["rebuild", "STORE", "--cq", "--out", "OUT"],
        ["salvage", "STORE", "OUT"],
        ["backup", "STORE", "OUT"],
    ],
    ids=lambda words: words[0],
)
def test_commands_sync_one_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    with rmqcore.open(tmp_path / "store", services=False) as store:
        store.put(rmqcore.Message("T", b"x")).raise_for_status()
        store.dispatch_once()

    def waits_for_all() -> None:
        raise AssertionError("os.sync() waits for every file system")

    monkeypatch.setattr(os, "sync", waits_for_all)
    places = {"STORE": str(tmp_path / "store"), "OUT": str(tmp_path / "out")}
    assert main([places.get(word, word) for word in words]) == 0
