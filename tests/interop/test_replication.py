"""Replication with a real Java broker on the other side: a slave of ours, and a master of ours."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from interop.broker import Broker
from support.doses import dose
from support.eventually import eventually_async
from support.ports import PortBlock
from support.raw_client import AsyncRawClient, send_request
from support.replication import Side, log_bytes, slave_of

import rmqcore
from rmqcore.broker.network import ha_slave
from rmqcore.remoting.bodies.topic_configs import TopicConfig
from rmqcore.remoting.codes import ResponseCode

FILE = 1 << 20
SIZES: dict[str, Any] = {
    "mappedFileSizeCommitLog": FILE,
    "mappedFileSizeConsumeQueue": 6000,
    "haListenPort": 0,  # one above listenPort
}
MESSAGES = 300
WAITS_FOR_TOPICS = dose("RMQCORE_JAVA_SLAVE_TOPICS", test=0, verify=0, night=1)


def test_our_slave_of_a_java_master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ha_slave, "AGAIN_AFTER_S", 0.1)
    java = Broker(tmp_path / "java", SIZES, replicates=True)

    async def follow() -> None:
        slave = slave_of(tmp_path / "slave", java.ha_address)
        slave.settings = {"broker_name": "interop-a", "broker_cluster_name": "InteropCluster"}
        slave.ports = {"namesrvs": (java.name_server,)}
        client = await AsyncRawClient.open(java.address)
        async with slave:
            for number in range(MESSAGES):
                answer = await client.ask(send_request("t", b"%d" % number * 100, number % 4))
                assert answer.code == ResponseCode.SUCCESS
            known = slave.running.ha_slave
            assert known is not None
            await eventually_async(
                lambda: slave.store.wait_dispatched(0) and count(slave) == MESSAGES
            )
            known.master_broker.sync_now()
            await eventually_async(lambda: slave.broker.topics.get("t") is not None)
            said = slave.broker.replication.master()
            assert said is not None
            assert (said.error, said.address) == ("", java.address)
            slave_log.append(slave.log())
        client.close()

    slave_log: list[bytes] = []
    with java.running() as server:
        asyncio.run(follow())
        server.stop()
    with rmqcore.open(java.store, disk_max_used_space_ratio=100) as store:
        log = log_bytes(store)
        assert log[: len(slave_log[0])] == slave_log[0]


def test_a_java_slave_of_ours(tmp_path: Path) -> None:
    """Puts wait until it has them, and its log is ours; at night also its topics, which it asks for after a minute."""
    slave_settings = {
        **SIZES,
        "brokerRole": "SLAVE",
        "brokerId": 1,
        "registerNameServerPeriod": 10_000,
    }
    java = Broker(tmp_path / "java", slave_settings, replicates=True)
    block = PortBlock()

    async def lead() -> bytes:
        master = Side(
            tmp_path / "ours",
            "SYNC_MASTER",
            in_sync_replicas=2,
            slave_timeout=60_000,
            mapped_file_size_commit_log=FILE,
        )
        master.settings = {"broker_name": "interop-a", "broker_cluster_name": "InteropCluster"}
        first = block.first
        master.ports = {
            "namesrvs": (java.name_server,),
            "broker": first + 2,
            "ha": first + 3,
            "vip": True,  # where a Java slave asks for topics
        }
        async with master:
            await asyncio.to_thread(master.put, MESSAGES, size=5000)
            assert master.store.max_phy_offset > FILE
            (slave,) = master.broker.replication.slaves()
            assert (slave.ack, slave.in_sync) == (master.store.max_phy_offset, True)
            assert master.store.replicated_offset == master.store.max_phy_offset
            if WAITS_FOR_TOPICS:
                topics = java.store / "config" / "topics.json"
                master.broker.topics.update(TopicConfig("made", 3, 3))
                await eventually_async(
                    lambda: topics.exists() and '"made"' in topics.read_text(), within_s=150
                )
            return master.log()

    with java.running() as server:
        ours = asyncio.run(lead())
        server.stop()
    with rmqcore.open(java.store, disk_max_used_space_ratio=100) as store:
        assert log_bytes(store) == ours
        assert store.wait_dispatched(60)
        assert sum(store.max_offset("t", queue_id) for queue_id in range(4)) == MESSAGES


def count(slave: Side) -> int:
    """How many messages a topic has at a slave."""
    return sum(slave.store.max_offset("t", queue_id) for queue_id in range(4))
