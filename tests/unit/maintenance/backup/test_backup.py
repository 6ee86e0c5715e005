"""A copy of a store: what is in it, what a second run brings, and what is refused."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from support.stores.index_batches import quick_folder

import rmqcore
from rmqcore.disk.inside.files import open_file
from rmqcore.disk.inside.folder import Folder
from rmqcore.engine.store.store import MessageStore
from rmqcore.errors import (
    OtherStoreError,
    StoreFormatError,
    StoreLockedError,
    TargetNotEmptyError,
)
from rmqcore.maintenance.backup import backup as backup_module
from rmqcore.maintenance.backup import log as log_module
from rmqcore.maintenance.backup.backup import backup
from rmqcore.maintenance.backup.copier import Copier, Source
from rmqcore.maintenance.backup.store_copy import StoreCopy
from rmqcore.testing.crash_check import TINY, Acked, check_directory, drain, put


def tree(root: Path) -> dict[str, bytes]:
    """Every file by its place, but for those that only a copy or an open store has."""
    own = {"backup.json", "lock", "abort"}
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name not in own
    }


def open_store(root: Path, **how: Any) -> MessageStore:
    """A store whose clock goes on by a millisecond a message: index files have times of their own."""
    clock = count(1_700_000_000_000)
    return rmqcore.open(root, services=False, clock=lambda: next(clock), **{**TINY, **how})


def fill(store: MessageStore, first: int, end: int) -> list[Acked]:
    acked = [put(store, number) for number in range(first, end)]
    drain(store)
    store.flush()
    return [one for one in acked if one is not None]


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory where that is possible: each copy syncs its files, which says nothing about what is in them."""
    with quick_folder() as name:
        yield Path(name)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store that was closed cleanly, of 14 log files."""
    with open_store(tmp_path / "store") as store:
        fill(store, 0, 900)
    return tmp_path / "store"


@pytest.fixture
def live(tmp_path: Path) -> Iterator[MessageStore]:
    with open_store(tmp_path / "live") as store:
        fill(store, 0, 900)
        yield store


# ---- copies -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("hard_links", [True, False])
def test_a_closed_store_is_copied_byte_by_byte(
    root: Path, tmp_path: Path, hard_links: bool
) -> None:
    dest = tmp_path / "copy"
    report = backup(root, dest, hard_links=hard_links)
    assert (report.state, report.exit_code, report.min_phy_offset) == ("clean", 0, 0)
    assert report.fsck is not None and report.fsck["records"] == 900
    assert tree(dest) == tree(root)
    assert not (dest / "abort").exists()
    assert bool(report.linked.files) == hard_links
    for name in tree(root):
        assert (root / name).stat().st_mtime_ns == (
            dest / name
        ).stat().st_mtime_ns or "." not in name


def test_a_second_run_brings_only_what_is_new(root: Path, tmp_path: Path) -> None:
    dest = tmp_path / "copy"
    backup(root, dest, hard_links=False)
    again = backup(root, dest, hard_links=False)
    assert (again.copied.bytes, again.linked.files, again.deleted) == (0, 0, 0)
    with rmqcore.open(root, services=False, **TINY) as store:
        acked = fill(store, 900, 1000)
    third = backup(root, dest, hard_links=False)
    assert 0 < third.copied.bytes < third.unchanged.bytes
    assert tree(dest) == tree(root)
    check_directory(dest, acked)


def test_an_open_store_is_copied_up_to_a_watermark(live: MessageStore, tmp_path: Path) -> None:
    dest = tmp_path / "copy"
    acked = [put(live, number) for number in range(900, 950)]  # not dispatched, not flushed
    report = backup(tmp_path / "live", dest)
    assert report.watermark_phy_offset == live.max_phy_offset
    assert report.watermark_store_timestamp_ms == 1_700_000_000_949
    assert (report.state, report.exit_code) == ("clean", 0)
    shutil.copytree(dest, tmp_path / "restored")
    check_directory(tmp_path / "restored", [one for one in acked if one is not None])


def test_the_copy_stays_as_it_is_when_the_store_goes_on(live: MessageStore, tmp_path: Path) -> None:
    """The newest files are not shared: a store writes into them."""
    dest = tmp_path / "copy"
    backup(tmp_path / "live", dest)
    before = tree(dest)
    fill(live, 900, 2000)
    live.clean_once(disk_ratio=0.9)
    assert tree(dest) == before


def test_a_log_that_ends_with_a_file(tmp_path: Path) -> None:
    """Behind the last record is the BLANK and no further file: the copy was taken for damaged, as a recovery ends before it."""
    with open_store(tmp_path / "live") as store:
        acked, size = fill(store, 0, 50), TINY["mapped_file_size_commit_log"]
        while store.max_phy_offset < 2 * size:
            acked += fill(store, len(acked), len(acked) + 1)
        (tmp_path / "live" / "commitlog" / f"{2 * size:020}").unlink()
        for _ in range(2):
            report = backup(tmp_path / "live", tmp_path / "copy")
            assert (report.exit_code, report.state) == (0, "clean")
            assert report.watermark_phy_offset < 2 * size
    check_directory(tmp_path / "copy", acked[:-1])


def test_a_record_that_is_just_being_written_at_the_start_of_a_file(tmp_path: Path) -> None:
    """Its length is there, its MAGIC is not: the log ends with the file before."""
    size = TINY["mapped_file_size_commit_log"]
    with open_store(tmp_path / "live") as store:
        acked = fill(store, 0, 50)
        while store.max_phy_offset < 2 * size:
            acked += fill(store, len(acked), len(acked) + 1)
        path = tmp_path / "live" / "commitlog" / f"{2 * size:020}"
        path.write_bytes((100).to_bytes(4, "big").ljust(size, b"\0"))
        report = backup(tmp_path / "live", tmp_path / "copy")
    assert (report.exit_code, report.state) == (0, "clean")
    check_directory(tmp_path / "copy", acked[:-1])


@pytest.mark.parametrize("part", ["commitlog", "index"])
def test_a_file_that_is_deleted_just_before_it_is_linked(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """A cleaning between the open and the link of a file ended the backup with FileNotFoundError."""
    deleted: list[str] = []
    link = Folder.link

    def cleaned(self: Folder, path: str | os.PathLike[str], place: str) -> None:
        if not deleted and Path(path).parent.name == part:
            os.unlink(path)
            deleted.append(f"{part}/{Path(path).name}")
        link(self, path, place)

    before = tree(root)
    monkeypatch.setattr(Folder, "link", cleaned)
    backup(root, tmp_path / "copy")
    copied = tree(tmp_path / "copy")
    assert deleted
    assert copied[deleted[0]] == before[deleted[0]]


def test_own_index_files_are_kept_while_they_are_right(live: MessageStore, tmp_path: Path) -> None:
    """Nothing new in the store: the second run need not make the newest index file again from the whole log."""
    dest = tmp_path / "copy"
    first = backup(tmp_path / "live", dest)
    again = backup(tmp_path / "live", dest)
    assert first.linked.files and (again.linked.files, again.deleted) == (0, 0)
    assert again.copied.bytes == 0


def test_what_the_cleaner_deleted_goes_from_the_copy_too(
    live: MessageStore, tmp_path: Path
) -> None:
    dest, kept = tmp_path / "copy", tmp_path / "kept"
    backup(tmp_path / "live", dest)
    backup(tmp_path / "live", kept)
    for _ in range(3):
        live.clean_once(disk_ratio=0.9)
    assert live.min_phy_offset > 0
    report = backup(tmp_path / "live", dest)
    assert report.min_phy_offset == live.min_phy_offset and report.deleted
    report = backup(tmp_path / "live", kept, keep_deleted=True)
    assert (report.min_phy_offset, report.exit_code) == (0, 0)
    assert sum(1 for _ in rmqcore.read(kept).messages()) == 900


def test_what_is_kept_has_no_hole(live: MessageStore, tmp_path: Path) -> None:
    """All that the copy has was cleaned, and more: the log would go on behind a hole."""
    dest = tmp_path / "copy"
    backup(tmp_path / "live", dest)
    before = tree(dest)
    fill(live, 900, 2000)
    while live.min_phy_offset < 220_000:
        live.clean_once(disk_ratio=0.9)
    with pytest.raises(OtherStoreError, match="would have a gap"):
        backup(tmp_path / "live", dest, keep_deleted=True)
    assert tree(dest) == before and not (dest / "abort").exists()
    report = backup(tmp_path / "live", dest)
    assert (report.exit_code, report.min_phy_offset) == (0, live.min_phy_offset)


def test_a_file_that_is_cleaned_under_the_copy_takes_older_ones_with_it(
    live: MessageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No hole: with file 5 gone before it was read, files 0 to 4 are not copied either."""
    dest, original = tmp_path / "copy", open_file
    gone = 5 * TINY["mapped_file_size_commit_log"]

    def cleaned(path: Path, flags: int) -> Any:
        if int(path.name) == gone:
            raise FileNotFoundError(errno.ENOENT, "cleaned", str(path))
        return original(path, flags)

    monkeypatch.setattr(log_module, "open_file", cleaned)
    report = backup(tmp_path / "live", dest)
    assert len(report.deleted_meanwhile) == 6
    assert report.min_phy_offset == gone + TINY["mapped_file_size_commit_log"]
    assert report.exit_code == 0
    check_directory(dest, [])


