"""Backups of a store whose log was cut by a recovery that left old bytes behind the new end."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.stores.index_batches import quick_folder
from support.stores.left_bytes import recover_and_leave_bytes

import rmqcore
from rmqcore import Message
from rmqcore.engine.store.store import MessageStore
from rmqcore.errors import OtherStoreError
from rmqcore.maintenance.backup import backup as backup_module
from rmqcore.maintenance.backup import store_copy
from rmqcore.maintenance.backup.backup import backup
from rmqcore.maintenance.backup.log import LogCopy
from rmqcore.maintenance.backup.settle import settle
from rmqcore.maintenance.backup.store_copy import StoreCopy

SETTINGS: dict[str, Any] = {
    "mapped_file_size_commit_log": 4 << 20,
    "mapped_file_size_consume_queue": 120_000,
    "max_hash_slot_num": 1000,
    "max_index_num": 20_000,
    "services": False,
}


def fill(store: MessageStore, first: int, end: int, topic: str = "T") -> None:
    messages = [Message(topic, b"%08d" % number + b"x" * 900) for number in range(first, end)]
    store.put_many(messages).raise_for_status()
    while store.dispatch_once():
        pass


def tree(root: Path) -> dict[str, bytes | None]:
    """Everything in a folder, by its place."""
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in sorted(root.rglob("*"))
    }


def place_of(root: Path, number: int) -> int:
    """CommitLog offset of a message."""
    with rmqcore.read(root) as reader:
        return [message.phy_offset for message in reader.messages()][number]


def state_of(dest: Path) -> object:
    return json.loads((dest / "backup.json").read_text())["backup"]["state"]


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with quick_folder() as name:
        yield Path(name)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A closed store of 4,000 messages in one log file of 4 MiB."""
    with rmqcore.open(tmp_path / "store", **SETTINGS) as store:
        fill(store, 0, 4000)
    return tmp_path / "store"


@pytest.mark.parametrize("topic", ["T", "New"])
@pytest.mark.parametrize("in_use", [True, False])
def test_a_store_that_was_cut_far_below_the_copy_is_refused(
    root: Path, tmp_path: Path, topic: str, in_use: bool
) -> None:
    """The first and the last mebibyte that the copy has are still the same; nothing in the copy changes."""
    dest = tmp_path / "copy"
    backup(root, dest, hard_links=False)
    before = tree(dest)
    end = recover_and_leave_bytes(
        root, place_of(root, 1500), lambda store: fill(store, 9000, 9300, topic), **SETTINGS
    )
    assert 1 << 20 < end < (3 << 20) - (1 << 18)
    if in_use:
        (root / "abort").touch()
    with pytest.raises(OtherStoreError, match="cut or replaced"):
        backup(root, dest)
    assert tree(dest) == before
    # A destination of its own has the new messages.
    backup(root, tmp_path / "fresh", hard_links=False)
    with rmqcore.read(tmp_path / "fresh") as reader:
        bodies = {bytes(message.body)[:8] for message in reader.messages()}
    assert {b"%08d" % number for number in range(9000, 9300)} <= bodies


def test_the_queues_show_a_cut_in_files_that_look_unchanged(tmp_path: Path) -> None:
    """A file that was copied whole, and has its size, inode and times again, is not read: the queues say where the log ends."""
    root, dest = tmp_path / "store", tmp_path / "copy"
    with rmqcore.open(root, **SETTINGS) as store:
        fill(store, 0, 6000)
    backup(root, dest, hard_links=False)
    first, second = sorted((root / "commitlog").iterdir())
    times, kept = first.stat(), second.read_bytes()
    recover_and_leave_bytes(
        root, place_of(root, 1500), lambda store: fill(store, 9000, 9300), **SETTINGS
    )
    os.utime(first, ns=(times.st_atime_ns, times.st_mtime_ns))
    second.write_bytes(kept)
    before = tree(dest)
    with pytest.raises(OtherStoreError, match="the records behind it are older"):
        backup(root, dest)
    assert tree(dest) == before


