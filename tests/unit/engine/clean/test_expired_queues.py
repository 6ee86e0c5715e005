"""Queues whose messages have all left the log: deleted when somebody asks for it, as mqadmin cleanExpiredCQ does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.stores.many_files import NOON, fill, settings, settle

import rmqcore
from rmqcore import Message, MessageStore
from rmqcore.engine.queues.consume_queues import ConsumeQueues
from rmqcore.engine.queues.expired import delete_all_files
from rmqcore.errors import StoreFailedError
from rmqcore.offline.fsck import fsck

SETTINGS = settings(64 << 10, file_reserved_time=10)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(root: Path) -> Iterator[MessageStore]:
    """Topics Old, Young and one of RocketMQ's own had messages in a file that is gone; Young has one in the last file too."""
    with rmqcore.open(root, **SETTINGS) as opened:
        for number in range(25):
            for topic in ("Old", "Young", "RMQ_SYS_TRACE_TOPIC"):
                opened.put(Message(topic, b"x", 1, keys=f"k{number}")).raise_for_status()
        fill(opened, 3)
        opened.put(Message("Young", b"y", 1)).raise_for_status()
        settle(opened)
        opened.clean_once(now_ms=NOON, disk_ratio=0.87)
        assert opened.min_phy_offset > 0
        yield opened


def test_a_queue_without_a_message_goes_and_the_others_stay(
    store: MessageStore, root: Path
) -> None:
    assert ("Old", 1) in store.queues()
    assert store.clean_expired_consume_queues() == [("Old", 1)]
    assert not (root / "consumequeue" / "Old" / "1").exists()
    assert {topic for topic, _ in store.queues()} == {"RMQ_SYS_TRACE_TOPIC", "T0", "T1", "Young"}
    assert "Old" not in store.topics()
    assert store.clean_expired_consume_queues() == []
    assert store.get("Old", 1, 0).status.name == "NO_MESSAGE_IN_QUEUE"


def test_its_next_message_begins_at_0(store: MessageStore, root: Path) -> None:
    """Java forgets the queue's offset with the queue: after a restart it would begin at 0 as well."""
    store.clean_expired_consume_queues()
    result = store.put(Message("Old", b"new", 1, keys="k0"))
    assert result.queue_offset == 0
    settle(store)
    assert [view.body for view in store.get("Old", 1, 0).messages] == [b"new"]
    assert ("Old", 1) in store.queues()
    store.close()
    assert fsck(root).exit_code == 0
    with rmqcore.open(root, **SETTINGS) as again:
        assert [view.body for view in again.get("Old", 1, 0).messages] == [b"new"]
        assert again.put(Message("Old", b"newer", 1)).queue_offset == 1


def test_a_queue_whose_next_message_is_in_the_log_stays(store: MessageStore) -> None:
    store.put(Message("Old", b"on its way", 1))
    assert store.clean_expired_consume_queues() == []
    settle(store)
    assert [view.body for view in store.get("Old", 1, 25).messages] == [b"on its way"]


def test_a_put_that_comes_between_keeps_its_queue_offset(
    store: MessageStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue is deleted, and its next offset is asked for once more: two messages at one offset would be one that is lost."""

    def slowly(*what: object) -> None:
        assert store.put(Message("Old", b"between", 1)).queue_offset == 25
        delete_all_files(*what)  # type: ignore[arg-type]

    monkeypatch.setattr(f"{ConsumeQueues.__module__}.delete_all_files", slowly)
    assert store.clean_expired_consume_queues() == [("Old", 1)]
    assert store.put(Message("Old", b"after it", 1)).queue_offset == 26
    settle(store)
    with store.get("Old", 1, 25) as result:
        assert [view.body for view in result.messages] == [b"between", b"after it"]
    assert (store.min_offset("Old", 1), store.max_offset("Old", 1)) == (25, 27)
    store.close()
    assert fsck(root).exit_code == 0


def test_a_file_that_cannot_be_deleted_fails_the_store(
    store: MessageStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted", "consumequeue/Old/1")

    monkeypatch.setattr(f"{ConsumeQueues.__module__}.delete_all_files", refuse)
    with pytest.raises(StoreFailedError, match="Old/1"):
        store.clean_expired_consume_queues()
    assert store.failed
    monkeypatch.undo()
    store.close()
    with rmqcore.open(root, **SETTINGS) as again:
        assert again.max_offset("Old", 1) == 25