def test_several_directories_of_the_log_become_one(tmp_path: Path) -> None:
    dirs = [tmp_path / "disk1", tmp_path / "disk2"]
    logs = ",".join(str(path / "commitlog") for path in dirs)
    with open_store(tmp_path / "store", store_path_commit_log=logs) as store:
        acked = fill(store, 0, 600)
    report = backup(tmp_path / "store", tmp_path / "copy", commitlog=logs)
    assert report.exit_code == 0
    assert len(list((tmp_path / "copy" / "commitlog").iterdir())) == sum(
        len(list((path / "commitlog").iterdir())) for path in dirs
    )
    check_directory(tmp_path / "copy", acked)


def test_other_files_come_along(root: Path, tmp_path: Path) -> None:
    """Configuration as it is; what is torn and what is no file is told."""
    config = root / "config"
    config.mkdir()
    (config / "topics.json").write_text('{"topicConfigTable": {}}')
    (config / "consumerOffset.json").write_text('{"offsetTable": {')
    (config / "consumerOffset.json.bak").write_text('{"offsetTable": {}}')
    (root / "timerwheel").write_bytes(b"\0" * 100)
    os.mkfifo(root / "pipe")
    (config / "link").symlink_to("/etc/passwd")
    dest = tmp_path / "copy"
    report = backup(root, dest)
    assert report.torn == ["config/consumerOffset.json"]
    assert report.skipped == ["config/link: a link", "pipe: a FIFO"]
    names = sorted(path.name for path in (dest / "config").iterdir())
    assert names == ["consumerOffset.json", "consumerOffset.json.bak", "topics.json"]
    assert (dest / "timerwheel").read_bytes() == b"\0" * 100
    (config / "topics.json").unlink()
    backup(root, dest)
    assert not (dest / "config" / "topics.json").exists()


