"""What a slave has beside the log: topics, groups and offsets of its master, on its own disk; and what each side tells."""

from __future__ import annotations

import asyncio
import io
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from support.eventually import eventually_async
from support.ports import PortBlock
from support.raw_client import AsyncRawClient
from support.replication import RawSlave, Side, run, slave_of

import rmqcore
from rmqcore import Message
from rmqcore.broker.network import ha_slave, master_broker
from rmqcore.broker.network.server import Ports, serving
from rmqcore.broker.settings import BrokerSettings
from rmqcore.broker.thens import nothing
from rmqcore.cli.reports.replication_lines import replication_lines
from rmqcore.cli.reports.top_screen import Sort, screen
from rmqcore.cli.verbs import top
from rmqcore.client.peer_status import ask_status
from rmqcore.engine.store.store import MessageStore
from rmqcore.errors import LogsPartedError
from rmqcore.offline.stats.live import LiveStats
from rmqcore.remoting.bodies.subscription_groups import SubscriptionGroupConfig
from rmqcore.remoting.bodies.topic_configs import TopicConfig
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.request_fields import Value, encode_fields


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries follow each other at once."""
    monkeypatch.setattr(ha_slave, "AGAIN_AFTER_S", 0.02)


def paired(tmp_path: Path, **config: Any) -> Side:
    """Make a master whose HA port is one above its broker's."""
    master = Side(tmp_path / "master", **config)
    master.block = PortBlock()
    return master


async def ask(
    side: Side, code: RequestCode, fields: dict[str, Value] | None = None
) -> RemotingCommand:
    """Ask a broker."""
    client = await AsyncRawClient.open(side.running.ready.broker)
    try:
        return await client.ask(RemotingCommand(code, ext_fields=encode_fields(code, fields or {})))
    finally:
        client.close()


def test_a_slave_has_the_metadata_of_its_master_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(master_broker, "SYNC_MS", 30)

    async def test() -> None:
        async with paired(tmp_path) as master:
            master.broker.topics.update(TopicConfig("made", 3, 3))
            master.broker.groups.update(SubscriptionGroupConfig("readers"))
            master.broker.offsets.commit("readers", "made", 2, 17)
            master.store.put(Message("made", b"late", properties={"DELAY": "3"})).raise_for_status()
            async with slave_of(tmp_path / "slave", master.ha) as slave:
                await slave.holds(master)
                await synced(slave)
                assert slave.broker.topics.table() == master.broker.topics.table()
                assert slave.broker.groups.table() == master.broker.groups.table()
                assert slave.broker.offsets.query("readers", "made", 2) == 17
                master.broker.topics.begin_delete("made")
                master.broker.topics.end_delete("made", nothing)
                master.broker.topics.update(TopicConfig("other", 1, 1))
                master.broker.offsets.commit("readers", "made", 2, 18)
                await synced(slave)
                assert slave.broker.topics.get("made") is None
                assert slave.broker.offsets.query("readers", "made", 2) == 18
        saved = json.loads((tmp_path / "slave" / "config" / "topics.json").read_bytes())
        assert "other" in saved["topicConfigTable"]
        saved = json.loads((tmp_path / "slave" / "config" / "consumerOffset.json").read_bytes())
        assert saved["offsetTable"] == {"made@readers": {"2": 18}}

    run(test)


