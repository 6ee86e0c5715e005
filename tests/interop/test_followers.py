"""A master that waits for followers, where none is: the statuses of the real store, and what it has stored then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from interop.conftest import OpenJava
from interop.workload import PLAIN, START_MS, Put
from interop.writers import Clock, put_java, put_ours

import rmqcore
from rmqcore import Message

WAITS = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2, "slaveTimeout": 20}
ACTING = {**WAITS, "enableSlaveActingMaster": True}
CASES: dict[str, dict[str, Any]] = {
    "needs no follower": {"brokerRole": "SYNC_MASTER"},
    "an asynchronous master": {"inSyncReplicas": 2},
    "needs a follower": WAITS,
    "and the disk": {**WAITS, "flushDiskType": "SYNC_FLUSH"},
    "duplication": {**WAITS, "duplicationEnable": True},
    "auto in sync is for groups": {**WAITS, "enableAutoInSyncReplicas": True},
    "all ack is for a controller": {**WAITS, "allAckInSyncStateSet": True},
    "least in sync is for groups": {**WAITS, "inSyncReplicas": 1, "minInSyncReplicas": 2},
    "a group of one that needs one": {**ACTING, "inSyncReplicas": 1},
}
pytestmark = pytest.mark.filterwarnings("ignore::rmqcore.config.unused.UnusedSettingWarning")


def puts() -> list[Put]:
    """One that waits, one that does not, and batches of both kinds."""
    unwaited = {"WAIT": "false"}
    every = [
        [Message("T", b"1", born_timestamp_ms=1)],
        [Message("T", b"2", properties=unwaited, born_timestamp_ms=1)],
        [Message("T", b"3", properties={"WAIT": "TRUE"}, born_timestamp_ms=1)],
        [Message("T", bytes(5 << 20), born_timestamp_ms=1)],
        [Message("T", b"4", born_timestamp_ms=1), Message("T", b"5", born_timestamp_ms=1)],
    ]
    return [Put(messages, START_MS + i) for i, messages in enumerate(every)]


@pytest.mark.parametrize("case", CASES)
def test_statuses_are_javas(case: str, java_open: OpenJava, tmp_path: Path) -> None:
    """A SYNC_MASTER with ``inSyncReplicas=2`` and no follower answered PUT_OK, where Java says FLUSH_SLAVE_TIMEOUT."""
    got, want = both(java_open, tmp_path, CASES[case])
    assert [result["status"] for result in got] == [result["status"] for result in want]
    assert [result["phy_offset"] for result in got] == [
        result.get("phy_offset", -1) for result in want
    ]


def test_a_group_of_one_is_not_known_here(java_open: OpenJava, tmp_path: Path) -> None:
    """Java refuses what a group of one cannot hold twice; here it is stored, and late: docs/compat.md."""
    got, want = both(java_open, tmp_path, ACTING)
    refused, late = "IN_SYNC_REPLICAS_NOT_ENOUGH", "FLUSH_SLAVE_TIMEOUT"
    assert [result["status"] for result in want].count(refused) >= 3
    assert late not in [result["status"] for result in want]
    assert [
        (result["status"], other["status"]) for result, other in zip(got, want, strict=True)
    ].count((late, refused)) >= 3


def both(
    java_open: OpenJava, tmp_path: Path, settings: dict[str, Any]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Put the same with the same settings into a store of ours and one of Java's, and give the answers of both."""
    config = {**PLAIN, **settings}
    conf = tmp_path / "broker.conf"
    conf.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
    clock = Clock()
    with rmqcore.open(tmp_path / "ours", conf, services=False, clock=clock) as store:
        got = put_ours(store, clock, puts())
    with java_open(tmp_path / "java", config) as java:
        return got, put_java(java, puts())