def test_a_brokers_own_json_is_whole(root: Path, tmp_path: Path) -> None:
    """Each backup of a real broker's store told that its consumer offsets were torn.

    RocketMQ writes queue ids as they are, ``{0:5}``, which is no JSON to the letter.
    """
    config = root / "config"
    config.mkdir()
    (config / "consumerOffset.json").write_text('{"offsetTable":{"topic@group":{0:5,1:7}}}')
    assert backup(root, tmp_path / "copy").torn == []


# ---- damage -----------------------------------------------------------------------------------------


def test_a_damaged_store_is_copied_as_it_is(root: Path, tmp_path: Path) -> None:
    """A start would cut the log at the damage: the copy keeps what is behind it, and says whose damage it is."""
    (root / "abort").touch()
    place = root / "commitlog" / f"{12 * TINY['mapped_file_size_commit_log']:020}"
    data = bytearray(place.read_bytes())
    data[2000:2050] = b"\xff" * 50
    place.write_bytes(data)
    report = backup(root, tmp_path / "copy")
    assert (report.exit_code, report.state) == (2, "unclean, as after a crash")
    assert "would cut" in report.state_reason
    assert report.fsck is not None and report.fsck["in_source"]
    assert (tmp_path / "copy" / "abort").exists()
    assert sum(1 for _ in rmqcore.read(root).messages()) == sum(
        1 for _ in rmqcore.read(tmp_path / "copy").messages()
    )
    assert backup(root, tmp_path / "unchecked", check=False).exit_code == 2


