"""Lookups at the edges: what is missing, damaged, or points anywhere, and arguments that are refused."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from support.oracle import records as oracle

import rmqcore
from rmqcore.codec import java_hash
from rmqcore.disk.paths import file_name
from rmqcore.offline.lookup import StoreLookup
from rmqcore.offline.queues.queue_reader import QueueFiles
from rmqcore.queries.tag_filter import TagFilter
from rmqcore.queries.time_search import Boundary, offset_by_time

NAMES = ("status", "next_begin_offset", "min_offset", "max_offset")


def reading(store: Any) -> StoreLookup:
    store.write_log()
    return StoreLookup(rmqcore.read(store.paths.root))


def answer(result: Any) -> tuple[str, int, int, int, list[int]]:
    return (
        result.status.name,
        result.next_begin_offset,
        result.min_offset,
        result.max_offset,
        [message.phy_offset for message in result.messages],
    )


def test_a_queue_without_a_directory_holds_no_message(small_store: Any) -> None:
    lookup = reading(small_store)
    assert answer(lookup.get("None", 7, 5)) == ("NO_MESSAGE_IN_QUEUE", 0, 0, 0, [])
    assert lookup.offset_by_time("None", 7, 5) == 0
    assert lookup.phy_offset_of("None", 7, 0) is None
    assert lookup.offsets("None", 7) == (0, 0)
    assert lookup.query("None", "k") == []


@pytest.mark.parametrize(
    ("offset", "status", "next_offset", "count"),
    [
        (0, "FOUND", 4, 4),
        (3, "FOUND", 4, 1),
        (4, "FOUND", 5, 1),
        (5, "OFFSET_OVERFLOW_ONE", 5, 0),
        (6, "OFFSET_OVERFLOW_BADLY", 5, 0),
        (-1, "OFFSET_TOO_SMALL", 0, 0),
    ],
)
def test_a_get_ends_with_the_queue_file(
    small_store: Any, offset: int, status: str, next_offset: int, count: int
) -> None:
    entries = [small_store.put() for _ in range(5)]
    small_store.write_queue(entries)
    wanted = [entry[0] for entry in entries[max(offset, 0) :][:count]]
    assert answer(reading(small_store).get("T", 0, offset)) == (status, next_offset, 0, 5, wanted)


def test_a_missing_middle_file_sends_to_the_next(small_store: Any) -> None:
    entries = [small_store.put() for _ in range(12)]
    directory = small_store.write_queue(entries)
    (directory / file_name(80)).unlink()
    lookup = reading(small_store)
    assert answer(lookup.get("T", 0, 5)) == ("OFFSET_FOUND_NULL", 8, 0, 12, [])
    assert answer(lookup.get("T", 0, 8))[4] == [entry[0] for entry in entries[8:]]


def test_entries_that_point_anywhere_are_passed_over(small_store: Any) -> None:
    good = [small_store.put() for _ in range(3)]
    inside = (good[1][0] + 5, 30, 0)
    wrong_size = (good[0][0], good[0][1] - 1, 0)
    far = ((1 << 63) - 1, (1 << 31) - 1, -(1 << 63))
    small_store.write_queue([inside, good[0], wrong_size, good[2]])
    small_store.write_queue([far, (4000, 500, 0), good[1]], queue_id=1)
    lookup = reading(small_store)
    assert answer(lookup.get("T", 0, 0)) == ("FOUND", 4, 0, 4, [good[0][0], good[2][0]])
    assert answer(lookup.get("T", 1, 0))[0] in ("FOUND", "MESSAGE_WAS_REMOVING")
    lookup.offset_by_time("T", 0, 1000)
    lookup.offset_by_time("T", 1, 1000, "UPPER")


def test_only_damage_is_messages_being_removed(small_store: Any) -> None:
    small_store.put()
    small_store.write_queue([(5, 40, 0), (9, 40, 0), (11, 40, 0)])
    lookup = reading(small_store)
    assert answer(lookup.get("T", 0, 1)) == ("MESSAGE_WAS_REMOVING", 3, 0, 3, [])


def test_entries_of_a_log_file_that_is_gone(small_store: Any) -> None:
    """The first log file was deleted, and the queue's first file is about it alone: Java keeps the minimum at 0."""
    entries = [small_store.put(properties={"PAD": "x" * 800}) for _ in range(8)]
    assert entries[4][0] >= 4096
    small_store.write_queue(entries)
    lookup = reading(small_store)
    (small_store.paths.commitlog / file_name(0)).unlink()
    assert answer(lookup.get("T", 0, 0)) == ("MESSAGE_WAS_REMOVING", 4, 0, 8, [])
    assert answer(lookup.get("T", 0, 4))[4] == [entry[0] for entry in entries[4:]]
    small_store.write_queue(entries[2:6], queue_id=1)
    assert lookup.offsets("T", 1) == (2, 4)
    assert answer(lookup.get("T", 1, 0)) == ("OFFSET_TOO_SMALL", 2, 2, 4, [])
    small_store.write_queue(entries[:3], queue_id=2)
    assert lookup.offsets("T", 2) == (3, 3)


