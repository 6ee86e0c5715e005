"""A store that has filled its disk: the open that would clean it needs room itself.

It ended with ENOSPC, and nothing in the product freed room: somebody had to delete files by hand.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.stores.many_files import fill, settings, settle

import rmqcore
from rmqcore import Message
from rmqcore.config import MessageStoreConfig
from rmqcore.disk import abort, checkpoint
from rmqcore.disk.durable import delete_file
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.clean import before_open, disks
from rmqcore.engine.clean.before_open import clean_before_open
from rmqcore.engine.queues.consume_queues import ConsumeQueues
from rmqcore.engine.recovery.recovery import recover
from rmqcore.engine.store import parts
from rmqcore.offline.fsck import fsck

FILE_SIZE = 64 << 10
SETTINGS = settings(FILE_SIZE)


class Disk:
    """A disk that has room for so many files of the log and nothing beside them."""

    def __init__(self, root: Path, room_for: int) -> None:
        self.root = root
        self.room_for = room_for

    @property
    def files(self) -> int:
        return len(os.listdir(self.root / "commitlog"))

    def used_percent(self, directory: Path) -> int:
        return min(100, self.files * 84 // self.room_for)

    def write(self, real: Callable[[Path, bytes], None]) -> Callable[[Path, bytes], None]:
        def write_durable(path: Path, data: bytes) -> None:
            if self.files > self.room_for:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            real(path, data)

        return write_durable


def make(root: Path, *, clean: bool) -> int:
    """A store of six files; answer where its log ends."""
    with rmqcore.open(root, **SETTINGS) as store:
        fill(store, 6)
        end = store.max_phy_offset
        if not clean:
            store.fail(OSError("the disk is full"))
    return end


@pytest.fixture
def full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Disk]:
    def fill(room_for: int) -> Disk:
        disk = Disk(tmp_path / "store", room_for)
        for module in (checkpoint, abort):
            monkeypatch.setattr(module, "write_durable", disk.write(module.write_durable))
        monkeypatch.setattr(disks, "used_percent", disk.used_percent)
        return disk

    return fill


@pytest.mark.parametrize("clean", [True, False])
def test_what_the_rules_delete_goes_before_the_open(
    tmp_path: Path, full_disk: Callable[[int], Disk], clean: bool
) -> None:
    root = tmp_path / "store"
    end = make(root, clean=clean)
    full_disk(4)
    with rmqcore.open(root, **SETTINGS) as store:
        assert store.max_phy_offset == end
        first = store.min_phy_offset
        assert first == 2 * FILE_SIZE, "as many files as the rules say, and not one more"
        settle(store)
        store.clean_once()
        for topic in ("T0", "T1"):
            messages = store.get(topic, 0, store.min_offset(topic, 0), 1000).messages
            assert first <= messages[0].phy_offset < first + 3000
        assert store.put(Message("T0", b"x")).stored
    assert not fsck(root).findings


def test_what_is_not_in_the_queues_stays(tmp_path: Path, full_disk: Callable[[int], Disk]) -> None:
    root = tmp_path / "store"
    make(root, clean=False)
    full_disk(1)
    config = MessageStoreConfig(mapped_file_size_commit_log=FILE_SIZE)
    deleted = clean_before_open(StorePaths(root), config, 2 * FILE_SIZE + 100)
    assert [path.name for path in deleted] == [f"{0:020}", f"{FILE_SIZE:020}"]
    assert list(clean_before_open(StorePaths(root), config, -1)) == []


def test_an_error_says_what_is_free_and_what_keeps_the_files(
    tmp_path: Path, full_disk: Callable[[int], Disk]
) -> None:
    root = tmp_path / "store"
    end = make(root, clean=False)
    full_disk(4)
    with pytest.raises(OSError, match=r"bytes are free.*clean_file_forcibly_enable") as caught:
        rmqcore.open(root, **SETTINGS, clean_file_forcibly_enable=False)
    assert caught.value.errno == errno.ENOSPC
    assert str(root) in str(caught.value)
    assert sum(1 for _ in rmqcore.read(root).messages()) > 0, "it can be read all the same"
    # Nothing is held by the open that failed, and one that may delete succeeds.
    with rmqcore.open(root, **SETTINGS) as store:
        assert store.max_phy_offset == end


def test_queues_are_on_disk_before_their_log_goes(
    tmp_path: Path, full_disk: Callable[[int], Disk], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut took a queue whose entries were never synced; without the log it began at queue offset 0 again."""
    root = tmp_path / "store"
    make(root, clean=False)
    full_disk(4)
    calls: list[str] = []
    flush = ConsumeQueues.flush

    def no_room(*_: object, **__: object) -> None:
        monkeypatch.setattr(parts, "recover", recover)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "consumequeue/T0/0")

    def flushed(queues: ConsumeQueues, least_pages: int) -> bool:
        calls.append(f"flush {least_pages}")
        return flush(queues, least_pages)

    def deleted(path: Path) -> int:
        calls.append("delete")
        return delete_file(path)

    monkeypatch.setattr(parts, "recover", no_room)
    monkeypatch.setattr(ConsumeQueues, "flush", flushed)
    monkeypatch.setattr(before_open, "delete_file", deleted)
    rmqcore.open(root, **SETTINGS).close()
    assert calls[:3] == ["flush 0", "delete", "delete"]


def test_the_newest_files_stay(tmp_path: Path, full_disk: Callable[[int], Disk]) -> None:
    root = tmp_path / "store"
    make(root, clean=True)
    full_disk(1)
    with pytest.raises(OSError, match="bytes are free"):
        rmqcore.open(root, **SETTINGS)
    assert len(os.listdir(root / "commitlog")) == 2
