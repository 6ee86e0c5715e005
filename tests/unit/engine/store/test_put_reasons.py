"""A put that is refused says which limit it is, what was found, and the setting: it was a bare MESSAGE_ILLEGAL."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message
from rmqcore._native.put.put_result import PutResult, refused_result
from rmqcore.engine.store.puts import Puts
from rmqcore.engine.store.store import MessageStore
from rmqcore.errors import PutFailedError
from rmqcore.vocabulary.status import PutMessageStatus

REFUSED = [
    (
        Message("t", bytes(5 << 20)),
        "body of 5,242,880 bytes, maxMessageSize is 4,194,304 (max_message_size)",
    ),
    (Message("t" * 300, b""), "topic of 300 bytes, a topic has 1 to 255"),
    (Message("", b""), "topic of 0 bytes, a topic has 1 to 255"),
    (
        Message("a/b", b""),
        "topic 'a/b' cannot name a directory: expected no '/', no NUL, and neither '.' nor '..'",
    ),
    (Message("t", b"", -1), "queue_id is -1, expected 0 to 2147483647"),
    (Message("t", b"", 1 << 31), "queue_id is 2147483648, expected 0 to 2147483647"),
    (Message("t", b"", -(1 << 40)), "queue_id is -1099511627776, expected 0 to 2147483647"),
    (
        Message("t", b"", properties={"a": "b" * 40_000}),
        "properties of 40,003 bytes, a record has room for 32,767",
    ),
    (Message("t", None), "body is None, expected bytes; an empty body is b''"),  # type: ignore[arg-type]
    (
        Message("t", b"", properties={"INNER_NUM": "2"}),
        "property INNER_NUM is that of a batch in one record, which only batch queues take",
    ),
    (
        Message("t", b"", sys_flag=1 << 7),
        "sys_flag has the bit of a batch in one record (INNER_BATCH_FLAG), which only batch queues take",
    ),
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    with rmqcore.open(
        tmp_path, services=False, mapped_file_size_commit_log=1 << 24, max_index_num=100
    ) as opened:
        yield opened


@pytest.mark.parametrize(("message", "reason"), REFUSED)
def test_every_way_of_a_put_says_why(store: MessageStore, message: Message, reason: str) -> None:
    sound = Message("t", b"")
    result = store.put(message)
    assert result.reason == reason
    assert reason in repr(result) and not result.stored
    with pytest.raises(PutFailedError) as caught:
        result.raise_for_status()
    told = f"put returned {result.status.name}, nothing was stored: {reason}"
    assert str(caught.value) == str(pickle.loads(pickle.dumps(caught.value))) == told
    assert store.append(message).reason == reason
    assert store.put_batch([message]).reason == reason
    many = store.put_many([sound, message, message])
    assert (many.refused_at, many.refusal) == (1, f"message 1: {reason}")
    with pytest.raises(PutFailedError, match=r"nothing was stored: message 1: ") as caught:
        many.raise_for_status()
    assert caught.value.reason == f"message 1: {reason}"


def test_a_put_that_is_stored_has_no_reason(store: MessageStore) -> None:
    result = store.put(Message("t", b""))
    assert result.reason is None
    assert "reason" not in repr(result)
    many = store.put_many([Message("t", b"")])
    assert (many.refused_at, many.refusal) == (-1, None)


@pytest.mark.parametrize("status", PutMessageStatus)
def test_a_status_alone_says_something(status: PutMessageStatus) -> None:
    reason = refused_result(status).reason
    assert (reason is None) == (status is PutMessageStatus.PUT_OK)
    assert reason is None or len(reason) > 10


def test_stored_but_not_known_to_be_on_disk(store: MessageStore) -> None:
    result = store.put(Message("t", b"")).with_status(PutMessageStatus.FLUSH_DISK_TIMEOUT)
    with pytest.raises(PutFailedError, match=r"but the message is stored: .*syncFlushTimeout"):
        result.raise_for_status()


def test_records_that_are_too_long(tmp_path: Path) -> None:
    with rmqcore.open(
        tmp_path, services=False, mapped_file_size_commit_log=1 << 16, max_index_num=100
    ) as store:
        assert store.put(Message("t", bytes(1 << 16))).reason == (
            "record of 65,628 bytes, the largest that fits into a CommitLog file has 65,528: "
            "mappedFileSizeCommitLog is 65,536 (mapped_file_size_commit_log)"
        )


def test_batches(store: MessageStore) -> None:
    sound = Message("t", b"")
    delayed = Message("t", b"", properties={"DELAY": "1"})
    for batch, reason in (
        ([sound, Message("t", None)], "message 1: body is None"),  # type: ignore[arg-type]
        ([sound, delayed], "has the property DELAY"),
        ([Message("t", b"", sys_flag=4)], "sys_flag has a transaction type"),
        (
            [Message("t", bytes(3 << 20))] * 2,
            "batch of 6,291,500 bytes as a client sends it, maxMessageSize is 4,194,304",
        ),
    ):
        assert reason in str(store.put_batch(batch).reason)


def test_a_message_that_cannot_be_encoded_among_many(store: MessageStore) -> None:
    bad = Message("t", b"", properties={"a": "b\x02"})
    assert store.put_many([Message("t", b""), bad, bad]).refusal == (
        "message 1: property 'a'='b\\x02' holds a separator (0x01 or 0x02)"
    )


def test_light_queues_and_slaves_say_it_too(tmp_path: Path) -> None:
    sizes: Any = {"mapped_file_size_commit_log": 1 << 16, "max_index_num": 100}
    with rmqcore.open(tmp_path / "lmq", services=False, enable_lmq=True, **sizes) as store:
        long = Message("t", b"", properties={"INNER_MULTI_DISPATCH": "%LMQ%" + "q" * 40_000})
        assert "32,767" in str(store.put(long).reason)
        many = store.put_many([Message("t", b""), Message("..", b"")])
        assert str(many.refusal).startswith("message 1: topic '..' cannot name a directory")
    with rmqcore.open(tmp_path / "slave", services=False, broker_role="SLAVE", **sizes) as store:
        assert "slave" in str(store.put(Message("t", b"")).reason)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"tags": 3}, "tags: expected str or None, got int"),
        ({"tags": b"x"}, "tags: expected str or None, got bytes"),
        (
            {"body": "text"},
            r"body: expected bytes or another buffer, got str; a text is put as text.encode\(\)",
        ),
        ({"body": 5}, "body: expected bytes or another buffer, got int"),
        ({"topic": None}, "topic: expected str, got NoneType"),
        ({"keys": 5}, "keys: expected str or an iterable of str, got int"),
        ({"keys": b"ab"}, "keys: expected str or an iterable of str, got bytes"),
        ({"keys": ["a", 5]}, "keys: expected str or an iterable of str, got int"),
        ({"queue_id": "1"}, "queue_id: expected int, got str"),
        ({"flag": 1.5}, "flag: expected int, got float"),
        ({"properties": [("a", "b")]}, "properties: expected a mapping of str to str, got list"),
        ({"properties": {"a": 1}}, r"properties\['a'\]: expected str or None, got int"),
        ({"properties": {1: "a"}}, "properties: expected names that are str, got int"),
        ({"born_host": 5}, "born_host: expected str, got int"),
        (
            {"born_timestamp_ms": datetime.now(UTC)},
            r"born_timestamp_ms: expected int or None, got datetime: milliseconds since the epoch; use int\(when.*1000\)",
        ),
    ],
)
def test_an_argument_of_another_type_is_named(arguments: dict[str, Any], told: str) -> None:
    given: dict[str, Any] = {"topic": "t", "body": b"", **arguments}
    with pytest.raises(TypeError, match=f"^{told}$"):
        Message(**given)

    class Mine(Message):
        """Made through `__init__`."""

    with pytest.raises(TypeError, match=f"^{told}$"):
        Mine(**given)


def test_what_was_set_later_is_named_by_the_put(store: MessageStore) -> None:
    message = Message("t", b"")
    message.properties["a"] = 1  # type: ignore[assignment]
    with pytest.raises(TypeError, match="property: expected str, got int"):
        store.put(message)
    message = Message("t", b"")
    message.body = "text"  # type: ignore[assignment]
    with pytest.raises(TypeError, match="body: expected bytes or another buffer, got str"):
        store.put(message)
    assert "body: expected bytes" in str(store.put_many([message]).refusal)


def test_a_batch_is_put_from_a_copy_of_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch is measured first and filled then: for a while it was the caller's own list, which another thread may change."""
    given = [Message("T", b"1"), Message("T", b"2")]
    append = Puts.append_batch

    def changed_meanwhile(self: Puts, messages: list[Message]) -> PutResult:
        given.clear()
        return append(self, messages)

    monkeypatch.setattr(Puts, "append_batch", changed_meanwhile)
    with rmqcore.open(tmp_path / "store", services=False) as store:
        assert store.put_batch(given).status.name == "PUT_OK"
        store.wait_dispatched()
        assert store.max_offset("T", 0) == 2