def test_entries_past_the_log_do_not_count(small_store: Any) -> None:
    entries = [small_store.put() for _ in range(3)]
    small_store.write_queue(
        [*entries, (len(small_store.log), 100, 0), (len(small_store.log) + 100, 100, 0)]
    )
    assert reading(small_store).offsets("T", 0) == (0, 3)


def test_fillers_are_no_messages(small_store: Any) -> None:
    """A message lies at offset 0, where fillers seem to point; as in Java they lead past their log file."""
    entries = [small_store.put() for _ in range(3)]
    small_store.write_queue([(0, 0x7FFFFFFF, 0)] * 4 + entries, first=4)
    lookup = reading(small_store)
    assert answer(lookup.get("T", 0, 5)) == ("MESSAGE_WAS_REMOVING", 8, 5, 11, [])
    assert answer(lookup.get("T", 0, 8))[4] == [entry[0] for entry in entries]


def test_tags_by_hash_and_expression(small_store: Any) -> None:
    entries = [small_store.put(tags=tag) for tag in ("A", "B", None, "AaAa")]
    small_store.write_queue(entries)
    lookup = reading(small_store)

    def get(tags: str | None) -> list[int]:
        found = [entry[0] for entry in entries]
        return [
            found.index(message.phy_offset) for message in lookup.get("T", 0, 0, tags=tags).messages
        ]

    assert [get(tags) for tags in (None, "*", "")] == [[0, 1, 2, 3]] * 3
    assert get("A") == [0]
    assert get(" A||  B ||") == [0, 1]
    # A broker compares hashes; its clients compare the text.
    assert java_hash("BBBB") == java_hash("AaAa")
    assert get("BBBB") == [3]
    assert answer(lookup.get("T", 0, 0, tags="C")) == ("NO_MATCHED_MESSAGE", 4, 0, 4, [])
    with pytest.raises(ValueError, match="no tag"):
        lookup.get("T", 0, 0, tags=" || ")


def test_the_low_half_of_a_tags_code_is_compared() -> None:
    tags = TagFilter("A")
    assert tags.matches(65)
    assert tags.matches((1 << 40) + 65)
    assert not tags.matches(66)
    assert TagFilter("polygenelubricants").matches(-(1 << 31))
    assert TagFilter("polygenelubricants").matches(1 << 31)


def test_a_tags_code_that_is_an_address_is_looked_up_in_the_record(small_store: Any) -> None:
    """ConsumeQueueExt: the entry holds where the real code lies, an offset minus 2**63."""
    (phy_a, size_a, _), (phy_b, size_b, _) = (small_store.put(tags=tag) for tag in ("A", "B"))
    small_store.write_queue([(phy_a, size_a, -(1 << 63)), (phy_b, size_b, -2147483649)])
    lookup = reading(small_store)
    assert answer(lookup.get("T", 0, 0, tags="A"))[4] == [phy_a]
    assert answer(lookup.get("T", 0, 0, tags="B"))[4] == [phy_b]


@pytest.mark.parametrize(("max_bytes", "count"), [(0, 1), (99, 1), (None, 4), (1 << 40, 4)])
def test_one_message_always_comes(small_store: Any, max_bytes: int | None, count: int) -> None:
    small_store.write_queue([small_store.put() for _ in range(4)])
    result = reading(small_store).get("T", 0, 0, max_bytes=max_bytes)
    assert len(result.messages) == count
    assert result.buffer_total_size == sum(message.msg_size for message in result.messages)


def test_arguments_that_are_refused(small_store: Any) -> None:
    lookup = reading(small_store)
    for refused, name in (
        (lambda: lookup.get("T", 0, 0, 0), "max_messages"),
        (lambda: lookup.get("../T", 0, 0), "topic"),
        (lambda: lookup.query("T", "k", -1), "max_messages"),
        (lambda: lookup.query("T", "k", index_type="X"), "index_type"),
        (lambda: lookup.offset_by_time("T", 0, 0, "lower"), "boundary"),
    ):
        with pytest.raises(ValueError, match=name):
            refused()


@pytest.mark.parametrize(
    "msg_id", ["", "7F", "7F" * 15, "7F" * 17, "xy" * 16, "7F" * 16 + "0", "7 " * 16]
)
def test_a_text_that_is_no_message_id_is_refused(small_store: Any, msg_id: str) -> None:
    with pytest.raises(ValueError, match="32 or 56 hex digits"):
        reading(small_store).lookup_id(msg_id)