def test_a_crashed_store_becomes_a_clean_copy(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with open_store(root) as store:
        acked = fill(store, 0, 500)
        shutil.copytree(root, tmp_path / "crashed")
    report = backup(tmp_path / "crashed", tmp_path / "copy")
    assert (report.exit_code, report.state) == (0, "clean")
    check_directory(tmp_path / "copy", acked)
    assert (tmp_path / "crashed" / "abort").exists()


def test_a_torn_last_record_is_left_out(tmp_path: Path) -> None:
    """A power cut can keep a record's header and lose its body: a start would cut it, so the copy is clean without it."""
    with open_store(tmp_path / "store") as store:
        acked = fill(store, 0, 500)
        shutil.copytree(tmp_path / "store", tmp_path / "crashed")
        end = store.max_phy_offset
    size = TINY["mapped_file_size_commit_log"]
    path = tmp_path / "crashed" / "commitlog" / f"{acked[-1].phy_offset // size * size:020}"
    data = bytearray(path.read_bytes())
    place = acked[-1].phy_offset % size
    data[place + 100 : place + 110] = bytes(10)
    path.write_bytes(data)
    report = backup(tmp_path / "crashed", tmp_path / "copy")
    assert (report.exit_code, report.state) == (0, "clean")
    assert report.watermark_phy_offset == acked[-1].phy_offset < end
    check_directory(tmp_path / "copy", acked[:-1])


# ---- what is refused --------------------------------------------------------------------------------


def test_a_recovery_of_an_unfinished_copy_leaves_the_store_as_it_is(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recovery of a copy must not cut the store itself.

    The store's third log file was damaged, and no recovery of the store came by there. Its backup was killed; `rmqcore recover
    DEST --apply`, which docs/backup.md proposes then, cut the copy's log at the damage. That file was one and the same in
    both, by a hard link: messages that the store still had were zeros.
    """
    files = sorted((root / "commitlog").iterdir())
    with files[2].open("r+b") as file:
        file.seek(TINY["mapped_file_size_commit_log"] // 2)
        file.write(b"\xff" * 100)
    before = tree(root)

    class Killed(BaseException):
        pass

    def killed(_: object) -> None:
        raise Killed

    dest = tmp_path / "copy"
    monkeypatch.setattr(StoreCopy, "_delete", killed)
    with pytest.raises(Killed):
        backup(root, dest)
    assert files[2].stat().st_nlink == 2
    with rmqcore.open(dest, create=False, services=False, **TINY) as store:
        assert store.recovery.cut_bytes > 0
        fill(store, 900, 1000)
    assert tree(root) == before


def test_store_and_copy_lie_apart(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    (tmp_path / "outside").symlink_to(tmp_path)
    for dest in (root, root / "copy", root / "config" / "x", tmp_path / "link" / "x", tmp_path):
        with pytest.raises(ValueError, match=r"is inside|contains the store"):
            backup(root, dest)
    with pytest.raises(ValueError, match=r"is inside|contains the store"):
        backup(root, tmp_path / "outside" / "store" / "copy")
    logs = tmp_path / "disk" / "commitlog"
    shutil.copytree(root / "commitlog", logs)
    shutil.rmtree(root / "commitlog")
    for dest in (tmp_path / "disk", logs / "x"):
        with pytest.raises(ValueError, match=r"is inside|contains the store"):
            backup(root, dest, commitlog=logs)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["disk", "link", "outside", "store"]


def test_a_directory_that_is_no_backup(root: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "precious").touch()
    with pytest.raises(TargetNotEmptyError):
        backup(root, tmp_path / "copy")
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["precious"]


def test_a_broken_manifest(root: Path, tmp_path: Path) -> None:
    dest = tmp_path / "copy"
    backup(root, dest)
    sound = (dest / "backup.json").read_text()
    for text in ("", "{}", "[" * 10_000, sound[:-40], sound.replace("whole", "Whole"), "7"):
        (dest / "backup.json").write_text(text)
        with pytest.raises(StoreFormatError, match="manifest"):
            backup(root, dest)


@pytest.mark.parametrize("grown", [True, False])
def test_another_store_is_refused(root: Path, tmp_path: Path, grown: bool) -> None:
    """Nothing of the copy is overwritten by another log, whether that is longer or shorter."""
    dest, other = tmp_path / "copy", tmp_path / "other"
    backup(root, dest, hard_links=False)
    before = tree(dest)
    with open_store(other) as store:
        fill(store, 5, 1500 if grown else 100)
    with pytest.raises(OtherStoreError):
        backup(other, dest)
    assert tree(dest) == before
    assert json.loads((dest / "backup.json").read_text())["backup"]["state"] == "whole"
    report = backup(root, dest)
    assert report.exit_code == 0 and tree(dest) == tree(root)


def test_a_store_that_was_cut_back_is_refused(root: Path, tmp_path: Path) -> None:
    """After a power cut the store ends earlier and goes on with other messages: the copy has what the store lost."""
    dest = tmp_path / "copy"
    backup(root, dest, hard_links=False)
    newest = max((root / "commitlog").iterdir())
    data = bytearray(newest.read_bytes())
    data[3000:] = bytes(len(data) - 3000)
    newest.write_bytes(data)
    (root / "abort").touch()
    with pytest.raises(OtherStoreError, match="was cut"):
        backup(root, dest)
    with open_store(root) as store:
        fill(store, 5000, 5300)
    with pytest.raises(OtherStoreError, match="was cut"):
        backup(root, dest)
    assert sum(1 for _ in rmqcore.read(dest).messages()) == 900


def test_one_backup_at_a_time(root: Path, tmp_path: Path) -> None:
    dest = tmp_path / "copy"
    backup(root, dest)
    with rmqcore.open(dest, services=False, **TINY), pytest.raises(StoreLockedError):
        backup(root, dest)


def test_a_limit_below_one(root: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="limit"):
        backup(root, tmp_path / "copy", limit_bytes_per_second=0)


# ---- ways -------------------------------------------------------------------------------------------


def test_blocks_are_shared_where_the_file_system_can(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ioctl that copies stands for a file system that shares blocks."""

    def clone(fd: int, request: int, source: int) -> None:
        assert request == 0x40049409
        size = os.fstat(source).st_size
        os.pwrite(fd, os.pread(source, size, 0), 0)

    monkeypatch.setattr(fcntl, "ioctl", clone)
    report = backup(root, tmp_path / "copy")
    assert report.cloned.files > 10 and report.linked.files == 0
    assert tree(tmp_path / "copy") == tree(root)


def test_a_copy_that_is_killed_in_the_middle_is_no_file(root: Path, tmp_path: Path) -> None:
    dest = tmp_path / "copy"
    with pytest.raises(KeyboardInterrupt):
        backup(root, dest, progress=lambda done, total: (_ for _ in ()).throw(KeyboardInterrupt))
    assert json.loads((dest / "backup.json").read_text())["backup"]["state"] == "unfinished"
    assert (dest / "abort").exists()
    assert backup(root, dest).exit_code == 0
    assert tree(dest) == tree(root) and not (dest / ".backup").exists()


def test_bad_sectors_are_zeros_and_are_told(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = os.preadv

    def preadv(fd: int, buffers: Any, pos: int, *flags: int) -> int:
        path = os.readlink(f"/proc/self/fd/{fd}")
        bad = path == str(root / "commitlog" / f"{0:020}")
        if bad and pos < 8192 and pos + len(buffers[0]) > 4096:
            raise OSError(errno.EIO, "Input/output error")
        return original(fd, buffers, pos, *flags)

    with monkeypatch.context() as patched:
        patched.setattr(os, "preadv", preadv)
        report = backup(root, tmp_path / "copy", hard_links=False, check=False)
    assert len(report.unreadable) == 1 and "4096 to 8192" in report.unreadable[0]
    assert report.exit_code == 2
    data = (tmp_path / "copy" / "commitlog" / f"{0:020}").read_bytes()
    assert data[4096:8192] == bytes(4096) and data[8192:] == tree(root)[f"commitlog/{0:020}"][8192:]


def test_what_was_cached_stays_and_what_was_not_goes(disk_path: Path) -> None:
    """Reading leaves the page cache as it was; asked with RWF_NOWAIT, which takes only what is there."""
    path = disk_path / "file"
    path.write_bytes(os.urandom(1 << 20))
    fd = os.open(path, os.O_RDWR)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    buf = bytearray(4096)
    try:
        if _cached(fd, buf, 256 << 10):
            pytest.skip("this file system keeps everything in memory")
    except OSError:
        pytest.skip("this file system does not say")
    os.pread(fd, 64 << 10, 0)
    opened = open_file(path, os.O_RDONLY)
    source = Source(path, opened, [])
    block = bytearray(64 << 10)
    for pos in (0, 512 << 10):
        assert source.read_into(memoryview(block), pos) == len(block)
    opened.close()
    assert _cached(fd, buf, 0) and not _cached(fd, buf, 512 << 10)
    os.close(fd)


def _cached(fd: int, buf: bytearray, pos: int) -> bool:
    try:
        return os.preadv(fd, [buf], pos, os.RWF_NOWAIT) == len(buf)
    except BlockingIOError:
        return False


def test_the_limit_is_kept(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("rmqcore.maintenance.backup.copier.time.sleep", slept.append)
    backup(root, tmp_path / "copy", hard_links=False, limit_bytes_per_second=1 << 12)
    assert max(slept) > 1


def test_a_full_disk_is_told_before_anything_is_copied(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = os.statvfs

    class Full:
        def __init__(self, path: Any) -> None:
            self.f_frsize = original(path).f_frsize
            self.f_blocks, self.f_bfree, self.f_bavail = 1000, 3, 3

    monkeypatch.setattr(os, "statvfs", Full)
    with pytest.raises(
        OSError, match="are needed, but 12288 are free; nothing was copied"
    ) as caught:
        backup(root, tmp_path / "copy", hard_links=False)
    assert caught.value.errno == errno.ENOSPC
    assert not (tmp_path / "copy" / "commitlog" / f"{0:020}").exists()
    monkeypatch.undo()
    assert backup(root, tmp_path / "copy").exit_code == 0  # once there is room


def test_a_disk_that_becomes_full(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dest, copy = tmp_path / "copy", Copier.copy

    def full(self: Copier, source: Source, place: str, end: int | None = None) -> None:
        if place.startswith("commitlog"):
            raise OSError(errno.ENOSPC, "No space left on device", place)
        copy(self, source, place, end)

    with monkeypatch.context() as patched:
        patched.setattr(Copier, "copy", full)
        with pytest.raises(OSError, match="incomplete: free space") as caught:
            backup(root, dest, hard_links=False)
    assert caught.value.errno == errno.ENOSPC
    assert backup(root, dest).exit_code == 0


def test_a_store_without_a_log(tmp_path: Path) -> None:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    report = backup(tmp_path / "store", tmp_path / "copy")
    assert (report.watermark_phy_offset, report.exit_code) == (0, 0)


def test_the_report_shows_itself(root: Path, tmp_path: Path) -> None:
    report = backup(root, tmp_path / "copy")
    assert json.loads(json.dumps(report.as_dict()))["linked"]["files"] > 0
    assert "watermark_phy_offset" in report._repr_html_()


def test_a_store_that_keeps_its_queues_in_rocksdb(root: Path, tmp_path: Path) -> None:
    """Its copy is as after a crash, unless it was closed: the engine does not write such queues."""
    (root / "consumequeue_rocksdb").mkdir()
    (root / "consumequeue_rocksdb" / "CURRENT").write_text("MANIFEST-000001")
    (root / "abort").touch()
    report = backup(root, tmp_path / "copy", check=False)
    assert report.state_reason == backup_module.IN_ROCKSDB
    assert (tmp_path / "copy" / "abort").exists()


@pytest.mark.parametrize("clean", [True, False])
def test_messages_that_queues_know_and_the_log_lacks(tmp_path: Path, clean: bool) -> None:
    """After an unclean exit the copy was opened, which cut their queue entries; nothing was said of them."""
    with open_store(tmp_path / "store") as store:
        fill(store, 0, 300)
    files = sorted((tmp_path / "store" / "commitlog").iterdir())
    size = files[-1].stat().st_size
    os.truncate(files[-1], 0)
    os.truncate(files[-1], size)
    if not clean:
        (tmp_path / "store" / "abort").touch()
    report = backup(tmp_path / "store", tmp_path / "copy")
    assert report.exit_code == (2 if clean else 0)
    (missing,) = report.missing
    assert missing.kind == "log_missing"
    assert json.loads(json.dumps(report.as_dict()))["missing"][0]["kind"] == "log_missing"
