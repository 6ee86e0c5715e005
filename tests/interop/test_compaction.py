"""Compacted topics: what we answer from their files is what RocketMQ answers, and RocketMQ goes on after us."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from interop.conftest import OpenJava
from interop.java_store import JavaStore
from interop.questions import NO_LIMIT
from interop.store_kinds import plain
from support.eventually import eventually
from support.stores.compacted import (
    ENTRY_FILE,
    JAVA_LOG_FILE,
    SIZES,
    TOPIC,
    clean,
    java_store,
    make_store,
)

import rmqcore
from rmqcore import Message
from rmqcore.vocabulary.status import PutMessageStatus

COMPACTED = {"cleanup.policy": "COMPACTION"}
MADE: dict[str, Any] = {
    "mappedFileSizeCommitLog": SIZES["mapped_file_size_commit_log"],
    "mappedFileSizeConsumeQueue": SIZES["mapped_file_size_consume_queue"],
    "maxHashSlotNum": SIZES["max_hash_slot_num"],
    "maxIndexNum": SIZES["max_index_num"],
    "compactionMappedFileSize": JAVA_LOG_FILE,
    "compactionCqMappedFileSize": ENTRY_FILE,
    "enableCompaction": True,
}


def ours(root: Path, asked: Mapping[str, Any]) -> dict[str, Any]:
    got = rmqcore.read(root).get(
        asked["topic"], asked["queueId"], asked["queueOffset"], asked["maxMessages"]
    )
    assert got.compacted_log
    return {
        "status": got.status.name,
        "next_begin_offset": got.next_begin_offset,
        "min_offset": got.min_offset,
        "max_offset": got.max_offset,
        "queue_offsets": [view.queue_offset for view in got],
        "messages": [[view.phy_offset, view.msg_size, zlib.crc32(view.raw)] for view in got],
    }


def compare(java: JavaStore, root: Path, topic: str) -> list[dict[str, Any]]:
    """Ask both for each offset of both queues, with several limits."""
    asked = [
        {
            "topic": topic,
            "queueId": queue_id,
            "queueOffset": queue_offset,
            "maxMessages": most,
            "maxBytes": NO_LIMIT,
        }
        for queue_id in (0, 1)
        for queue_offset in range(90)
        for most in (1, 3, 32)
    ]
    answers = java.get(asked)
    for one, answer in zip(asked, answers, strict=True):
        have = ours(root, one)
        assert have == {name: answer[name] for name in have}, one
    return answers


@pytest.mark.parametrize("files_gone", [0, 3])
def test_gets_of_several_files(files_gone: int, java_open: OpenJava, tmp_path: Path) -> None:
    root = clean(make_store(tmp_path / "store"), files_gone)
    with java_open(root, MADE, attributes={TOPIC: COMPACTED}) as java:
        answers = compare(java, root, TOPIC)
    assert {one["status"] for one in answers} >= {"FOUND", "OFFSET_OVERFLOW_ONE"}


def test_gets_of_a_brokers_store(java_open: OpenJava, tmp_path: Path) -> None:
    root = java_store(tmp_path)
    settings = {**plain(root), "enableCompaction": True}
    sizes = {"compactionMappedFileSize": 100_000, "compactionCqMappedFileSize": 4600}
    with java_open(root, {**settings, **sizes}, attributes={"Compact": COMPACTED}) as java:
        compare(java, root, "Compact")


def test_what_java_has_compacted(java_open: OpenJava, tmp_path: Path) -> None:
    root = tmp_path / "store"
    settings = {**MADE, "compactionScheduleInternal": 200}
    with java_open(root, settings, attributes={TOPIC: COMPACTED}) as java:
        java.put(
            (Message(TOPIC, b"%d" % n * (n % 40), n % 2, keys=[f"k{n % 7}"]), 1_700_000_000_000 + n)
            for n in range(200)
        )
        asked = {"topic": TOPIC, "maxMessages": 1, "maxBytes": NO_LIMIT}
        firsts = [{**asked, "queueId": queue_id, "queueOffset": 0} for queue_id in (0, 1)]

        def all_compacted() -> bool:
            return all(got["queue_offsets"] != [0] for got in java.get(firsts))

        eventually(all_compacted)
    with java_open(root, MADE, attributes={TOPIC: COMPACTED}) as java:
        answers = compare(java, root, TOPIC)
    found = {answer["min_offset"] for answer in answers}
    assert min(found) > 0
    with rmqcore.read(root) as reader:
        (topic,) = reader.compacted_topics()
        assert 14 <= topic.messages < 200
        assert len(list(reader.compacted_messages())) == topic.messages
        assert not reader.damage
    assert not {"compaction_entry", "compaction_file"} & rmqcore.fsck(root).totals.keys()


def test_java_goes_on_after_us(java_open: OpenJava, tmp_path: Path) -> None:
    root = clean(make_store(tmp_path / "store"))
    with rmqcore.open(root, **SIZES) as store:
        refused = store.put(Message(TOPIC, b"ours", 0, keys=["k1"]))
        assert refused.status is PutMessageStatus.MESSAGE_ILLEGAL
        store.put(Message("Orders", b"ours", 0)).raise_for_status()
    before = rmqcore.read(root).get(TOPIC, 0, 0).max_offset
    with java_open(root, MADE, attributes={TOPIC: COMPACTED}) as java:
        java.put([(Message(TOPIC, b"theirs", 0, keys=["k1"]), 1_700_000_500_000)])
        compare(java, root, TOPIC)
    with rmqcore.read(root) as reader:
        found = reader.get(TOPIC, 0, before)
        assert found.bodies() == [b"theirs"]
        assert not reader.damage


def test_java_never_compacts_what_has_an_entry(java_open: OpenJava, tmp_path: Path) -> None:
    """Why a put to a compacted topic is refused: Java does not dispatch the message again, and its get lacks it."""
    root = make_store(tmp_path / "store")
    (root / "compaction").rename(tmp_path / "hidden")
    with rmqcore.open(root, **SIZES) as store:
        put = store.put(Message(TOPIC, b"ours", 0, keys=["new"]))
        put.raise_for_status()
        store.wait_dispatched()
    (tmp_path / "hidden").rename(root / "compaction")
    with java_open(root, MADE, attributes={TOPIC: COMPACTED}) as java:
        java.put([(Message(TOPIC, b"theirs", 0, keys=["k1"]), 1_700_000_500_000)])
        asked = {"topic": TOPIC, "queueId": 0, "maxMessages": 32, "maxBytes": NO_LIMIT}
        (got,) = java.get([{**asked, "queueOffset": put.queue_offset}])
    assert got["queue_offsets"] == [put.queue_offset + 1]
