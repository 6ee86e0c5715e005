"""A topic that was deleted and made again is empty, whatever happens between the steps."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.broker import FakeLoop
from support.sends import SMALL, Sender, send

import rmqcore
from rmqcore.broker.config_files import ConfigFiles, Snapshot
from rmqcore.broker.state.deleted_topics import DeletedTopics, begin_phy_offset
from rmqcore.disk.config_files import read_config_file
from rmqcore.errors import StoreFormatError
from rmqcore.remoting.bodies.topic_configs import TopicConfig
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.request_fields import Value, encode_fields

PLACE: dict[str, Value] = {"topic": "orders", "queueId": 0}
OLD = 250
"""Messages that are deleted: queue files of these tests have 100 entries."""


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Sender]:
    made = start(tmp_path)
    yield made
    made.close()


def start(folder: Path, **store: Any) -> Sender:
    """Start a broker, with the topic of the tests."""
    made = Sender(folder, store=store)
    make_topic(made)
    return made


def make_topic(client: Sender) -> None:
    done: list[None] = []
    client.broker.topics.update(TopicConfig("orders", 1, 1), lambda: done.append(None))
    client.loop.run_until(lambda: bool(done))


def ask(client: Sender, code: RequestCode, **fields: Value) -> RemotingCommand:
    return client.ask(RemotingCommand(code, ext_fields=encode_fields(code, fields)))


def fill(client: Sender, bodies: int, name: str) -> None:
    for number in range(bodies):
        assert client.ask(send(body=f"{name}{number}".encode())).code == ResponseCode.SUCCESS
    assert client.store.wait_dispatched(60)


def delete(client: Sender) -> None:
    answer = ask(client, RequestCode.DELETE_TOPIC_IN_BROKER, topic="orders")
    assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, None)


def limits(client: Sender) -> tuple[int, int]:
    return client.store.min_offset("orders", 0), client.store.max_offset("orders", 0)


def visible(client: Sender) -> list[bytes]:
    """Bodies of all messages from the queue's first offset on."""
    found: list[bytes] = []
    queue_offset, end = limits(client)
    while queue_offset < end:
        got = client.store.get("orders", 0, queue_offset)
        found += [message.body for message in got.messages]
        queue_offset = got.next_begin_offset
    return found


def test_a_topic_made_again_is_empty(client: Sender) -> None:
    fill(client, OLD, "old")
    delete(client)
    make_topic(client)
    assert limits(client) == (OLD, OLD)
    for code, expected in (("GET_MIN_OFFSET", OLD), ("GET_MAX_OFFSET", OLD)):
        assert ask(client, RequestCode[code], **PLACE).ext_fields == {"offset": str(expected)}
    fill(client, 2, "new")
    assert visible(client) == [b"new0", b"new1"]
    # A search by time finds none of the old messages, though all are as old.
    answer = ask(client, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, **PLACE, timestamp=0)
    assert answer.ext_fields["offset"] == str(OLD)


@pytest.mark.parametrize("check_bytes", [0, 1 << 30])
@pytest.mark.parametrize("is_clean", [True, False])
def test_it_stays_empty_over_restarts(
    client: Sender, tmp_path_factory: pytest.TempPathFactory, is_clean: bool, check_bytes: int
) -> None:
    fill(client, OLD, "old")
    delete(client)
    make_topic(client)
    fill(client, 1, "new")
    copy = tmp_path_factory.mktemp("copy") / "store"
    client.store.flush()
    shutil.copytree(client.store.paths.root, copy, ignore=shutil.ignore_patterns("lock"))
    if is_clean:
        start(copy).close()
    for _ in range(2):
        again = start(copy, recover_check_bytes=check_bytes)
        assert visible(again) == [b"new0"]
        again.close()


def test_a_group_that_is_new_gets_all_that_a_topic_made_again_has(client: Sender) -> None:
    query = partial(
        ask, client, RequestCode.QUERY_CONSUMER_OFFSET, **PLACE, consumerGroup="readers"
    )
    fill(client, 3, "old")
    assert query().ext_fields == {"offset": "0"}
    delete(client)
    make_topic(client)
    assert query().code == ResponseCode.QUERY_NOT_FOUND
    fill(client, 1, "new")
    assert query().ext_fields == {"offset": "3"}


