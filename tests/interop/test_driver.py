"""The driver itself: what it answers, how it fails, and that a store it wrote is the same when it opens it again."""

from __future__ import annotations

from pathlib import Path

import pytest
from interop.conftest import OpenJava
from interop.java_process import JavaError, JavaProcess
from interop.java_store import JavaStore

from rmqcore import Message

SIZES = {
    "mappedFileSizeCommitLog": 16384,
    "mappedFileSizeConsumeQueue": 400,
    "maxHashSlotNum": 100,
    "maxIndexNum": 1000,
}
NOW = 1_700_000_000_000


def put_some(store: JavaStore, count: int) -> None:
    store.put((Message("T", bytes(100), i % 2, "A", [f"k{i}"]), NOW + i) for i in range(count))
    store.await_dispatch()


def test_put_and_every_answer(java_open: OpenJava, tmp_path: Path) -> None:
    store = java_open(tmp_path, SIZES)
    message = Message("T", "é世😀".encode(), 3, "A", ["k1", "k2"], born_host="[2001:db8::1]:7")
    (one,) = store.put([(message, NOW)])
    assert one["status"] == "PUT_OK"
    assert (one["phy_offset"], one["queue_offset"], one["store_timestamp_ms"]) == (0, 0, NOW)
    batch = store.put_batch([Message("T", b"b1", 3), Message("T", b"b2", 3, "A")], NOW + 5)
    assert (batch["count"], batch["queue_offset"], batch["msg_id"].count(",")) == (2, 1, 1)
    store.await_dispatch()

    assert store.offsets()["queues"] == [
        {"topic": "T", "queue_id": 3, "min_offset": 0, "max_offset": 3}
    ]
    request = {"topic": "T", "queueId": 3, "queueOffset": 1, "maxMessages": 32, "maxBytes": 1 << 20}
    (got,) = store.get([request])
    assert (got["status"], got["next_begin_offset"], got["queue_offsets"]) == ("FOUND", 3, [1, 2])
    (tagged,) = store.get([{**request, "queueOffset": 0, "tags": "A"}])
    assert tagged["queue_offsets"] == [0, 2]
    question = {"topic": "T", "key": "k2", "maxMessages": 32, "beginMs": 0, "endMs": 2**63 - 1}
    by_key, by_tag = store.query([question, {**question, "key": "A", "indexType": "T"}])
    assert [found[0] for found in by_key["messages"]] == [0]
    assert len(by_tag["messages"]) == 2
    assert store.offset_by_time([{"topic": "T", "queueId": 3, "timestampMs": NOW + 5}]) == [
        {"default": 1, "LOWER": 1, "UPPER": 2}
    ]
    found, nothing = store.lookup([0, 2**40])
    assert found is not None
    assert (found["topic"], nothing) == ("T", None)
    record = store.records()[0]
    assert (record["born_host"], record["properties"]) == (
        "[2001:db8:0:0:0:0:0:1]:7",
        {"TAGS": "A", "KEYS": "k1 k2"},
    )
    assert store.verify()["bad"] == []


def test_what_it_wrote_is_the_same_again(java_open: OpenJava, tmp_path: Path) -> None:
    with java_open(tmp_path, SIZES) as store:
        put_some(store, 300)
        before = store.offsets(), store.records()
    assert not (tmp_path / "abort").exists()
    with java_open(tmp_path, SIZES) as again:
        offsets, records = again.offsets(), again.records()
    assert records == before[1]
    assert {r["kind"] for r in records} == {"MESSAGE", "BLANK"}
    assert offsets["queues"] == before[0]["queues"]
    assert offsets["max_phy_offset"] == before[0]["max_phy_offset"]


def test_recovery_alone_dispatches_nothing(java_open: OpenJava, tmp_path: Path) -> None:
    with java_open(tmp_path, SIZES) as store:
        put_some(store, 10)
        end = store.offsets()["max_phy_offset"]
    with java_open(tmp_path, SIZES, load_only=True) as loaded:
        assert loaded.offsets()["max_phy_offset"] == end
        assert [q["max_offset"] for q in loaded.offsets()["queues"]] == [5, 5]


def test_a_crash_leaves_abort_and_all_that_was_put(tmp_path: Path) -> None:
    """Bytes in a shared mapping outlive their process."""
    with JavaProcess(tmp_path) as process:
        store = JavaStore(process, tmp_path / "store", SIZES)
        put_some(store, 10)
        process.crash()
        assert not process.alive
        with pytest.raises(JavaError, match="offsets"):
            store.offsets()
    assert (tmp_path / "store" / "abort").exists()
    with JavaProcess(tmp_path) as process, JavaStore(process, tmp_path / "store", SIZES) as store:
        assert [q["max_offset"] for q in store.offsets()["queues"]] == [5, 5]


def test_a_failure_names_the_call_and_shows_javas_trace(
    java: JavaProcess, java_open: OpenJava, tmp_path: Path
) -> None:
    with java_open(tmp_path, SIZES) as store:
        put_some(store, 10)
    with pytest.raises(JavaError, match=r"open: .*load\(\)[\s\S]*ClockedStore.open"):
        java_open(tmp_path, {**SIZES, "mappedFileSizeCommitLog": 8192})
    with pytest.raises(JavaError, match="no such call"):
        java.call("nonsense", store=0)


def test_no_answer_in_time_ends_the_process(tmp_path: Path) -> None:
    with JavaProcess(tmp_path) as process:
        with pytest.raises(JavaError, match=r"offsets: no answer in 0\.001 s"):
            process.call("offsets", store=1, timeout_s=0.001)
        assert not process.alive
