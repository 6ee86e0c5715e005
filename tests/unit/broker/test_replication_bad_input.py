"""Pairs that are set up wrongly, and masters that die in the middle: the slave's log stays a beginning of its master's."""

from __future__ import annotations

import asyncio
import errno
import struct
from pathlib import Path
from typing import Any

import pytest
from support.eventually import eventually_async
from support.replication import Line, RawSlave, Side, run, slave_of

from rmqcore import Message
from rmqcore.broker.network import ha_slave
from rmqcore.engine.log.mapped_files import create_mapped_file
from rmqcore.offline.fsck import fsck
from rmqcore.vocabulary.status import PutMessageStatus

HEADER = struct.Struct(">qi")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries follow each other at once."""
    monkeypatch.setattr(ha_slave, "AGAIN_AFTER_S", 0.02)


def error_of(slave: Side) -> str:
    found = slave.broker.replication.master()
    assert found is not None
    return found.error


def test_a_slave_with_another_file_size(tmp_path: Path) -> None:
    """The first record that lies across the end of the slave's smaller file is not written."""

    async def test() -> None:
        async with (
            Side(tmp_path / "master") as master,
            slave_of(tmp_path / "slave", master.ha, mapped_file_size_commit_log=1 << 16) as slave,
        ):
            master.put(200)
            await eventually_async(lambda: "TOTALSIZE" in error_of(slave))
            log = slave.log()
            assert master.log().startswith(log)
            assert 0 < len(log) < 1 << 16

    run(test)
    assert fsck(tmp_path / "slave").exit_code == 0


