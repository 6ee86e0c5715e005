"""topics.json, subscriptionGroup.json and consumerFilter.json: the real managers read ours, and we read theirs."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from interop.java_process import JavaProcess
from support.broker import FakeLoop

from rmqcore.broker.config_files import ConfigFiles
from rmqcore.broker.settings import BrokerSettings
from rmqcore.broker.sql92.bloom_positions import bit_positions
from rmqcore.broker.state.consumer_filters import DEAD_BEFORE_START_MS, ConsumerFilters
from rmqcore.broker.state.groups import SubscriptionGroups
from rmqcore.broker.state.topics import TopicConfigs
from rmqcore.disk.paths import StorePaths
from rmqcore.remoting.bodies.heartbeat import SQL92, SubscriptionData
from rmqcore.remoting.bodies.subscription_groups import SubscriptionGroupConfig
from rmqcore.remoting.bodies.topic_configs import TopicConfig

TOPICS, GROUPS = "topics", "groups"
FILES = {TOPICS: "topics.json", GROUPS: "subscriptionGroup.json"}
OUR_TOPICS = [
    TopicConfig("%RETRY%g", 1, 1, 6, topic_sys_flag=2),
    TopicConfig("T-1", 4, 2, 4, "MULTI_TAG", 1, True, {"+message.type": "FIFO"}),
]
OUR_GROUPS = [
    SubscriptionGroupConfig("g"),
    SubscriptionGroupConfig(
        "all-others",
        consume_enable=False,
        consume_from_min_enable=False,
        consume_broadcast_enable=False,
        consume_message_orderly=True,
        retry_queue_nums=2,
        retry_max_times=-1,
        group_retry_policy={
            "type": "EXPONENTIAL",
            "exponentialRetryPolicy": {"initial": 5000, "max": 7200000, "multiplier": 3},
        },
        broker_id=7,
        which_broker_when_consume_slowly=8,
        notify_consumer_ids_changed_enable=False,
        group_sys_flag=9,
        consume_timeout_minute=10,
        subscription_data_set=(
            {"topic": "t", "expressionType": "TAG", "expression": "a||b", "version": 1 << 40},
        ),
    ),
]


class Ours:
    """Our tables in a directory."""

    def __init__(self, root: Path) -> None:
        loop = FakeLoop()
        self.files = ConfigFiles(StorePaths(root), loop)
        self.topics = TopicConfigs(BrokerSettings(), self.files, loop.clock)
        self.groups = SubscriptionGroups(BrokerSettings(), self.files, loop.clock)

    def table(self, kind: str) -> dict[str, Any]:
        return self.topics.table().as_json() if kind == TOPICS else self.groups.table().as_json()


def write(root: Path) -> Ours:
    """Write both files."""
    made = Ours(root)
    made.topics.update_all(OUR_TOPICS)
    made.groups.update_all(OUR_GROUPS)
    made.files.close()
    return made


def java_reads(java: JavaProcess, root: Path, kind: str) -> dict[str, Any]:
    answer = java.call("loadTable", kind=kind, file=str(root / "config" / FILES[kind]))
    assert answer["loaded"]
    found: dict[str, Any] = json.loads(answer["json"])
    return found


@pytest.mark.parametrize("kind", [TOPICS, GROUPS])
def test_java_reads_ours(java: JavaProcess, tmp_path: Path, kind: str) -> None:
    ours = write(tmp_path)
    found = java_reads(java, tmp_path, kind)
    table = ours.table(kind)
    assert {name: found[name] for name in table} == table


@pytest.mark.parametrize("kind", [TOPICS, GROUPS])
def test_we_read_javas(java: JavaProcess, tmp_path: Path, kind: str) -> None:
    """Java reads ours and writes them as it does: with its own members, and the order of its maps."""
    table = write(tmp_path / "ours").table(kind)
    there = tmp_path / "java"
    path = there / "config" / FILES[kind]
    java.call("saveTable", kind=kind, file=str(path), json=json.dumps(table))
    ours = Ours(there)
    assert ours.table(kind) == table
    assert ours.files.problems == []
    ours.files.close()


@pytest.mark.parametrize("kind", [TOPICS, GROUPS])
def test_our_backup_is_javas_too(java: JavaProcess, tmp_path: Path, kind: str) -> None:
    write(tmp_path)
    before = java_reads(java, tmp_path, kind)
    again = Ours(tmp_path)
    again.topics.update(TopicConfig("later"))
    again.groups.update(SubscriptionGroupConfig("later"))
    again.files.close()
    path = tmp_path / "config" / FILES[kind]
    path.write_bytes(path.read_bytes()[:100])
    assert java_reads(java, tmp_path, kind) == before


# ---- filters


def subscribe(filters: ConsumerFilters, now_ms: int) -> None:
    for number, (group, topic) in enumerate((("g", "t"), ("组" * 40, "主题-t"), ("gone", "t"))):
        wanted = SubscriptionData(
            topic, f"a > {number} AND b = 'x'", sub_version=5 + number, expression_type=SQL92
        )
        filters.register(group, [wanted], now_ms)
    filters.unregister("gone", now_ms + 1)


@pytest.fixture
def now_ms() -> int:
    return time.time_ns() // 1_000_000  # Java's manager asks the system's clock


def test_java_reads_our_filters_and_we_read_javas(
    java: JavaProcess, tmp_path: Path, now_ms: int
) -> None:
    """Java throws away all filters of a file in which the bits of one are not those that it has computed."""
    files = ConfigFiles(StorePaths(tmp_path), FakeLoop(now_ms))
    filters = ConsumerFilters(files, now_ms, 1 << 20)
    subscribe(filters, now_ms - DEAD_BEFORE_START_MS - 5_000)
    filters.save_if_changed()
    files.close()
    ours = filters.snapshot()()
    path = tmp_path / "config" / "consumerFilter.json"
    answer = java.call("loadTable", kind="filters", file=str(path))
    found = json.loads(answer["json"])
    assert without_deaths(found) == without_deaths(ours)
    java.call("saveTable", kind="filters", file=str(path), json=answer["json"])
    files = ConfigFiles(StorePaths(tmp_path), FakeLoop(now_ms))
    again = ConsumerFilters(files, now_ms, 1 << 20)
    assert again.snapshot()() == found
    assert files.problems == []
    files.close()


def test_java_computes_the_same_bits(java: JavaProcess) -> None:
    """Of texts of all lengths that its hash takes another way for, and of characters of one to three bytes."""
    names = ["", *("%RETRY%" + "x-y"[: n % 3] * n + "#主题é"[: n % 5] for n in range(60))]
    asked = java.call("filterBits", requests=[{"name": name} for name in names])
    assert asked == [bit_positions(name) for name in names]


def without_deaths(table: dict[str, Any]) -> dict[str, Any]:
    """Without when a group went: who reads the file counts all groups as gone, since half a minute or since their death."""
    copied: dict[str, Any] = json.loads(json.dumps(table))
    for groups in copied["filterDataByTopic"].values():
        for data in groups["groupFilterData"].values():
            del data["dead"], data["deadTime"]
    return copied
