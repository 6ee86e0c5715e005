"""An index that Java keeps in RocksDB: we find each message that it has, and Java continues an index beside our appends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from interop.conftest import OpenJava
from interop.java_store import JavaStore
from interop.questions import found
from interop.test_rocksdb_queues import names
from interop.workload import PLAIN, START_MS, ours
from support.eventually import eventually

import rmqcore
from rmqcore import Message
from rmqcore.codec import MessageView

BOTH = {**PLAIN, "indexRocksDBEnable": True}
ALONE = {**BOTH, "indexFileWriteEnable": False, "indexFileReadEnable": False}
TOPICS = ("Orders", "Ord@ers", "Заказы")
STEP_MS = 120_000
MESSAGES = 120
END_MS = START_MS + STEP_MS * MESSAGES * 2
MOST = 64


def message(number: int) -> tuple[Message, int]:
    """Messages of four hours; each seventh has no UNIQ_KEY, so that Java makes no entry of it."""
    made = Message(
        TOPICS[number % 3],
        b"body %d" % number,
        number % 2,
        tags="TagA" if number % 2 else "Tag@B",
        keys=[f"k{number % 10}", f"a@K@{number % 5}"],
        properties={"UNIQ_KEY": f"U{number:03d}"} if number % 7 else {},
    )
    return made, START_MS + number * STEP_MS


def questions(views: list[MessageView]) -> list[tuple[str, str, str]]:
    """Each topic, key and type that a message has."""
    asked = {(view.topic, key, "K") for view in views for key in view.keys}
    asked |= {(view.topic, view.tags, "T") for view in views if view.tags}
    asked |= {(view.topic, view.uniq_key, "U") for view in views if view.uniq_key}
    return sorted(asked)


def ask_java(java: JavaStore, asked: list[tuple[str, str, str]]) -> list[Any]:
    requests = [
        {
            "topic": topic,
            "key": key,
            "maxMessages": MOST,
            "beginMs": START_MS,
            "endMs": END_MS,
            "indexType": index_type,
        }
        for topic, key, index_type in asked
    ]
    return [answer["messages"] for answer in java.query(requests)]


def is_entered(java: JavaStore, last: Message) -> bool:
    """Return True if the index has the last message: a thread of its own enters messages."""
    return bool(ask_java(java, [(last.topic, last.properties["UNIQ_KEY"], "U")])[0])


@pytest.mark.parametrize("config", [ALONE, BOTH], ids=["alone", "both"])
def test_we_find_what_java_has_entered(
    config: dict[str, Any], java_open: OpenJava, tmp_path: Path
) -> None:
    puts = [message(number) for number in range(MESSAGES)]
    with java_open(
        tmp_path, ALONE if config is ALONE else {**BOTH, "indexFileReadEnable": False}
    ) as java:
        java.put(puts)
        java.await_dispatch()
        eventually(lambda: is_entered(java, puts[-2][0]))
        reader = rmqcore.read(tmp_path)
        views = list(reader.messages())
        asked = questions(views)
        want = ask_java(java, asked)
    assert (tmp_path / "index").is_dir() == (config is BOTH)
    before = names(tmp_path)
    with_entry = {view.phy_offset for view in views if view.uniq_key}
    for (topic, key, index_type), answer in zip(asked, want, strict=True):
        got = reader.query(topic, key, MOST, START_MS, END_MS, index_type=index_type)
        assert got.unasked_files == []
        in_index = [view for view in got if config is ALONE or view.phy_offset in with_entry]
        assert found(in_index) == answer, (topic, key, index_type)
        assert reader.query(topic, key, MOST, index_type=index_type) == got
    report = rmqcore.fsck(tmp_path)
    assert (report.exit_code, report.totals) == (0, {})
    assert report.counts["index_entries"] >= 408
    assert rmqcore.doctor(tmp_path).exit_code == 0
    assert names(tmp_path) == before, "nothing is written, no lock is made"


def test_java_enters_what_we_append(java_open: OpenJava, tmp_path: Path) -> None:
    with java_open(tmp_path, ALONE) as java:
        java.put([message(number) for number in range(30)])
        java.await_dispatch()
    clock = iter(range(START_MS + 31 * STEP_MS, END_MS, STEP_MS))
    with rmqcore.open(tmp_path, clock=lambda: next(clock), services=False, **ours(PLAIN)) as store:
        for number in range(30, 60):
            store.put(message(number)[0]).raise_for_status()
    with java_open(tmp_path, ALONE) as java:
        java.await_dispatch()
        eventually(lambda: is_entered(java, message(59)[0]))
        views = [view for view in rmqcore.read(tmp_path).messages() if view.uniq_key]
        want = [
            found([view for view in views if (view.topic, view.uniq_key) == (topic, key)])
            for topic, key, index_type in questions(views)
            if index_type == "U"
        ]
        assert ask_java(java, [one for one in questions(views) if one[2] == "U"]) == want
