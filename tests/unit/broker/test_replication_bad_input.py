"""Pairs that are set up wrongly, and masters that die in the middle: the slave's log stays a beginning of its master's."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path

import pytest
from support.eventually import eventually_async
from support.replication import RawSlave, Side, run, slave_of

from rmqcore.broker.network import ha_slave
from rmqcore.offline.fsck import fsck

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
