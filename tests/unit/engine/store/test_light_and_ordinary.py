"""A queue that is light and ordinary at once: a topic named %LMQ%... gets messages of its own, and others name it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message
from rmqcore.engine.dispatch import dispatcher
from rmqcore.errors import StoreClosedError
from rmqcore.offline.fsck import fsck
from rmqcore.vocabulary.status import PutMessageStatus as Status

SETTINGS: dict[str, Any] = {
    "services": False,
    "enable_lmq": True,
    "enable_multi_dispatch": True,
    "mapped_file_size_commit_log": 1 << 12,
    "mapped_file_size_consume_queue": 100,
}
NAMED = {"INNER_MULTI_DISPATCH": "%LMQ%x"}


def mixed(number: int) -> Message:
    """Every second message goes to the topic itself; of the others every fourth names another queue too."""
    body = b"%d" % number
    if number % 2 == 0:
        return Message("%LMQ%x", body, keys=f"k{number}")
    names = {"INNER_MULTI_DISPATCH": "%LMQ%y,%LMQ%x"} if number % 4 == 3 else NAMED
    return Message("t", body, properties=names)


@pytest.mark.parametrize("rows", [1, 3, 8192])
@pytest.mark.parametrize("each", [1, 7, 100])
def test_every_message_has_its_place(
    tmp_path: Path, each: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a batch the ordinary entries came first, with fillers between them; the light ones were repeats then, and lost."""
    monkeypatch.setattr(dispatcher, "NEAR_ROWS", rows)
    with rmqcore.open(tmp_path / "store", **SETTINGS) as store:
        for number in range(100):
            store.put(mixed(number)).raise_for_status()
            if number % each == 0:
                store.wait_dispatched()
        store.wait_dispatched()
        assert store.max_offset("%LMQ%x", 0) == 100
        assert store._queues.gaps == 0
        for number in range(100):
            (view,) = store.get("%LMQ%x", 0, number, 1).messages
            assert bytes(view.body) == b"%d" % number
        assert [bytes(v.body) for v in store.query("%LMQ%x", "k8").messages] == [b"8"]
        assert store.max_offset("%LMQ%y", 0) == 25
    assert [one for one in fsck(tmp_path / "store").findings if one.severity != "info"] == []


def test_put_many_answers_as_in_other_stores(tmp_path: Path) -> None:
    """With light queues a message that cannot be stored raised in the middle, and nobody learned what was stored before it."""
    with rmqcore.open(tmp_path / "store", **SETTINGS) as store:
        wrong: list[Any] = [Message("t", b""), "no message"]
        with pytest.raises(TypeError, match="message 1 is a str, expected a Message"):
            store.put_many(wrong)
        assert store.max_phy_offset == 0
        text: Any = Message("t", b"")
        text.body = "text"
        for bad in (
            text,
            Message("t", b"", flag=1 << 40),
            Message("t", b"", properties={"a\1": ""}),
        ):
            result = store.put_many([mixed(0), bad, mixed(1)])
            assert list(result.statuses) == [Status.PUT_OK, Status.MESSAGE_ILLEGAL, Status.PUT_OK]

        put, calls = store._puts.append_one, iter(range(4))

        def put_until_closed(message: Message) -> Any:
            if next(calls) == 2:
                store.close()
            return put(message)

        store._puts.append_one = put_until_closed
        result = store.put_many([mixed(number) for number in range(4)])
        assert list(result.statuses) == [Status.PUT_OK] * 2 + [Status.SERVICE_NOT_AVAILABLE] * 2
        with pytest.raises(StoreClosedError):
            store.put_many([mixed(0)])


def test_a_message_that_names_its_own_queue(tmp_path: Path) -> None:
    """It has one entry there, and moved the counter by two: every second place was a filler."""
    with rmqcore.open(tmp_path / "store", **SETTINGS) as store:
        for number in range(10):
            result = store.put(Message("%LMQ%x", b"%d" % number, properties=NAMED))
            assert result.queue_offset == number
        # Of queue 1 the light queue is another one.
        store.put(Message("%LMQ%x", b"other", 1, properties=NAMED)).raise_for_status()
        store.wait_dispatched()
        assert (store.max_offset("%LMQ%x", 0), store.max_offset("%LMQ%x", 1)) == (11, 1)
        for number, body in enumerate([*b"0123456789", None]):
            (view,) = store.get("%LMQ%x", 0, number, 1).messages
            assert bytes(view.body) == (b"other" if body is None else bytes([body]))
        assert store._queues.gaps == 0


@pytest.mark.parametrize("count", [8, 9, 100])
@pytest.mark.parametrize("lost", [True, False])
def test_a_crash_keeps_every_place(tmp_path: Path, count: int, lost: bool) -> None:
    """Recovery compared the own entries of a batch first: the light ones seemed to begin a second life, and had the places."""
    root = tmp_path / "store"
    with rmqcore.open(root, **SETTINGS) as store:
        for number in range(count):
            store.put(mixed(number)).raise_for_status()
        store.wait_dispatched()
    if lost:
        shutil.rmtree(root / "consumequeue")
    (root / "abort").write_text("1")
    with rmqcore.open(root, **SETTINGS) as store:
        store.wait_dispatched()
        assert store.max_offset("%LMQ%x", 0) == count
        for number in range(count):
            (view,) = store.get("%LMQ%x", 0, number, 1).messages
            assert bytes(view.body) == b"%d" % number
        assert store.put(Message("%LMQ%x", b"next")).queue_offset == count
    assert [one for one in fsck(root).findings if one.severity != "info"] == []
