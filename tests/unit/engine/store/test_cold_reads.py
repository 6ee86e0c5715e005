"""Reads of a store whose old files are in no cache: which would wait for the disk, and what they give once it was waited for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.stores.cold_files import make_cold

import rmqcore
from rmqcore import Message
from rmqcore._native.queues.get import GetResult
from rmqcore.disk.paths import MAX_OFFSET
from rmqcore.engine.store.store import MessageStore
from rmqcore.vocabulary.status import GetMessageStatus

FILE_SIZE = 1 << 20
COUNT = 1000  # 8 KiB each, 129 a file
COLD = 300
"""Queue offset of a message in one of the files in the middle, which no open reads."""
CONFIG: dict[str, Any] = {
    "mapped_file_size_commit_log": FILE_SIZE,
    "mapped_file_size_consume_queue": 20 * 10_000,
    "max_index_num": 5000,
    "max_hash_slot_num": 100,
    "disk_max_used_space_ratio": 100,
}


@pytest.fixture
def cold(disk_path: Path) -> Iterator[MessageStore]:
    with rmqcore.open(disk_path, services=False, **CONFIG) as store:
        for i in range(COUNT):
            tags = "rare" if i % 50 == 49 else "A"
            store.put(Message("t", bytes(8000), 0, tags=tags, keys=(f"k{i}",))).raise_for_status()
        assert store.wait_dispatched()
    make_cold(disk_path)
    with rmqcore.open(disk_path, services=False, **CONFIG) as store:
        yield store


def place_of(store: MessageStore, queue_offset: int) -> int:
    phy_offset = store.phy_offset_of("t", 0, queue_offset)
    assert phy_offset is not None
    return phy_offset


def offsets(result: GetResult) -> list[int]:
    return [message.queue_offset for message in result]


def test_a_record_is_cold_until_it_is_read_in(cold: MessageStore) -> None:
    where = place_of(cold, COLD)
    assert not cold.is_warm_at(where)
    cold.read_in_at(where)
    assert cold.is_warm_at(where)
    found = cold.lookup(where)
    assert found is not None
    assert found.queue_offset == COLD


def test_where_no_record_is_nobody_waits(cold: MessageStore) -> None:
    wrong = [-1, MAX_OFFSET, MAX_OFFSET + 1, 1 << 80, -(1 << 80), cold.max_phy_offset]
    wrong += [cold.max_phy_offset - 1, cold.max_phy_offset + FILE_SIZE, 1 << 40]
    for phy_offset in wrong:
        cold.read_in_at(phy_offset)
        assert cold.is_warm_at(phy_offset)
        assert cold.lookup(phy_offset) is None
    where = place_of(cold, COLD)
    for inside in (where + 1, where + 4096, 3 * FILE_SIZE - 1, 3 * FILE_SIZE - 50):
        cold.read_in_at(inside)
        assert cold.is_warm_at(inside)
        assert cold.lookup(inside) is None


def test_a_get_ends_before_what_is_cold(cold: MessageStore) -> None:
    assert cold.get_warm("t", 0, COLD, 32) is None
    cold.read_in("t", 0, COLD, 4)
    some = cold.get_warm("t", 0, COLD, 32)
    assert some is not None
    assert some.status is GetMessageStatus.FOUND
    assert len(some) >= 4
    assert offsets(some) == list(range(COLD, COLD + len(some)))
    assert some.next_begin_offset == COLD + len(some)
    assert some.buffer_total_size == sum(message.msg_size for message in some)


def test_what_an_open_has_read_or_put_is_warm(cold: MessageStore) -> None:
    newest = cold.get("t", 0, COUNT - 1)
    (last,) = newest
    assert cold.is_warm_at(last.phy_offset)
    put = cold.put(Message("t", b"new", 0))
    put.raise_for_status()
    assert cold.is_warm_at(put.phy_offset)
    cold.wait_dispatched()
    found = cold.get_warm("t", 0, COUNT)
    assert found is not None
    assert [message.body for message in found] == [b"new"]


@pytest.mark.parametrize("tags", [None, "A", "rare", "nobody", "A || rare"])
def test_a_walk_finds_all_messages(cold: MessageStore, tags: str | None) -> None:
    """The story of a consumer: what it gets, and where it goes on, is what a plain get says, in pieces that no disk stops."""
    expected = [
        i for i in range(COUNT) if tags is None or ("rare" if i % 50 == 49 else "A") in tags
    ]
    found: list[int] = []
    waits = at = 0
    while at < COUNT:
        result = cold.get_warm("t", 0, at, 32, tags=tags)
        if result is None:
            waits += 1
            cold.read_in("t", 0, at, 32, tags=tags)
            result = cold.get("t", 0, at, 32, tags=tags)
        assert result.next_begin_offset > at
        assert result.status in (GetMessageStatus.FOUND, GetMessageStatus.NO_MATCHED_MESSAGE)
        assert (result.status is GetMessageStatus.FOUND) == bool(len(result))
        found += offsets(result)
        at = result.next_begin_offset
    assert found == expected
    assert waits >= (0 if tags == "nobody" else 1)


def test_offsets_outside_of_a_queue_need_no_disk(cold: MessageStore) -> None:
    for place in (("t", 0, COUNT), ("t", 0, COUNT + 1), ("t", 0, -1), ("t", 1, 0), ("none", 0, 0)):
        cold.read_in(*place)
        warm, plain = cold.get_warm(*place), cold.get(*place)
        assert warm is not None
        assert (warm.status, warm.next_begin_offset) == (plain.status, plain.next_begin_offset)


def test_wrong_arguments_are_named_as_those_of_a_get(cold: MessageStore) -> None:
    wrong: Any = "0"
    for read in (cold.get_warm, cold.read_in):
        with pytest.raises(ValueError, match="max_messages"):
            read("t", 0, 0, 0)
        with pytest.raises(TypeError, match="queue_offset"):
            read("t", 0, wrong)
    for look in (cold.is_warm_at, cold.read_in_at):
        with pytest.raises(TypeError, match="phy_offset"):
            look(wrong)


def test_a_query_is_read_in(cold: MessageStore) -> None:
    where = place_of(cold, COLD)
    assert not cold.is_warm_at(where)
    cold.read_in_query("t", f"k{COLD}", 32, 0, MAX_OFFSET)
    assert cold.is_warm_at(where)
    (found,) = cold.query("t", f"k{COLD}")
    assert found.queue_offset == COLD
    cold.read_in_query("t", "never", 32, 0, MAX_OFFSET)
    cold.read_in_query("t", "k7", 0, 0, MAX_OFFSET)
    assert list(cold.query("t", "never")) == []


def test_a_search_by_time_is_the_same(cold: MessageStore) -> None:
    first, last = cold.lookup(0), cold.get("t", 0, COUNT - 1).messages[0]
    assert first is not None
    assert cold.offset_by_time("t", 0, first.store_timestamp_ms - 1) == 0
    assert cold.offset_by_time("t", 0, last.store_timestamp_ms + 1) == COUNT


def test_a_file_that_was_cut_is_told_as_ever(cold: MessageStore) -> None:
    """A page that is lost is none to wait for: the read that follows meets it, and no process dies of it."""
    begin = place_of(cold, COLD) // FILE_SIZE * FILE_SIZE
    assert cold.lookup(begin) is not None  # the file is mapped
    with (cold.paths.commitlog / f"{begin:020d}").open("r+b") as file:
        file.truncate(4096)
    cold.read_in_at(place_of(cold, COLD))
    with pytest.raises(OSError, match="cut while it was open"):
        cold.get("t", 0, COLD, 4)
