"""A store that a real broker wrote for real clients; we read it, append to it, and the broker goes on with it."""

from __future__ import annotations

import base64
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from interop.broker import Broker
from interop.client_manners import consume, create_topic
from interop.conftest import OpenJava
from interop.files import copy_store
from interop.java_process import JavaProcess
from interop.questions import check_same_answers
from interop.recovery import check_recovery
from interop.workload import SIZES, ours

import rmqcore
from rmqcore import Message, sysflag
from rmqcore.offline.fsck import fsck

TOPIC = "InteropTopic"
SENT, ADDED = 120, 40
CONFIG = {**SIZES, "mappedFileSizeCommitLog": 64 * 1024}
# Of what is sent these reach a consumer: plain ones, a batch of 20, the delayed one, a body of each compression, and of the
# transactions the committed one.
VISIBLE = SENT + 20 + 1 + 3 + 1


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Broker:
    return Broker(tmp_path_factory.mktemp("broker"), CONFIG)


def place(message: dict[str, Any]) -> tuple[int, int]:
    return message["queue_id"], message["queue_offset"]


def check_both(broker: Broker, java_open: OpenJava, copy: Path) -> None:
    """Java's store and ours say the same of what the broker left, and nothing is damaged."""
    assert not (broker.store / "abort").exists()
    assert [f.kind for f in fsck(broker.store).findings if f.severity == "error"] == []
    copy_store(broker.store, copy)
    with (
        java_open(broker.store, CONFIG) as java,
        rmqcore.open(copy, services=False, **ours(CONFIG)) as store,
    ):
        assert store.recovery.clean_exit
        assert store.recovery.cut_bytes == 0
        assert java.verify()["bad"] == []
        check_same_answers(java, store)


@pytest.mark.slow
def test_a_brokers_store(
    java: JavaProcess, broker: Broker, java_open: OpenJava, tmp_path: Path
) -> None:
    with broker.running() as server:
        create_topic(java, broker.name_server, broker.address, TOPIC)
        sent = java.call("send", nameServer=broker.name_server, topic=TOPIC, count=SENT)
        assert {s["status"] for s in sent} == {"SEND_OK"}
        first = consume(java, broker.name_server, TOPIC, VISIBLE)
        server.stop()
    check_both(broker, java_open, tmp_path / "first")
    check_contents(broker.store, first)

    # The broker's own settings open its store
    with rmqcore.open(broker.store, broker.conf) as store:
        queues = sorted(queue_id for topic, queue_id in store.queues() if topic == TOPIC)
        for i in range(ADDED):
            message = Message(
                TOPIC, f"ours {i} é世".encode(), queues[i % len(queues)], "ours", [f"o{i}"]
            )
            store.put(message).raise_for_status()
        assert store.wait_dispatched(60)
        ends = {queue_id: store.max_offset(TOPIC, queue_id) for queue_id in queues}
    check_both(broker, java_open, tmp_path / "second")

    with broker.running() as server:
        create_topic(java, broker.name_server, broker.address, TOPIC)
        again = consume(java, broker.name_server, TOPIC, VISIBLE + ADDED)
        sent = java.call("send", nameServer=broker.name_server, topic=TOPIC, count=SENT)
        assert {s["status"] for s in sent} == {"SEND_OK"}
        assert min(s["queue_offset"] for s in sent if s["kind"] == "plain") >= min(ends.values())
        last = consume(java, broker.name_server, TOPIC, 2 * VISIBLE + ADDED)
        server.kill()
    mine = [m for m in again if m["keys"].startswith("o")]
    assert {base64.b64decode(m["body"]).decode() for m in mine} == {
        f"ours {i} é世" for i in range(ADDED)
    }
    assert {place(m) for m in last} >= {place(m) for m in again}
    assert (broker.store / "abort").exists()
    check_recovery(broker.store, java_open, CONFIG)


def check_contents(root: Path, consumed: list[dict[str, Any]]) -> None:
    """Every message that a consumer got is one that we read, with the same plain body; internal topics are there too."""
    messages = {message.phy_offset: message for message in rmqcore.read(root).messages()}
    stored = [(m.queue_id, m.queue_offset) for m in messages.values() if m.topic == TOPIC]
    assert sorted(map(place, consumed)) == sorted(stored)
    for got in consumed:
        message = messages[got["phy_offset"]]
        zipped = message.sys_flag & sysflag.COMPRESSED
        body = message.decompress() if zipped else message.body
        assert body == base64.b64decode(got["body"])
        assert (message.queue_id, message.queue_offset) == (got["queue_id"], got["queue_offset"])
        assert " ".join(message.keys) == got["keys"]
    topics = Counter(message.topic for message in messages.values())
    assert topics["SCHEDULE_TOPIC_XXXX"] == 1
    assert topics["RMQ_SYS_TRANS_HALF_TOPIC"] >= 3  # the open one is stored anew at each check
    assert topics["RMQ_SYS_TRANS_OP_HALF_TOPIC"] > 0
    kinds = Counter(
        message.sys_flag & sysflag.COMPRESSION_TYPE_MASK for message in messages.values()
    )
    assert {kind for kind in kinds if kind} == {0x100, 0x200, 0x300}
    assert sum(message.sys_flag & 0xC == 0x8 for message in messages.values()) == 1  # the commit
