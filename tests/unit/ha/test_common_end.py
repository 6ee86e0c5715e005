"""Where two logs have parted is found by what the master sends, and a log that is cut there follows."""

from __future__ import annotations

import random
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message, MessageStoreConfig
from rmqcore.engine.recovery.thoroughness import RecoverMode
from rmqcore.engine.store.store import MessageStore
from rmqcore.errors import HaProtocolError, LogsPartedError, NoCommonRecordError
from rmqcore.ha.common_end import Ask, find_common_end
from rmqcore.ha.master import Follower
from rmqcore.ha.slave import OVERLAP, Slave
from rmqcore.offline.fsck import fsck
from rmqcore.opening import open_by_mode

FILE_SIZE = 1 << 16
SMALL: dict[str, Any] = {
    "mapped_file_size_commit_log": FILE_SIZE,
    "max_index_num": 1000,
    "max_hash_slot_num": 100,
}
CLOCK = iter(range(1_700_000_000_000, 1 << 60))


def opened(root: Path, role: str = "ASYNC_MASTER", **config: Any) -> MessageStore:
    settings = {**SMALL, "broker_role": role, **config}
    return rmqcore.open(root, services=False, clock=lambda: next(CLOCK), **settings)


def fill(store: MessageStore, count: int, size: int = 1000) -> None:
    """Records of one size, which part at their times alone, as those of two masters do."""
    for number in range(count):
        store.put(Message(f"T{number % 3}", b"x" * size, number % 2)).raise_for_status()


def asking(master: MessageStore, asked: list[int]) -> Ask:
    """Connect to a master without sockets; what each connection asked for is noted."""

    def ask(phy_offset: int) -> Generator[tuple[int, memoryview], None, None]:
        asked.append(phy_offset)
        follower = Follower(master, "192.0.2.7:1", 0.0)
        follower.data_received(phy_offset.to_bytes(8, "big"), 0.0)
        while follower.lacks:
            at, body = follower.sent_to, follower.next_body()
            follower.frame(body, 0.0)
            for begin in range(0, len(body), 700):
                yield at + begin, body[begin : begin + 700]
        raise ConnectionError("nothing more")

    return ask


def parted(tmp_path: Path, common: int, alone: int, master_alone: int, **config: Any) -> int:
    """Make two stores with so many records in common, and then each its own; return where they part."""
    with opened(tmp_path / "master", **config) as store:
        fill(store, common)
        end = store.max_phy_offset
    shutil.copytree(tmp_path / "master", tmp_path / "old")
    for name, count in (("old", alone), ("master", master_alone)):
        with opened(tmp_path / name, **config) as store:
            fill(store, count)
    return end


def follow(master: MessageStore, slave: MessageStore) -> None:
    """Let a slave get all that its master has."""
    side = Slave.at_end(slave, None, 0.0)
    follower = Follower(master, "192.0.2.7:1", 0.0)
    follower.data_received(side.first_report(), 0.0)
    while follower.lacks:
        body = follower.next_body()
        side.data_received(memoryview(follower.frame(body, 0.0) + body), 0.0)


def log_bytes(store: MessageStore) -> bytes:
    store.flush()
    found, at = bytearray(), store.min_phy_offset
    while piece := store.read_range(at, 1 << 20):
        found += piece
        at += len(piece)
    return bytes(found)


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize(
    ("common", "alone", "master_alone"),
    [
        (100, 1, 0),  # the master lacks the last record
        (100, 1, 1),  # as long as the master's
        (100, 5, 50),  # shorter
        (100, 50, 5),  # longer
        (100, 300, 1),  # by files
        (100, 300, 400),
        (1, 200, 200),  # the first record alone is common
        (61, 10, 10),  # the common part ends with a file
        (60, 10, 10),
        (62, 10, 10),
        (500, 3, 3),
    ],
)
def test_the_log_is_cut_where_the_logs_part_and_then_follows(
    tmp_path: Path, common: int, alone: int, master_alone: int, flush: str
) -> None:
    config: dict[str, Any] = {"flush_disk_type": flush}
    end = parted(tmp_path, common, alone, master_alone, **config)
    with opened(tmp_path / "master", **config) as master:
        with opened(tmp_path / "old", "SLAVE", **config) as slave:
            asked: list[int] = []
            first, last = master.min_phy_offset, master.max_phy_offset
            found = find_common_end(slave, first, last, asking(master, asked))
            assert found is not None
            assert found.slave_end == slave.max_phy_offset
        assert (found.phy_offset, found.messages) == (end, alone)
        assert len(asked) <= 6
        settings = MessageStoreConfig(**SMALL, broker_role="SLAVE", **config)
        with open_by_mode(tmp_path / "old", settings, RecoverMode(ends_at=end)) as slave:
            assert slave.max_phy_offset <= end
            follow(master, slave)
            assert log_bytes(slave) == log_bytes(master)
            while slave.dispatch_once():
                pass
    assert fsck(tmp_path / "old").exit_code == 0
    assert any((tmp_path / "old" / "cut").iterdir())