def test_a_deleted_topic_stays_empty_at_the_slave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic that was deleted at the master and made again showed its older messages after a failover."""
    monkeypatch.setattr(master_broker, "SYNC_MS", 30)

    def begins(slave: Side, queue_offset: int) -> bool:
        return slave.store.min_offset("t", 0) == queue_offset

    def put(master: Side, count: int) -> None:
        for _ in range(count):
            master.put(1)

    async def delete_and_make(master: Side) -> None:
        deleted = await ask(master, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
        assert deleted.code == ResponseCode.SUCCESS
        master.broker.topics.update(TopicConfig("t", 1, 1))
        put(master, 2)

    async def test() -> None:
        async with paired(tmp_path) as master, slave_of(tmp_path / "slave", master.ha) as slave:
            master.broker.topics.update(TopicConfig("t", 1, 1))
            for begin in (3, 5):
                put(master, 3 if begin == 3 else 0)
                await slave.holds(master)
                await delete_and_make(master)
                await eventually_async(partial(begins, slave, begin))
                assert slave.broker.deleted_topics.first_offset("t", 0) == begin

    run(test)
    with rmqcore.open(tmp_path / "slave") as promoted:
        asyncio.run(begins_at(promoted, 5))


async def begins_at(store: MessageStore, queue_offset: int) -> None:
    """Serve a store as a master, and look where the topic begins."""
    async with serving(store, BrokerSettings(), Ports(broker=0, namesrv=None)) as server:
        assert store.min_offset("t", 0) == queue_offset
        assert server.broker.deleted_topics.first_offset("t", 0) == queue_offset


def test_offsets_wait_for_the_messages_before_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failover the slave gives those offsets to other messages, which a consumer would skip."""
    monkeypatch.setattr(master_broker, "SYNC_MS", 30)
    monkeypatch.setattr(master_broker, "CATCH_UP_S", 0.1)
    monkeypatch.setattr(ha_slave, "AGAIN_AFTER_S", 0.05)

    async def test() -> None:
        async with paired(tmp_path) as master, slave_of(tmp_path / "slave", master.ha) as slave:
            master.broker.groups.update(SubscriptionGroupConfig("readers"))
            master.put(4)
            master.broker.offsets.commit("readers", "t", 0, 1)
            await eventually_async(lambda: slave.broker.offsets.query("readers", "t", 0) == 1)
            ha = master.running.ha_master
            assert ha is not None
            most, ha.max_connections = ha.max_connections, 0
            ha.close()
            await eventually_async(lambda: not ha.open)
            master.put(4)
            master.broker.offsets.commit("readers", "t", 0, 2)
            await synced(slave)
            assert slave.broker.offsets.query("readers", "t", 0) == 1
            ha.max_connections = most
            await eventually_async(lambda: slave.broker.offsets.query("readers", "t", 0) == 2)
            assert slave.store.max_phy_offset == master.store.max_phy_offset

    run(test)


async def synced(slave: Side) -> None:
    """Wait until a look at the master that begins now has ended."""
    assert slave.running.ha_slave is not None
    master = slave.running.ha_slave.master_broker
    before = master.synced
    await eventually_async(lambda: master.synced >= before + 2)


def test_a_promoted_slave_delivers_what_was_delayed(tmp_path: Path) -> None:
    async def test() -> None:
        async with paired(tmp_path, message_delay_level="1s 2s") as master:
            master.broker.topics.update(TopicConfig("t", 1, 1))
            slave = slave_of(tmp_path / "slave", master.ha, message_delay_level="1s 2s")
            async with slave:
                master.store.put(
                    Message("t", b"late", properties={"DELAY": "2"})
                ).raise_for_status()
                await slave.holds(master)
                await eventually_async(lambda: slave.broker.topics.get("t") is not None)
        slave.role = "ASYNC_MASTER"
        async with slave:
            await eventually_async(lambda: slave.store.max_offset("t", 0) == 1)
            (message,) = slave.store.get("t", 0, 0).messages
            assert message.body == b"late"

    run(test)


def test_a_master_that_answers_a_part_deletes_nothing() -> None:
    with pytest.raises(ValueError, match="totalTopicNum is 3, received 2"):
        master_broker.check_whole(
            RemotingCommand(0, ext_fields={"totalTopicNum": "3"}), "totalTopicNum", 2
        )


def test_a_slave_finds_its_master_by_the_name_server(tmp_path: Path) -> None:
    async def test() -> None:
        master = Side(tmp_path / "master")
        master.ports = {"namesrv": 0}
        async with master:
            master.put(10)
            slave = Side(tmp_path / "slave", "SLAVE")
            slave.ports = {"namesrvs": (master.running.ready.namesrv,)}
            async with slave:
                await slave.holds(master)
                known = slave.broker.replication.master()
                assert known is not None
                assert known.ha_address == master.ha
                assert known.address == master.running.ready.broker

    run(test)


def test_a_slave_without_a_master_waits_for_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        master = Side(tmp_path / "master")
        names = Side(tmp_path / "names")
        names.ports = {"namesrv": 0}
        names.settings = {"broker_name": "another"}
        async with names:
            slave = Side(tmp_path / "slave", "SLAVE")
            slave.ports = {"namesrvs": (names.running.ready.namesrv,)}
            async with slave:
                await eventually_async(lambda: "the master's address is unknown" in caplog.text)
                master.ports = slave.ports
                async with master:
                    master.put(5)
                    await slave.holds(master)

    run(test)
    assert caplog.text.count("the master's address is unknown") == 1


def test_a_shorter_master_is_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with Side(tmp_path / "slave") as was_master:
            was_master.put(20)
        async with paired(tmp_path) as master:
            master.put(10)
            async with slave_of(tmp_path / "slave", master.ha) as slave:
                await eventually_async(lambda: LogsPartedError.hint in caplog.text)
                error = slave.broker.replication.master()
                assert error is not None
                assert f"its master's at {master.store.max_phy_offset}" in error.error
                assert master.broker.replication.slaves() == []

    run(test)


