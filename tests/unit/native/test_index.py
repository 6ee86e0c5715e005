"""Index kernels: header, key hash, and chains that damage cannot turn into loops."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from support.oracle import records as oracle

from rmqcore._native.index.index_reader import (
    ChainWalk,
    IndexCheck,
    IndexHeader,
    decode_header,
    encode_header,
)
from rmqcore.codec import index_key_hash

FOREVER = (1 << 63) - 1
Entry = tuple[int, int, int, int]


def packed(entries: list[Entry]) -> bytes:
    """Entries (hash, offset, seconds, previous) from index 0 on."""
    return b"".join(struct.pack(">iqii", *entry) for entry in entries)


def header(index_count: int, begin_ms: int = 1_000_000) -> IndexHeader:
    return IndexHeader(begin_ms, begin_ms, 0, 0, 0, index_count)


def walk_all(
    entries: list[Entry], start: int, *, count: int | None = None, window: int = 1000
) -> ChainWalk:
    """Walks in windows of a few entries, and ends by itself."""
    walk = ChainWalk(header(count or len(entries)), 7, start, 0, FOREVER)
    data = packed(entries)
    for _ in range(len(entries) + 1):
        if not walk.next_index:
            return walk
        first = max(0, walk.next_index - window + 1)
        walk.step(data[20 * first : 20 * (walk.next_index + 1)], first, 100)
    raise AssertionError("the walk does not end")


def test_the_header_is_40_big_endian_bytes() -> None:
    fields = ((1 << 63) - 1, -1, -(1 << 63), 3, (1 << 31) - 1, -(1 << 31))
    data = struct.pack(">qqqqii", *fields)
    assert encode_header(fields) == data
    assert decode_header(data + b"more") == IndexHeader(*fields)
    for length in (0, 39):
        with pytest.raises(ValueError, match=f"40 bytes, got {length}"):
            decode_header(data[:length])


def key_with_java_hash(prefix: str, wanted: int) -> str:
    """Seven letters after a prefix that give the whole a wanted String.hashCode: its digits in base 31."""
    rest = (wanted - oracle.java_hash(prefix + "a" * 7)) % (1 << 32)
    digits = []
    for _ in range(7):
        rest, digit = divmod(rest, 31)
        digits.append(chr(ord("a") + digit))
    return "".join(reversed(digits))


@pytest.mark.parametrize(
    "key", ["", "k", "ORDER_1", "Schlüssel", "钥匙", "\U0001f600", "T#TagA", "a#b"]
)
def test_the_hash_is_javas_over_topic_and_key(key: str) -> None:
    assert index_key_hash("Topic", key) == oracle.index_key_hash("Topic", key)


@pytest.mark.parametrize(
    ("java_hash", "wanted"), [(-(1 << 31), 0), (-1, 1), (0, 0), ((1 << 31) - 1, (1 << 31) - 1)]
)
def test_hashes_are_made_positive_as_java_does(java_hash: int, wanted: int) -> None:
    key = key_with_java_hash("Topic#", java_hash)
    assert oracle.java_hash(f"Topic#{key}") == java_hash
    assert index_key_hash("Topic", key) == wanted


def test_a_walk_gives_matches_newest_first() -> None:
    entries = [(0, 0, 0, 0), (7, 100, 0, 0), (8, 150, 1, 1), (7, 200, 2, 2), (7, 300, 3, 3)]
    walk = ChainWalk(header(5), 7, 4, 0, FOREVER)
    assert walk.step(packed(entries), 0, 64) == [300, 200, 100]
    assert (walk.next_index, walk.broken_index) == (0, 0)


@pytest.mark.parametrize(
    ("begin", "end", "wanted"),
    [
        (0, 1_000, []),
        (0, 1_000_000, [100]),
        (1_001_000, 1_002_000, [200]),
        (1_001_001, FOREVER, [300, 200]),
    ],
)
def test_times_are_whole_seconds_after_the_files_begin(
    begin: int, end: int, wanted: list[int]
) -> None:
    entries = [(0, 0, 0, 0), (7, 100, 0, 0), (7, 200, 2, 1), (7, 300, 3, 2)]
    walk = ChainWalk(header(4), 7, 3, begin, end)
    assert walk.step(packed(entries), 0, 64) == wanted


def test_a_full_answer_can_be_continued() -> None:
    entries = [(0, 0, 0, 0)] + [(7, 100 * i, 0, i - 1) for i in range(1, 6)]
    walk = ChainWalk(header(6), 7, 5, 0, FOREVER)
    assert walk.step(packed(entries), 0, 2) == [500, 400]
    assert walk.next_index == 3
    assert walk.step(packed(entries), 0, 0) == []
    assert walk.step(packed(entries), 0, 64) == [300, 200, 100]


def test_a_window_that_does_not_hold_the_entry_changes_nothing() -> None:
    walk = ChainWalk(header(10), 7, 5, 0, FOREVER)
    for window, first in ((b"", 5), (packed([(7, 1, 0, 0)]), 6), (packed([(7, 1, 0, 0)])[:19], 5)):
        assert walk.step(window, first, 64) == []
        assert walk.next_index == 5


@pytest.mark.parametrize("window", [1, 2, 1000])
@pytest.mark.parametrize(
    ("previous", "broken"),
    [(3, 3), (4, 3), (9, 3), ((1 << 31) - 1, 3), (0, 0), (-1, 0), (-(1 << 31), 0)],
)
def test_a_chain_that_does_not_go_down_ends(window: int, previous: int, broken: int) -> None:
    entries = [(0, 0, 0, 0), (7, 100, 0, 0), (7, 200, 0, 1), (7, 300, 0, previous), (7, 400, 0, 3)]
    walk = walk_all(entries, 4, window=window)
    assert (walk.next_index, walk.broken_index) == (0, broken)


@pytest.mark.parametrize("slot", [0, -1, 5, (1 << 31) - 1, -(1 << 31)])
def test_a_slot_that_holds_no_entry_gives_nothing(slot: int) -> None:
    assert walk_all([(7, 100, 0, 0)] * 5, slot).next_index == 0


def test_a_negative_time_ends_the_chain() -> None:
    walk = ChainWalk(header(3), 7, 2, 0, FOREVER)
    assert walk.step(packed([(0, 0, 0, 0), (7, 100, 0, 0), (7, 200, -1, 1)]), 0, 64) == []
    assert walk.next_index == 0


def test_a_begin_at_the_end_of_time_does_not_overflow() -> None:
    walk = ChainWalk(header(2, begin_ms=FOREVER), 7, 1, 0, FOREVER)
    assert walk.step(packed([(0, 0, 0, 0), (7, 100, (1 << 31) - 1, 0)]), 0, 64) == [100]


def test_a_check_counts_all_findings_and_keeps_some() -> None:
    check = IndexCheck(np.ones(4, np.int32), 2)
    check.entries(packed([(-1, 100, 0, 0)] * 5))
    assert (check.finding_count, len(check.findings), check.next_index) == (5, 2, 6)
    assert check.findings[0] == (1, "keyHash", 0, -1)


def test_a_check_needs_slots_and_stays_within_them() -> None:
    with pytest.raises(ValueError, match="at least one slot"):
        IndexCheck(np.empty(0, np.int32), 10)
    check = IndexCheck(np.empty(4, np.int32), 10)
    check.slots(bytes(16), 0)
    for first in (1, 4, 100):
        with pytest.raises(ValueError, match="past the 4 slots"):
            check.slots(bytes(16), first)
    assert check.finding_count == 0
