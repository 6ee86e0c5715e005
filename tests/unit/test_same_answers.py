"""An open store and a reader of its directory answer with the same types.

`query` was a list here and no list there, `queues` objects here and pairs there, and the reader had neither `topics` nor `close`.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message, StoreReader
from rmqcore.engine.store.store import MessageStore

NOW: Any = datetime.now(UTC)
Both = tuple[MessageStore, StoreReader]


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Both]:
    sizes: Any = {
        "mapped_file_size_commit_log": 1 << 16,
        "mapped_file_size_consume_queue": 100,
        "max_hash_slot_num": 10,
        "max_index_num": 100,
    }
    with rmqcore.open(tmp_path, services=False, **sizes) as store:
        for number in range(12):
            topic = "T" if number < 8 else "A"
            store.put(Message(topic, b"x", number % 2, "tag", f"k{number % 3}"))
        store.wait_dispatched()
        store.flush()
        with rmqcore.read(tmp_path) as reader:
            yield store, reader


def test_topics_and_queues(both: Both) -> None:
    store, reader = both
    assert store.topics() == reader.topics() == ["A", "T"]
    assert store.queues() == reader.queues() == [("A", 0), ("A", 1), ("T", 0), ("T", 1)]
    assert [queue.as_dict() for queue in store.queues()] == [
        queue.as_dict() for queue in reader.queues()
    ]
    for answer in both:
        for queue in answer.queues():
            topic, queue_id = queue
            assert (queue.topic, queue.queue_id) == (topic, queue_id)
            assert (queue.min_offset, queue.max_offset) == (0, store.max_offset(topic, queue_id))
            assert queue.file_count == 1 and queue.disk_bytes > 0
            again = pickle.loads(pickle.dumps(queue))
            assert again.as_dict() == queue.as_dict() and type(again) is type(queue)
            assert repr(queue) == (
                f"QueueInfo({topic!r}, {queue_id}, min_offset=0, max_offset={queue.max_offset})"
            )


def test_a_query(both: Both) -> None:
    store, reader = both
    one, other = store.query("T", "k1"), reader.query("T", "k1")
    assert one == other and other == one
    assert list(one) == list(other) == one.messages == other.messages
    assert len(one) == len(other) == 3 and one[0] == other[0] and one[-1] == other[-1]
    assert one[1:] == other[1:]
    for name in ("index_last_update_timestamp_ms", "index_last_update_phy_offset"):
        assert getattr(one, name) == getattr(other, name) > 0
    none, nothing = store.query("T", "none"), reader.query("T", "none")
    assert none == nothing == [] and not none and not nothing
    assert one not in (none, 3)


def test_close(both: Both) -> None:
    _, reader = both
    reader.close()
    reader.close()
    assert len(list(reader.messages())) == 12  # a reader holds nothing that it could close


@pytest.mark.parametrize("which", [0, 1])
def test_times_are_milliseconds(both: Both, which: int) -> None:
    """A datetime was "an integer is required"."""
    answer = both[which]
    told = r": milliseconds since the epoch; use int\(when.timestamp\(\) \* 1000\)$"
    with pytest.raises(TypeError, match="^begin_ms: expected int or None, got datetime" + told):
        answer.query("T", "k1", 1, NOW)
    with pytest.raises(TypeError, match="^end_ms: expected int or None, got datetime" + told):
        answer.query("T", "k1", end_ms=NOW)
    with pytest.raises(TypeError, match="^timestamp_ms: expected int or None, got datetime" + told):
        answer.offset_by_time("T", 0, NOW)


def test_the_conditions_of_a_reader(both: Both) -> None:
    """A queue id as text was "an integer is required"."""
    _, reader = both
    wrong: Any
    for name, wrong, told in (
        ("since_ms", NOW, "since_ms: expected int or None, got datetime: milliseconds"),
        (
            "until_ms",
            1.5,
            "until_ms: expected int or None, got float: milliseconds since the epoch$",
        ),
        ("topics", "T", "topics: expected an iterable of str, got the str 'T'"),
        ("tags", 3, "tags: expected an iterable of str or None, got int"),
        ("queue_ids", ["0"], "queue_ids: expected int, an iterable of int or None, got str"),
        ("queue_ids", "01", "queue_ids: expected int, an iterable of int or None, got str"),
        ("queue_ids", 1.0, "queue_ids: expected int, an iterable of int or None, got float"),
        ("keys", [5], "keys: expected an iterable of str or None, got int"),
    ):
        with pytest.raises(TypeError, match=f"^{told}"):
            list(reader.messages(**{name: wrong}))
        with pytest.raises(TypeError, match=f"^{told}"):
            reader.batches(**{name: wrong})