def shown_by_top(master: Side) -> str:
    """What ``rmqcore top --once --broker`` prints."""
    sample = LiveStats(master.root).sample()
    console = Console(width=300, file=io.StringIO())
    lines = top._lines(top._ask(master.running.ready.broker))
    console.print(screen(console, sample, Sort.bytes, lines, whole=True))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_both_sides_show_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ha_slave, "LAG_MS", 20)

    async def test() -> None:
        async with (
            paired(tmp_path) as master,
            slave_of(tmp_path / "slave", master.ha) as slave,
        ):
            master.put(10)
            await slave.holds(master)
            end = master.store.max_phy_offset
            await eventually_async(
                lambda: [one.ack for one in master.broker.replication.slaves()] == [end]
            )
            status = json.loads((await ask(master, RequestCode.GET_BROKER_HA_STATUS)).body)
            (one,) = status["haConnectionInfo"]
            assert (one["slaveAckOffset"], one["diff"], one["inSync"]) == (end, 0, True)
            assert (one["transferFromWhere"], status["inSyncSlaveNums"]) == (end, 1)
            assert (status["master"], status["masterCommitLogMaxOffset"]) == (True, end)
            status = json.loads((await ask(slave, RequestCode.GET_BROKER_HA_STATUS)).body)
            client = status["haClientRuntimeInfo"]
            assert not status["master"]
            assert (client["masterAddr"], client["maxOffset"]) == (master.ha, end)
            assert client["activated"]
            info = json.loads((await ask(master, RequestCode.GET_BROKER_RUNTIME_INFO)).body)
            assert info["table"]["brokerRole"] == "ASYNC_MASTER"
            await eventually_async(lambda: slave.running.ha_slave.info().master_end == end)  # type: ignore[union-attr]
            assert f"ack {end} lag 0 bytes" in info["table"]["haSlave_0"]
            info = json.loads((await ask(slave, RequestCode.GET_BROKER_RUNTIME_INFO)).body)
            assert info["table"]["brokerRole"] == "SLAVE"
            assert info["table"]["haMaster"] == master.ha
            assert info["table"]["haMasterOffset"] == str(end)
            assert info["table"]["haLag"] == "0 bytes 0.0 s"
            found = await ask_status(master.running.ready.broker, 60)
            assert found.replication is not None
            assert found.replication["ha_address"] == master.ha
            (head, line) = replication_lines(found)
            assert head == f"ASYNC_MASTER, log up to {end}, 1 slave"
            assert line.endswith(f"has the log up to {end}: 0 bytes, 0.0 s behind, in sync")
            found = await ask_status(slave.running.ready.broker, 60)
            assert replication_lines(found) == [
                f"SLAVE of {master.ha}, connected, log up to {end}: 0 bytes, 0.0 s behind"
            ]
            seen = await asyncio.to_thread(shown_by_top, master)
            assert head in seen
            assert line in seen
            refused = await ask(slave, RequestCode.GET_TIMER_CHECK_POINT)
            assert (refused.code, len(refused.body)) == (ResponseCode.SUCCESS, 56)

    run(test)


def test_who_a_master_is(tmp_path: Path) -> None:
    async def test() -> None:
        code = RequestCode.EXCHANGE_BROKER_HA_INFO
        async with paired(tmp_path) as master, slave_of(tmp_path / "slave", master.ha) as slave:
            told = (await ask(master, code)).ext_fields
            assert told["masterHaAddress"] == master.ha
            assert told["masterAddress"] == master.running.ready.broker
            asked: dict[str, Value] = {"masterHaAddress": "192.0.2.1:1", "masterAddress": "x:1"}
            await ask(slave, code, asked)  # a stranger does not make a slave follow another master
            known = slave.broker.replication.master()
            assert known is not None
            assert known.ha_address in ("", master.ha)
            assert (await ask(slave, code)).ext_fields.get("masterHaAddress") is None

    run(test)


def test_a_message_wakes_a_slave_before_the_clock_does(tmp_path: Path) -> None:
    async def test() -> None:
        async with paired(tmp_path) as master:
            peer = await RawSlave.connect(master.ha)
            peer.report(0)
            await eventually_async(lambda: len(master.broker.replication.slaves()) == 1)
            await asyncio.to_thread(master.put, 1)
            at, body = await peer.frame()
            assert (at, len(body)) == (0, master.store.max_phy_offset)
            peer.report(len(body))
            peer.close()

    run(test)