def test_queues_that_only_lag_behind_the_log_are_no_cut(root: Path, tmp_path: Path) -> None:
    """A power cut took queue entries that were not on disk yet: what the log has goes on where the copy ends."""
    dest = tmp_path / "copy"
    backup(root, dest, hard_links=False)
    newest = root / "consumequeue" / "T" / "0" / f"{0:020}"
    data = newest.read_bytes()
    newest.write_bytes(data[: 3000 * 20].ljust(len(data), b"\0"))
    (root / "abort").touch()
    report = backup(root, dest)
    assert (report.exit_code, state_of(dest)) == (0, "whole")
    with rmqcore.open(dest, **SETTINGS) as copy:
        assert copy.max_offset("T", 0) == 4000


@pytest.mark.parametrize("runs_before", [0, 1])
def test_a_broker_that_is_restarted_while_the_copy_is_made(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs_before: int
) -> None:
    """Its recovery cuts what the copy has: an earlier backup keeps its messages, a new one gets the log as it is now."""
    dest = tmp_path / "copy"
    for _ in range(runs_before):
        backup(root, dest, hard_links=False)
    log = f"commitlog/{0:020}"
    before = (root / log).read_bytes()
    copied = LogCopy.run

    def restarted(self: LogCopy, *given: Any) -> None:
        copied(self, *given)
        if not ended:
            at = place_of(root, 1500)
            ended.append(
                recover_and_leave_bytes(root, at, lambda store: fill(store, 9000, 9300), **SETTINGS)
            )
            (root / "abort").touch()

    ended: list[int] = []
    monkeypatch.setattr(LogCopy, "run", restarted)
    if runs_before:
        with pytest.raises(OtherStoreError):
            backup(root, dest, hard_links=False)
        assert (dest / log).read_bytes() == before
        assert state_of(dest) == "unfinished"
    else:
        backup(root, dest, hard_links=False)
        assert (dest / log).read_bytes()[: ended[0]] == (root / log).read_bytes()[: ended[0]]


def test_a_copy_with_errors_that_the_store_does_not_have_is_not_whole(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever makes a copy wrong: its own fsck decides on the word that a restore relies on, and a good run takes it back."""
    dest = tmp_path / "copy"
    (root / "abort").touch()

    def settle_wrongly(*given: Any) -> str:
        reason: str = settle(*given)
        with (dest / "consumequeue" / "T" / "0" / f"{0:020}").open("r+b") as queue:
            queue.seek(100 * 20)
            queue.write(bytes(20))
        return reason

    with monkeypatch.context() as patched:
        patched.setattr(backup_module, "settle", settle_wrongly)
        report = backup(root, dest, hard_links=False)
    assert report.exit_code == 2 and report.fsck is not None and not report.fsck["in_source"]
    assert state_of(dest) == "damaged"
    assert backup(root, dest).exit_code == 0
    assert state_of(dest) == "whole"


def test_a_copy_of_a_damaged_store_is_whole(root: Path, tmp_path: Path) -> None:
    """Its errors are the store's."""
    log = root / "commitlog" / f"{0:020}"
    with log.open("r+b") as file:
        file.seek(place_of(root, 1500) + 300)
        file.write(b"\xff" * 50)
    report = backup(root, tmp_path / "copy")
    assert report.exit_code == 2 and report.fsck is not None and report.fsck["in_source"]
    assert state_of(tmp_path / "copy") == "whole"


def test_a_first_run_that_was_killed_keeps_nothing_of_a_log_that_was_cut_since(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dest = tmp_path / "copy"

    def killed(_: StoreCopy) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(store_copy, "SAVED_EVERY_S", -1.0)
        patched.setattr(StoreCopy, "_delete", killed)
        with pytest.raises(KeyboardInterrupt):
            backup(root, dest, hard_links=False)
    assert state_of(dest) == "unfinished"
    recover_and_leave_bytes(
        root, place_of(root, 1500), lambda store: fill(store, 9000, 9300), **SETTINGS
    )
    backup(root, dest, hard_links=False)
    log = f"commitlog/{0:020}"
    with rmqcore.read(dest) as copy, rmqcore.read(root) as store:
        ours = [message.phy_offset for message in copy.messages()]
        assert ours == [message.phy_offset for message in store.messages()][: len(ours)]
    end = place_of(root, 1799)
    assert (dest / log).read_bytes()[:end] == (root / log).read_bytes()[:end]
