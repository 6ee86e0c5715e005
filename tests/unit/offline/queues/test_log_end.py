"""Where the log ends by its queues, and when older records behind that end prove a cut."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from support.stores.left_bytes import recover_and_leave_bytes

import rmqcore
from rmqcore import Message
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.store.store import MessageStore
from rmqcore.offline.log.log_files import list_log_files
from rmqcore.offline.queues.log_end import NO_MESSAGE, cut_before, newest_dispatched

SETTINGS: dict[str, Any] = {
    "mapped_file_size_commit_log": 64 * 1024,
    "mapped_file_size_consume_queue": 2000,
    "max_hash_slot_num": 100,
    "max_index_num": 400,
    "services": False,
}


def put(store: MessageStore, first: int, end: int, size: int = 80) -> None:
    for number in range(first, end):
        message = Message(f"T{number % 7}", b"%08d" % number + b"x" * size)
        store.put(message).raise_for_status()
    while store.dispatch_once():
        pass


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """900 messages in seven queues and a few log files, stored a millisecond apart."""
    clock = count(1_700_000_000_000)
    with rmqcore.open(tmp_path / "store", clock=lambda: next(clock), **SETTINGS) as store:
        put(store, 0, 900)
    return tmp_path / "store"


def records(root: Path) -> list[tuple[int, int]]:
    """Where the messages begin and end."""
    with rmqcore.read(root) as reader:
        return [(one.phy_offset, one.phy_offset + one.msg_size) for one in reader.messages()]


def cut(root: Path, phy_offset: int) -> int | None:
    paths = StorePaths(root)
    return cut_before(paths, list_log_files(paths), phy_offset)


def test_the_newest_message_of_all_queues(root: Path, tmp_path: Path) -> None:
    newest = records(root)[-1]
    assert newest_dispatched(StorePaths(root)) == newest
    assert newest_dispatched(StorePaths(root), enough=newest[1] - 50_000).end >= newest[1] - 50_000
    assert newest_dispatched(StorePaths(tmp_path)) == NO_MESSAGE
    assert cut(root, newest[1]) is None


@pytest.mark.parametrize("size", [80, 81, 300])
def test_old_bytes_behind_newer_ones(root: Path, size: int) -> None:
    """Whether or not the old records lie where the new ones end."""
    found = records(root)
    end = recover_and_leave_bytes(
        root, found[860][0], lambda store: put(store, 5000, 5004, size), **SETTINGS
    )
    assert end < found[-1][1]
    assert cut(root, found[-1][1]) == end
    assert cut(root, end) is None


def test_a_cut_that_nothing_was_written_behind_is_not_known(root: Path) -> None:
    """What lies there is what was there: as after a power cut that took the newest queue entries."""
    found = records(root)
    recover_and_leave_bytes(root, found[860][0], lambda store: None, **SETTINGS)
    assert cut(root, found[-1][1]) is None


@pytest.mark.parametrize("kept", [0, 1, 860, 899])
def test_queues_that_lag(root: Path, kept: int) -> None:
    found = records(root)
    for queue in (root / "consumequeue").glob("*/*/*"):
        data = queue.read_bytes()
        for at in range(0, len(data), 20):
            if int.from_bytes(data[at : at + 8], "big") >= found[kept][0]:
                data = data[:at] + bytes(20) + data[at + 20 :]
        queue.write_bytes(data)
    assert newest_dispatched(StorePaths(root)).end == (found[kept - 1][1] if kept else 0)
    assert cut(root, found[-1][1]) is None
