"""Delayed messages: the tags code of their queue entries is the time of delivery, which messageDelayLevel says at the put.

A bit in such a tags code flipped, and the entry stayed wrong after a crash: where most of a queue's entries differed from the
log, the recovery took them for those of another messageDelayLevel, and a queue of one delayed message is all of it at once.
22 of 1,000 damaged stores kept an error of ``fsck`` for that. A level is a number of whole seconds, so a time that some level
makes is one that lies whole seconds behind the message's store time; nothing else is believed.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from support.stores.built_store import QUEUE_ENTRIES, BuiltStore

import rmqcore
from rmqcore.offline.fsck import fsck

TOPIC = "SCHEDULE_TOPIC_XXXX"
CONFIG: dict[str, Any] = {
    "mapped_file_size_commit_log": 1024,
    "mapped_file_size_consume_queue": 20 * QUEUE_ENTRIES,
    "message_index_enable": False,
}


def delayed(root: Path, count: int, *, abort: bool = True) -> BuiltStore:
    """A store with `count` messages of level 3, which is 10 s, and others."""
    store = BuiltStore(root, log_file_size=1024).fill(5)
    for _ in range(count):
        store.put(TOPIC, 2, properties={"DELAY": "3"})
    store.write(abort=abort)
    shutil.rmtree(root / "index")
    return store


def change_tags_code(store: BuiltStore, queue_offset: int, tags_code: int) -> None:
    phy_offset, size, _ = store.queues[TOPIC, 2][queue_offset]
    store.change_entry(TOPIC, 2, queue_offset, (phy_offset, size, tags_code))


def tags_codes(root: Path, count: int) -> list[int]:
    data = (root / "consumequeue" / TOPIC / "2" / f"{0:020}").read_bytes()
    return [int.from_bytes(data[at + 12 : at + 20], "big") for at in range(0, 20 * count, 20)]


def severities(root: Path) -> list[str]:
    """Of what fsck says of the queues."""
    return [finding.severity for finding in fsck(root).findings if finding.kind.startswith("cq")]


@pytest.mark.parametrize("count", [1, 2, 6])
@pytest.mark.parametrize("bit", [*range(0, 63, 4), 63])
def test_a_flipped_bit_is_healed(tmp_path: Path, count: int, bit: int) -> None:
    store = delayed(tmp_path, count)
    was = tags_codes(tmp_path, count)
    tags_code = was[-1] ^ 1 << bit
    change_tags_code(store, count - 1, tags_code - (1 << 64 if bit == 63 else 0))
    with rmqcore.open(tmp_path, services=False, **CONFIG) as opened:
        assert opened.recovery.healed_entries == 1
    assert tags_codes(tmp_path, count) == was
    assert severities(tmp_path) == []


@pytest.mark.parametrize("tags_code", [0, 1, -1, 1 << 62])
def test_no_level_makes_such_a_time(tmp_path: Path, tags_code: int) -> None:
    store = delayed(tmp_path, 1)
    was = tags_codes(tmp_path, 1)
    change_tags_code(store, 0, tags_code)
    with rmqcore.open(tmp_path, services=False, **CONFIG):
        pass
    assert tags_codes(tmp_path, 1) == was


@pytest.mark.parametrize("changed", [[0], [5], [0, 1, 2, 3, 4, 5]], ids=str)
def test_times_of_another_level_stay(tmp_path: Path, changed: list[int]) -> None:
    """The broker's messageDelayLevel was ``5s 7s 1m`` when these messages were put: they come after a minute."""
    store = delayed(tmp_path, 6)
    for queue_offset in changed:
        (record,) = (
            one
            for one in store.records
            if one.phy_offset == store.queues[TOPIC, 2][queue_offset][0]
        )
        change_tags_code(store, queue_offset, record.store_timestamp_ms + 60_000)
    before = tags_codes(tmp_path, 6)
    with rmqcore.open(tmp_path, services=False, recover="deep", **CONFIG) as opened:
        assert opened.recovery.differing_entries == 0
    assert tags_codes(tmp_path, 6) == before
    assert set(severities(tmp_path)) == {"warning"}


@pytest.mark.parametrize(("change", "problems"), [(5000, 0), (1 << 20, 1)])
def test_a_scrub_tells_of_flipped_bits_alone(tmp_path: Path, change: int, problems: int) -> None:
    store = delayed(tmp_path, 2, abort=False)
    was = tags_codes(tmp_path, 2)
    with rmqcore.open(tmp_path, services=False, **CONFIG) as opened:
        change_tags_code(store, 1, was[1] + change)
        while opened.scrub_once():
            pass
        assert len(opened.stats()["scrub"]["problems"]) == problems
