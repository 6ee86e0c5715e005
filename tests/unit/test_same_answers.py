"""An open store and a reader of its directory answer with the same types.

`query` was a list here and no list there, `queues` objects here and pairs there, and the reader had neither `topics` nor `close`.
Then the answer of `get` had `with`, `len`, `bodies` and `buffers` here and none of them there, where `get` took no `max_bytes`.
"""

from __future__ import annotations

import contextlib
import inspect
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
SYNTAX = {"__enter__", "__exit__", "__len__", "__iter__"}
NUMBERS_OF_GET = (
    "status", "next_begin_offset", "min_offset", "max_offset", "buffer_total_size", "suggest_pulling_from_slave",
)  # fmt: skip
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


def test_what_both_have_is_asked_in_the_same_way() -> None:
    shared = {name for name in dir(StoreReader) if not name.startswith("_")} & set(
        dir(MessageStore)
    )
    assert shared >= {"get", "query", "lookup", "lookup_id", "offset_by_time", "queues", "topics"}
    for name in sorted(shared):
        ways = [inspect.signature(getattr(kind, name)) for kind in (MessageStore, StoreReader)]
        asked = [
            [(one.name, one.kind, one.default) for one in way.parameters.values()] for way in ways
        ]
        assert asked[0] == asked[1], name


def names_of(answer: object) -> set[str]:
    """What a user may do with an answer: its public names, and what `with`, `len` and `for` need."""
    return {name for name in dir(answer) if not name.startswith("_")} | {
        name for name in SYNTAX if hasattr(answer, name)
    }


def test_the_answers_have_the_same_names(both: Both) -> None:
    store, reader = both
    assert names_of(store.get("T", 0, 0)) == names_of(reader.get("T", 0, 0)) >= SYNTAX
    assert names_of(store.query("T", "k1")) <= names_of(reader.query("T", "k1"))  # which is a list
    assert names_of(store.lookup(0)) == names_of(reader.lookup(0))
    assert names_of(store.queues()[0]) == names_of(reader.queues()[0])


@pytest.mark.parametrize("most", [1, 3, 1 << 70])
@pytest.mark.parametrize("tags", [None, "*", "tag", "none || tag", "none"])
@pytest.mark.parametrize("max_bytes", [None, -1, 0, 100, 250, 251, 400, 1 << 70])
def test_a_get(both: Both, most: int, tags: str | None, max_bytes: int | None) -> None:
    for queue_id in (0, 1, 7, True):
        for queue_offset in (-1, 0, 2, 3, 4, 5, 1 << 70):
            asked = ("T", queue_id, queue_offset, most)
            with contextlib.ExitStack() as held:
                store, reader = both
                one = held.enter_context(store.get(*asked, tags=tags, max_bytes=max_bytes))
                other = held.enter_context(reader.get(*asked, tags=tags, max_bytes=max_bytes))
                for name in NUMBERS_OF_GET:
                    assert getattr(one, name) == getattr(other, name), (name, asked)
                assert list(one) == list(other) == one.messages == other.messages
                assert len(one) == len(other) and bool(one) == bool(other)
                assert one.bodies() == other.bodies()
                assert list(map(bytes, one.buffers())) == list(map(bytes, other.buffers()))
                assert repr(one) == repr(other).replace("OfflineGetResult", "GetResult")


def test_a_get_is_let_go(both: Both) -> None:
    for answer in both:
        with answer.get("T", 0, 0) as result:
            kept = result.messages
        assert len(kept) == 4 and kept[0].body == b"x"
        assert len(result) == 0 and not result and not result.messages
        assert list(result) == result.bodies() == result.buffers() == []
        assert result.status.name == "FOUND" and result.buffer_total_size > 0
        result.release()


def test_neighbours_are_one_buffer(tmp_path: Path) -> None:
    sizes: Any = {"mapped_file_size_commit_log": 4096, "max_hash_slot_num": 10, "max_index_num": 99}
    with rmqcore.open(tmp_path, services=False, **sizes) as store:
        for number in range(30):
            store.put(Message("T", bytes(300), int(number % 7 == 3)))
        store.wait_dispatched()
        store.flush()
        ours = store.get("T", 0, 0).buffers()
        theirs = rmqcore.read(tmp_path).get("T", 0, 0).buffers()
        assert len(ours) == len(theirs) > 4, "apart by the other queue, and by the ends of files"
        assert ours == theirs and all(buffer.readonly for buffer in theirs)


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
    with pytest.raises(TypeError, match="^begin_ms: expected int, got datetime" + told):
        answer.query("T", "k1", 1, NOW)
    with pytest.raises(TypeError, match="^end_ms: expected int or None, got datetime" + told):
        answer.query("T", "k1", end_ms=NOW)
    with pytest.raises(TypeError, match="^timestamp_ms: expected int, got datetime" + told):
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
