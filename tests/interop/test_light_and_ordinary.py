"""A queue that is light and ordinary at once: a topic named %LMQ%... gets messages of its own, and others name it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from interop.conftest import OpenJava
from interop.files import check_same_files
from interop.java_store import JavaStore
from interop.workload import LIGHT, START_MS, Put, ours
from interop.writers import Clock, put_java, put_ours

import rmqcore
from rmqcore import Message

NAMED = {"INNER_MULTI_DISPATCH": "%LMQ%x"}
COUNT = 8


def puts(*, own: bool) -> list[Put]:
    """Messages to the topic itself that name it too (`own`), or such to the topic and such that name it in turn."""
    messages = [
        Message(
            "%LMQ%x" if own or number % 2 == 0 else "t",
            b"%d" % number,
            properties=NAMED if own or number % 2 else {},
            born_timestamp_ms=1,
        )
        for number in range(COUNT)
    ]
    return [Put([message], START_MS + number) for number, message in enumerate(messages)]


def written(root: Path, puts: list[Put]) -> list[dict[str, Any]]:
    clock = Clock()
    with rmqcore.open(root, services=False, clock=clock, **ours(LIGHT)) as store:
        return put_ours(store, clock, puts)


def places(java: JavaStore) -> list[int]:
    """Where the messages begin that Java finds in the queue, one by one."""
    java.await_dispatch()
    asked = [
        {"topic": "%LMQ%x", "queueId": 0, "queueOffset": at, "maxMessages": 1}
        for at in range(COUNT)
    ]
    return [message[0] for answer in java.get(asked) for message in answer["messages"]]


def test_java_loses_every_second_message_and_finds_all_of_ours(
    java_open: OpenJava, tmp_path: Path
) -> None:
    """Java has two counters for the queue, both begin with 0: of two messages at one place the second one gets no entry."""
    given = puts(own=False)
    with java_open(tmp_path / "java", LIGHT) as java:
        got = put_java(java, given)
        assert [one["queue_offset"] for one in got] == [0, 0, 1, 1, 2, 2, 3, 3]
        assert len(places(java)) == COUNT // 2
    got = written(tmp_path / "ours", given)
    assert [one["queue_offset"] for one in got] == [0, 0, 2, 1, 4, 2, 6, 3]
    with java_open(tmp_path / "ours", LIGHT) as java:
        assert places(java) == [one["phy_offset"] for one in got]


def test_messages_that_name_their_own_queue_are_the_same_bytes(
    java_open: OpenJava, tmp_path: Path
) -> None:
    given = puts(own=True)
    with java_open(tmp_path / "java", LIGHT) as java:
        want = put_java(java, given)
        assert len(places(java)) == COUNT
    assert written(tmp_path / "ours", given) == want
    check_same_files(tmp_path / "ours", tmp_path / "java")