def test_a_log_that_is_its_masters_is_not_cut(tmp_path: Path) -> None:
    end = parted(tmp_path, 100, 0, 20)
    with opened(tmp_path / "master") as master, opened(tmp_path / "old", "SLAVE") as slave:
        assert slave.max_phy_offset == end
        asked: list[int] = []
        assert find_common_end(slave, 0, master.max_phy_offset, asking(master, asked)) is None
        assert asked == [end - OVERLAP]


@pytest.mark.parametrize("count", [1, 200])
def test_another_broker_altogether(tmp_path: Path, count: int) -> None:
    """Records of the same sizes at the same places; nothing is cut by their lengths."""
    for name in ("master", "old"):
        with opened(tmp_path / name) as store:
            fill(store, count)
    with opened(tmp_path / "master") as master, opened(tmp_path / "old", "SLAVE") as slave:
        end = master.max_phy_offset
        assert slave.max_phy_offset == end
        with pytest.raises(NoCommonRecordError) as caught:
            find_common_end(slave, 0, end, asking(master, []))
    assert isinstance(caught.value, LogsPartedError)
    assert "they have no record in common" in str(caught.value)
    assert "that of this store's master" in caught.value.hint


def test_a_master_that_has_deleted_the_common_part(tmp_path: Path) -> None:
    parted(tmp_path, 100, 300, 300)
    with opened(tmp_path / "master") as master, opened(tmp_path / "old", "SLAVE") as slave:
        first, end, asked = 4 * FILE_SIZE, master.max_phy_offset, list[int]()
        with pytest.raises(NoCommonRecordError, match=f"at phy_offset {first} or before it"):
            find_common_end(slave, first, end, asking(master, asked))
        assert min(asked) == first


def test_a_master_that_stops_is_asked_again_later(tmp_path: Path) -> None:
    """Nothing is cut by what a connection that was lost did not send."""
    parted(tmp_path, 100, 10, 10)

    def ask(phy_offset: int) -> Generator[tuple[int, memoryview], None, None]:
        for at, piece in asking(master, [])(phy_offset):
            yield at, piece
            if at > phy_offset + 3000:
                return

    with (
        opened(tmp_path / "master") as master,
        opened(tmp_path / "old", "SLAVE") as slave,
        pytest.raises(ConnectionError, match="sends nothing from phy_offset"),
    ):
        find_common_end(slave, 0, master.max_phy_offset, ask)


def test_frames_of_another_place(tmp_path: Path) -> None:
    parted(tmp_path, 100, 10, 10)

    def ask(phy_offset: int) -> Generator[tuple[int, memoryview], None, None]:
        yield phy_offset + 1, memoryview(b"x")

    with (
        opened(tmp_path / "old", "SLAVE") as slave,
        pytest.raises(HaProtocolError, match="phy_offset is"),
    ):
        find_common_end(slave, 0, slave.max_phy_offset, ask)


def test_garbage_is_never_common(tmp_path: Path) -> None:
    parted(tmp_path, 100, 0, 0)

    def ask(_: int) -> Generator[tuple[int, memoryview], None, None]:
        rng = random.Random(1)
        at = _
        while True:
            yield at, memoryview(rng.randbytes(4000))
            at += 4000

    with opened(tmp_path / "old", "SLAVE") as slave, pytest.raises(NoCommonRecordError):
        find_common_end(slave, 0, slave.max_phy_offset + 1000, ask)
