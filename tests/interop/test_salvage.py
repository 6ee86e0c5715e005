"""Stores that were salvaged, opened by Java: it recovers them, serves every message at its queue offset, and takes new ones.

RMQCORE_SALVAGED_JAVA: how many random damages.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from interop.conftest import OpenJava
from interop.files import copy_store
from interop.java_store import JavaStore
from interop.workload import CONFIGS, PLAIN, START_MS, Workload, ours
from interop.writers import Clock, put_ours
from support.doses import dose
from support.stores.dledger_store import unpack_real
from support.stores.golden_stores import CLEAN, CRASHED, config_of, manifest_of

import rmqcore
from rmqcore import Message
from rmqcore.codec import MessageView
from rmqcore.config import MessageStoreConfig
from rmqcore.maintenance.salvage.report import SalvageReport
from rmqcore.maintenance.salvage.salvage import salvage
from rmqcore.offline.fsck import fsck
from rmqcore.testing.random_damage import damage
from rmqcore.vocabulary.sysflag import has_queue_entry

DAMAGES = dose("RMQCORE_SALVAGED_JAVA", test=4, verify=12, night=100)
A_DAY = 86_400_000
Queues = dict[tuple[str, int], dict[int, int]]
"""Topic and queue id to queue offset to physical offset."""


def check_in_java(
    out: Path, tmp_path: Path, java_open: OpenJava, config: dict[str, Any], report: SalvageReport
) -> None:
    messages = list(rmqcore.read(out).messages())
    queues = queues_of(messages)
    unserved = {
        (one.topic, one.queue_id, offset)
        for one in report.unserved
        for offset in range(one.first_queue_offset, one.last_queue_offset + 1)
    }
    end = messages[-1].phy_offset + messages[-1].msg_size if messages else 0
    for unclean in (False, True):
        copy = copy_store(out, tmp_path / f"java-{unclean}")
        if unclean:
            (copy / "abort").write_text("1")
        with java_open(copy, config) as java:
            java.await_dispatch()
            assert java.offsets()["max_phy_offset"] == end
            bad = java.verify()["bad"]
            assert [one for one in bad if not may_say(one, queues, messages, unserved)] == []
            check_queues(java, queues, unserved)
            check_puts(java)
        assert [one for one in fsck(copy).findings if one.severity == "error"] == []
        shutil.rmtree(copy)


def may_say(
    bad: str, queues: Queues, messages: list[MessageView], unserved: set[tuple[str, int, int]]
) -> bool:
    """Whether Java speaks of a filler, whose place no message of the log asks for, or of what the report says of the messages.

    Damage may also have made a port too large; no checksum covers it. A filler leads to physical offset 0: what Java says of the
    message that lies there itself means nothing beside one.
    """
    if any(port_of(view) > 65_535 and str(view.phy_offset) in bad for view in messages):
        return True
    without = bad.removeprefix("no queue entry for ")
    if without != bad:
        record = json.loads(without)
        return (record["topic"], record["queue_id"], record["queue_offset"]) in unserved
    found = re.match(r"entry (.*) (-?\d+) (\d+): 0 is ", bad)
    return found is not None and not queues[found[1], int(found[2])].get(int(found[3]))


def port_of(view: MessageView) -> int:
    return max(int(host.rpartition(":")[2]) for host in (view.born_host, view.store_host))


def queues_of(messages: list[MessageView]) -> Queues:
    queues: Queues = {}
    for view in messages:
        if has_queue_entry(view.sys_flag):
            queues.setdefault((view.topic, view.queue_id), {})[view.queue_offset] = view.phy_offset
    return queues


def check_queues(java: JavaStore, queues: Queues, unserved: set[tuple[str, int, int]]) -> None:
    ends = {(one["topic"], one["queue_id"]): one["max_offset"] for one in java.offsets()["queues"]}
    for (topic, queue_id), offsets in queues.items():
        assert ends[topic, queue_id] == max(offsets) + 1
        requests = [
            {"topic": topic, "queueId": queue_id, "queueOffset": offset, "maxMessages": 1}
            for offset in offsets
        ]
        for answer, (offset, phy_offset) in zip(java.get(requests), offsets.items(), strict=True):
            if (topic, queue_id, offset) in unserved:
                assert answer["status"] == "OFFSET_TOO_SMALL"
                continue
            assert answer["status"] == "FOUND"
            assert [one[0] for one in answer["messages"]] == [phy_offset]


def check_puts(java: JavaStore) -> None:
    before = {
        (one["topic"], one["queue_id"]): one["max_offset"] for one in java.offsets()["queues"]
    }
    topic, queue_id = min(before, default=("New", 0))
    now_ms = START_MS + 400 * A_DAY
    results = java.put([(Message(topic, b"%d" % n, queue_id), now_ms + n) for n in range(3)])
    assert [one["status"] for one in results] == ["PUT_OK"] * 3
    java.await_dispatch()
    first = before.get((topic, queue_id), 0)
    requests = [
        {"topic": topic, "queueId": queue_id, "queueOffset": first + n, "maxMessages": 1}
        for n in range(3)
    ]
    assert [one["status"] for one in java.get(requests)] == ["FOUND"] * 3


@pytest.mark.parametrize("case", CLEAN + CRASHED)
def test_golden_stores(golden: Path, tmp_path: Path, java_open: OpenJava, case: str) -> None:
    manifest = manifest_of(golden, case)
    out = tmp_path / "out"
    report = salvage(golden / case / manifest["storeDir"], out, config=config_of(manifest))
    check_in_java(out, tmp_path, java_open, manifest["storeConfig"], report)


@pytest.mark.parametrize("number", range(DAMAGES))
def test_random_damage(tmp_path: Path, java_open: OpenJava, number: int) -> None:
    rng = random.Random(number)
    config = {**CONFIGS[("plain", "prop_crc")[number % 2]], "mappedFileSizeCommitLog": 16 * 1024}
    clock, root, out = Clock(), tmp_path / "store", tmp_path / "out"
    with rmqcore.open(root, services=False, clock=clock, **ours(config)) as store:
        put_ours(store, clock, Workload(number, PLAIN).take(150))
    told = [str(one) for _ in range(2) for one in damage(root, rng)]
    report = salvage(root, out, config=MessageStoreConfig(**ours(config)))
    assert fsck(out).findings == [], told
    check_in_java(out, tmp_path, java_open, config, report)


def test_a_dledger_store(tmp_path: Path, java_open: OpenJava) -> None:
    """Records that were made longer are the same messages to Java."""
    config = {
        "mappedFileSizeCommitLog": 16_384,
        "mappedFileSizeConsumeQueue": 20_000,
        "maxHashSlotNum": 1000,
        "maxIndexNum": 4000,
    }
    report = salvage(unpack_real(tmp_path), tmp_path / "out")
    assert (report.exit_code, report.moved_messages) == (0, 8)
    check_in_java(tmp_path / "out", tmp_path, java_open, config, report)