def test_message_ids(small_store: Any) -> None:
    small_store.put(store_host="10.0.0.1:10911")
    phy_offset, *_ = small_store.put(store_host="[2001:db8::1]:10911")
    lookup = reading(small_store)
    v4 = "0A00000100002A9F" + "0" * 16
    v6 = f"20010DB8000000000000000000000001{10911:08X}{phy_offset:016X}"
    for msg_id, where in ((v4, 0), (v4.lower(), 0), (f" {v6}\n", phy_offset)):
        message = lookup.lookup_id(msg_id)
        assert message is not None
        assert message.phy_offset == where
    # Another broker's id with the same offset, and numbers that are no offset.
    for other in ("0A00000200002A9F" + "0" * 16, v4[:16] + "F" * 16, v4[:16] + "7" + "F" * 15):
        assert lookup.lookup_id(other) is None


def write_index(store: Any, records: list[tuple[str, list[str], int, int]]) -> None:
    """An index file of (topic, keys, phy_offset, store timestamp)."""
    file = oracle.IndexFile(7, 100)
    for topic, keys, phy_offset, time in records:
        for key in keys:
            assert file.put(topic, key, phy_offset, time)
    store.paths.index.mkdir(parents=True, exist_ok=True)
    (store.paths.index / "20261121024846792").write_bytes(file.encode())


def test_a_query_leaves_out_what_only_has_the_hash(small_store: Any) -> None:
    assert java_hash("T#BBBB") == java_hash("T#AaAa")
    records: list[tuple[str, list[str], int, int]] = []
    for key, tag in (("AaAa", "x"), ("BBBB", "y"), ("BBBB AaAa AaAa", "x")):
        phy_offset, *_ = small_store.put(
            keys=key.split(), tags=tag, properties={"UNIQ_KEY": f"U{len(records)}"}
        )
        records.append(("T", [f"U{len(records)}", *key.split(), f"T#{tag}"], phy_offset, 1000))
    records.append(("T", ["AaAa"], 1, 1000))  # points into a record
    records.append(("Other", ["AaAa"], records[0][2], 1000))  # another topic's key
    write_index(small_store, records)
    lookup = reading(small_store)
    offsets = [record[2] for record in records]

    def query(topic: str, key: str, **options: Any) -> list[int]:
        return [
            offsets.index(message.phy_offset) for message in lookup.query(topic, key, **options)
        ]

    assert query("T", "AaAa") == [0, 2]
    assert query("T", "BBBB") == [1, 2]
    assert query("Other", "AaAa") == []
    assert query("T", "x", index_type="T") == query("T", "T#x") == [0, 2]
    assert query("T", "U1") == query("T", "U1", index_type="U") == [1]
    assert query("T", "U1", index_type="K") == []
    assert query("T", "BBBB", index_type="U") == []
    assert query("T", "AaAa", max_messages=0) == []
    assert query("T", "AaAa", begin_ms=1001) == []
    assert query("T", "AaAa", begin_ms=1000, end_ms=1000) == [0, 2]


@pytest.mark.parametrize("seed", range(20))
def test_offsets_by_time_against_a_plain_search(
    tmp_path: Path, small_store: Any, seed: int
) -> None:
    """LOWER: the first entry at or after the time; UPPER: the last at or before it."""
    rng = random.Random(seed)
    times: list[int] = []
    for _ in range(rng.randrange(1, 20)):
        times.append((times[-1] if times else 100) + rng.choice((0, 0, 1, 5)))
    directory = small_store.write_queue([(10 * i, 10, 0) for i in range(len(times))])
    queue = QueueFiles("T", 0, directory)
    end = len(times)
    for timestamp in range(98, times[-1] + 3):
        lower = next((i for i, time in enumerate(times) if time >= timestamp), end)
        upper = next((i for i in reversed(range(end)) if times[i] <= timestamp), 0)
        for boundary, want in ((Boundary.LOWER, lower), (Boundary.UPPER, upper)):
            got = offset_by_time(
                queue, 0, end, 0, timestamp, boundary, lambda phy_offset: times[phy_offset // 10]
            )
            assert (boundary, timestamp, got) == (boundary, timestamp, want)


def test_times_that_cannot_be_read_end_the_search(small_store: Any) -> None:
    directory = small_store.write_queue([(10 * i, 10, 0) for i in range(10)])
    queue = QueueFiles("T", 0, directory)
    for boundary in Boundary:
        assert offset_by_time(queue, 2, 10, 0, 500, boundary, lambda _: -1) in range(2, 11)