def test_offsets_of_groups_are_gone_for_good(client: Sender) -> None:
    fill(client, 3, "old")
    client.broker.offsets.commit("readers", "orders", 0, 3)
    client.broker.offsets.commit("readers", "other", 0, 4)
    client.broker.offsets.save_if_changed()
    delete(client)
    saved = read_config_file(client.store.paths, "config/consumerOffset.json")
    assert saved is not None
    assert saved["offsetTable"] == {"other@readers": {"0": 4}}


def test_messages_are_hidden_on_disk_before_the_topic_is_forgotten(
    client: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill between two writes leaves a topic that is still there, or one that is deleted and hidden."""
    fill(client, 3, "old")
    write = client.broker.config_files._write
    seen: list[tuple[str, bool, bool]] = []

    def writing(name: str, snapshot: Snapshot) -> None:
        write(name, snapshot)
        config = client.store.paths.config
        there = "orders" in json.loads((config / "topics.json").read_text())["topicConfigTable"]
        seen.append((name, there, (config / "deletedTopics.json").exists()))

    monkeypatch.setattr(client.broker.config_files, "_write", writing)
    start_of_delete = RemotingCommand(
        RequestCode.DELETE_TOPIC_IN_BROKER, ext_fields={"topic": "orders"}
    )
    client.start(start_of_delete)
    client.broker.topics.update(TopicConfig("another", 1, 1))  # writes the file while it goes on
    client.loop.run_until(
        lambda: bool(client.channel.sent) and not client.broker.topics.get("orders")
    )
    client.loop.run_until(lambda: any(not there for _, there, _ in seen))
    assert all(there or hidden for _, there, hidden in seen)
    assert next(name for name, there, _ in seen if not there) == "topics.json"


def test_a_topic_stays_if_the_disk_fails(client: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(client, 3, "old")

    def fails(least_pages: int = 0) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(client.store, "flush", fails)
    answer = ask(client, RequestCode.DELETE_TOPIC_IN_BROKER, topic="orders")
    monkeypatch.undo()
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert client.broker.topics.get("orders") is not None
    assert limits(client) == (0, 3)


def test_queues_of_an_unknown_topic_are_hidden_too(client: Sender) -> None:
    fill(client, 3, "old")
    delete(client)
    delete(client)
    make_topic(client)
    assert limits(client) == (3, 3)
    ask(client, RequestCode.DELETE_TOPIC_IN_BROKER, topic="never-there")
    saved = read_config_file(client.store.paths, "config/deletedTopics.json")
    assert saved is not None
    assert list(saved["beginPhyOffsetTable"]) == ["orders"]


def test_a_log_that_has_lost_its_end_hides_nothing_new(tmp_path: Path) -> None:
    first = start(tmp_path)
    fill(first, 3, "old")
    end = first.store.max_phy_offset
    first.close()
    (tmp_path / "config" / "deletedTopics.json").write_text(
        json.dumps({"beginPhyOffsetTable": {"orders": end + 100_000}})
    )
    for number in range(2):
        again = start(tmp_path)
        fill(again, 1, "new")
        assert visible(again) == [b"new0"] * (number + 1)
        again.close()


@pytest.mark.parametrize("text", ["{", '{"beginPhyOffsetTable": {"orders": "far"}}', "[]"])
def test_a_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "deletedTopics.json").write_text(text)
    with rmqcore.open(tmp_path, **SMALL) as store:
        files = ConfigFiles(store.paths, FakeLoop())
        with pytest.raises(StoreFormatError, match=r"deletedTopics\.json"):
            DeletedTopics(files, store)
        files.close()


def test_a_kill_between_two_renames_leaves_the_backup(client: Sender) -> None:
    fill(client, 3, "old")
    delete(client)
    paths = client.store.paths
    begin = begin_phy_offset(paths, "orders")
    assert begin == client.store.max_phy_offset
    file = paths.config / "deletedTopics.json"
    file.rename(f"{file}.bak")
    assert begin_phy_offset(paths, "orders") == begin
    assert begin_phy_offset(paths, "another") == 0