def test_a_master_that_dies_inside_of_a_frame(tmp_path: Path) -> None:
    """Behind the header, and inside of the body: a whole record of the piece stays, and half of one goes."""

    async def test() -> None:
        async with Side(tmp_path / "real") as real:
            real.put(3)
            log = real.log()
        begun = [log[:0], log[:1], log[:700], log[: len(log) - 1], log]
        served = 0

        async def came(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal served
            asked = struct.unpack(">q", await reader.readexactly(8))[0]
            piece = begun[min(served, len(begun) - 1)]
            served += 1
            writer.write(HEADER.pack(asked, len(log) - asked) + piece[asked:])
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(came, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with slave_of(tmp_path / "slave", f"127.0.0.1:{port}") as slave:
            await eventually_async(lambda: slave.store.max_phy_offset == len(log))
            assert slave.log() == log
            await eventually_async(lambda: "closed the connection" in error_of(slave))
        server.close()

    run(test)
    assert fsck(tmp_path / "slave").exit_code == 0


def test_a_slave_of_a_slave(tmp_path: Path) -> None:
    """A slave listens for none: the one behind it says that it is refused, and follows nobody."""

    async def test() -> None:
        async with Side(tmp_path / "master") as master:
            master.put(10)
            async with slave_of(tmp_path / "slave", master.ha) as slave:
                await slave.holds(master)
                assert slave.running.ready.ha is None
                host, _, port = slave.running.ready.broker.rpartition(":")
                nobody = f"{host}:{int(port) + 1}"
                async with slave_of(tmp_path / "behind", nobody) as behind:
                    await eventually_async(lambda: error_of(behind))
                    assert behind.store.max_phy_offset == 0
                # The broker's own port is no HA port either.
                async with slave_of(tmp_path / "other", slave.running.ready.broker) as other:
                    await eventually_async(lambda: error_of(other))
                    assert other.store.max_phy_offset == 0
                await slave.holds(master)

    run(test)


def test_a_hundred_slaves(tmp_path: Path) -> None:
    async def test() -> None:
        async with Side(tmp_path / "master") as master:
            peers = [await RawSlave.connect(master.ha) for _ in range(100)]
            for peer in peers:
                peer.report(0)
            await asyncio.to_thread(master.put, 100)
            log = master.log()

            async def read(peer: RawSlave) -> bytes:
                got = b""
                while len(got) < len(log):
                    got += (await peer.frame())[1]
                peer.report(len(got))
                return got

            assert set(await asyncio.gather(*map(read, peers))) == {log}
            slaves = master.broker.replication.slaves
            await eventually_async(lambda: {one.ack for one in slaves()} == {len(log)})
            for peer in peers:
                peer.close()
            await eventually_async(lambda: not slaves())

    run(test)


def test_two_masters_of_one_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The second one is refused while the first one lives; when it has the name, a slave of the first does not follow it."""

    async def test() -> None:
        names = Side(tmp_path / "names")
        names.ports, names.settings = {"namesrv": 0}, {"broker_name": "another"}
        async with names:
            first, second = Side(tmp_path / "first"), Side(tmp_path / "second")
            slave = Side(tmp_path / "slave", "SLAVE")
            for one in (first, second, slave):
                one.ports = {"namesrvs": (names.running.ready.namesrv,)}
            async with first, slave:
                first.put(20)
                await slave.holds(first)
                async with second:
                    await eventually_async(lambda: "is live at" in caplog.text)
                    second.put(40, size=1200)
                    await slave.stop()
                    await slave.start()
                    first.put(1)
                    await slave.holds(first)
                log = first.log()
            async with second, slave:
                await eventually_async(
                    lambda: "the logs of master and slave differ" in error_of(slave)
                )
                known = slave.broker.replication.master()
                assert known is not None
                assert known.ha_address == second.ha
                assert slave.log() == log

    run(test)
    assert fsck(tmp_path / "slave").exit_code == 0


class Full:
    """A disk that has no room for another file of the log of one store."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root: Path | None = None

        def create_if_room(folder: Path, *given: Any, **more: Any) -> Any:
            if self.root is not None and folder.is_relative_to(self.root):
                raise OSError(errno.ENOSPC, "No space left on device", str(folder))
            return create_mapped_file(folder, *given, **more)

        monkeypatch.setattr("rmqcore.engine.log.log_space.create_mapped_file", create_if_room)


FILES: dict[str, Any] = {"mapped_file_size_commit_log": 1 << 16, "clean_resource_interval": 20}


def test_the_disk_of_a_slave_that_fills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so, holds a beginning of its master's log, and goes on once there is room; its master takes messages."""
    disk = Full(monkeypatch)

    async def test() -> None:
        async with (
            Side(tmp_path / "master", **FILES) as master,
            slave_of(tmp_path / "slave", master.ha, **FILES) as slave,
        ):
            master.put(20)
            await slave.holds(master)
            disk.root = tmp_path / "slave"
            await asyncio.to_thread(master.put, 300)
            await eventually_async(lambda: "No space left on device" in error_of(slave))
            assert master.log().startswith(slave.log())
            assert slave.store.max_phy_offset < master.store.max_phy_offset
            assert not slave.store.failed
            disk.root = None
            await slave.holds(master)
            assert slave.log() == master.log()

    run(test)
    assert fsck(tmp_path / "slave").exit_code == 0


def test_the_disk_of_a_master_that_fills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its slave has all that was stored, keeps its connection, and gets what is stored once there is room."""
    disk = Full(monkeypatch)
    stored = PutMessageStatus.PUT_OK

    async def test() -> None:
        async with Side(tmp_path / "master", **FILES) as master, Line(master.ha) as line:

            def put() -> PutMessageStatus:
                return master.store.put(Message("t", b"x" * 1000)).status

            async with slave_of(tmp_path / "slave", line.address, **FILES) as slave:
                disk.root = tmp_path / "master"
                for _ in range(300):
                    if await asyncio.to_thread(put) is not stored:
                        break
                assert put() is not stored
                await slave.holds(master)
                assert slave.log() == master.log()
                disk.root = None
                await eventually_async(lambda: put() is stored)
                await slave.holds(master)
                assert slave.log() == master.log()
                assert line.made == 1

    run(test)
    assert fsck(tmp_path / "slave").exit_code == 0


def lags(master: Side) -> list[tuple[bool, int, float]]:
    slaves = master.broker.replication.slaves()
    return [(one.in_sync, one.lag_bytes, one.lag_s) for one in slaves]


@pytest.mark.parametrize("hours", [-7, 7])
def test_a_clock_hours_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int) -> None:
    """No side believes the other's clock: silence and lag are measured by clocks that never step."""

    async def test() -> None:
        async with Side(tmp_path / "master") as master:
            clock = master.broker.now_ms
            async with slave_of(tmp_path / "slave", master.ha) as slave:
                monkeypatch.setattr(slave.broker, "now_ms", lambda: clock() + hours * 3_600_000)
                master.put(20)
                await slave.holds(master)
                await eventually_async(lambda: lags(master) == [(True, 0, 0.0)])
                known = slave.broker.replication.master()
                assert known is not None
                assert (known.connected, known.error) == (True, "")
                assert 0 <= known.lag_s < 3_600
                assert slave.log() == master.log()

    run(test)


def test_a_put_that_waited_is_acknowledged_by_a_slave_that_comes_back(tmp_path: Path) -> None:
    """The slave had the message, and its report was lost with the connection: it compares, and reports again."""

    async def test() -> None:
        sync = {"in_sync_replicas": 2, "slave_timeout": 60_000}
        async with (
            Side(tmp_path / "master", "SYNC_MASTER", **sync) as master,
            Line(master.ha) as line,
            slave_of(tmp_path / "slave", line.address) as slave,
        ):
            for number in range(30):
                master.store.append(Message("t", b"%d" % number))
            end = master.store.max_phy_offset
            await eventually_async(lambda: master.store.replicated_offset == end)
            ha_master = master.running.ha_master
            assert ha_master is not None
            told, ha_master.on_held = ha_master.on_held, None  # the report is lost
            master.store.append(Message("t", b"waits"))
            await slave.holds(master)
            waits: list[PutMessageStatus] = []
            master.store.on_replicated(master.store.max_phy_offset, waits.append)
            line.cut()
            ha_master.on_held = told
            await eventually_async(lambda: waits == [PutMessageStatus.PUT_OK])

    run(test)
