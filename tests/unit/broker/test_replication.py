"""A master and its slaves over real sockets: the log of one is the log of the other, byte for byte, or nothing is written."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import struct
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop
from support.eventually import eventually_async
from support.ports import PortBlock
from support.replication import Line, RawSlave, Side, slave_of

from rmqcore import Message
from rmqcore.broker.network import ha_master, ha_slave
from rmqcore.errors import LogsPartedError
from rmqcore.ha.slave import OVERLAP

LONG_S = 120.0
Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries follow each other at once."""
    monkeypatch.setattr(ha_slave, "AGAIN_AFTER_S", 0.02)


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Run a test on a loop, for at most so long."""

    def run_it(test: Coroutine[Any, Any, None]) -> None:
        async def timed() -> None:
            async with asyncio.timeout(LONG_S):
                await test

        factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(timed())

    return run_it


def test_an_empty_slave_catches_up_and_follows(tmp_path: Path, run: Run) -> None:
    async def test() -> None:
        async with Side(tmp_path / "master") as master:
            master.put(300)
            async with slave_of(tmp_path / "slave", master.ha) as slave:
                await slave.holds(master)
                for _ in range(5):
                    master.put(20)
                    await slave.holds(master)
                assert slave.log() == master.log()
                assert slave.store.wait_dispatched(LONG_S)
                (message,) = slave.store.get("t", 3, 0, 1).messages
                assert message.body == (3).to_bytes(8, "big") * 125

    run(test())


def test_an_empty_slave_begins_with_the_last_file(tmp_path: Path, run: Run) -> None:
    async def test() -> None:
        size: dict[str, Any] = {"mapped_file_size_commit_log": 1 << 16}
        async with Side(tmp_path / "master", **size) as master:
            master.put(200)
            end = master.store.max_phy_offset
            async with slave_of(tmp_path / "slave", master.ha, **size) as slave:
                await slave.holds(master)
                assert slave.store.min_phy_offset == end - end % (1 << 16) > 0
                master.put(200)
                await slave.holds(master)
                assert slave.log() == master.log()[slave.store.min_phy_offset :]

    run(test())


@pytest.mark.parametrize("cleaned", [False, True])
def test_an_empty_slave_that_wants_all(tmp_path: Path, run: Run, *, cleaned: bool) -> None:
    """Java's can only begin with the last file. An HA port takes a request from 0 on for that; also where 0 is gone."""

    async def test() -> None:
        size: dict[str, Any] = {"mapped_file_size_commit_log": 1 << 16}
        master = Side(tmp_path / "master", **size)
        master.block = PortBlock()
        async with master:
            master.put(200)
            assert master.store.wait_dispatched(LONG_S)
            if cleaned:
                master.store.flush()
                master.store.clean_once(disk_ratio=0.99, pause=lambda _: False)
                master.store.clean_once(disk_ratio=0.1)  # it takes messages again
            first = master.store.min_phy_offset
            assert (first > 0) == cleaned
            slave = slave_of(tmp_path / "slave", master.ha, **size)
            slave.ports = {"ha_from_first": True}
            async with slave:
                await slave.holds(master)
                assert slave.store.min_phy_offset == first
                master.put(100)
                await slave.holds(master)
                assert slave.log() == master.log()

    run(test())


def test_a_slave_that_stopped_files_ago_catches_up(tmp_path: Path, run: Run) -> None:
    """Its first report was that of an empty slave, and the master began with its last file."""

    async def test() -> None:
        size: dict[str, Any] = {"mapped_file_size_commit_log": 1 << 16}
        async with Side(tmp_path / "master", **size) as master:
            master.put(10)
            slave = slave_of(tmp_path / "slave", master.ha, **size)
            async with slave:
                await slave.holds(master)
            master.put(300)
            async with slave:
                await slave.holds(master)
                assert slave.log() == master.log()

    run(test())


def test_a_slave_resumes_wherever_its_connection_is_cut(tmp_path: Path, run: Run) -> None:
    async def test() -> None:
        async with Side(tmp_path / "master") as master, Line(master.ha) as line:
            line.piece_bytes = 777
            master.put(400)
            line.cut_after = 50_001  # in the middle of a record
            async with slave_of(tmp_path / "slave", line.address) as slave:
                # Each connection begins with the bytes that are compared, and must get beyond them.
                line.cut_after = OVERLAP + 50_001
                await slave.holds(master)
                assert line.made > 2
                line.cut_after = None
                line.cut()
                master.put(10)
                await slave.holds(master)
                assert slave.log() == master.log()

    run(test())


def test_a_slave_that_was_stopped_goes_on_at_its_end(tmp_path: Path, run: Run) -> None:
    async def test() -> None:
        async with Side(tmp_path / "master") as master:
            slave = slave_of(tmp_path / "slave", master.ha)
            for _ in range(3):
                master.put(50)
                async with slave:
                    await slave.holds(master)
                    assert slave.log() == master.log()
            await master.stop()
            slave.role = "ASYNC_MASTER"  # the promotion: the same store, opened as a master
            async with slave:
                assert slave.store.recovery.cut_bytes == 0
                found = slave.store.put(Message("t", b"after", 0))
                assert (
                    found.queue_offset == 39
                )  # 150 of four queues, 38 and 37 each, 39 of these: 13 in each of 3 rounds
                assert slave.store.wait_dispatched(LONG_S)

    run(test())


def test_a_slave_follows_over_the_ends_of_files(tmp_path: Path, run: Run) -> None:
    async def test() -> None:
        size: dict[str, Any] = {"mapped_file_size_commit_log": 1 << 16}
        async with (
            Side(tmp_path / "master", **size) as master,
            slave_of(tmp_path / "slave", master.ha, **size) as slave,
        ):
            for _ in range(10):
                master.put(40)
                await slave.holds(master)
            assert master.store.max_phy_offset > 6 << 16
            assert slave.log() == master.log()

    run(test())


def test_a_slave_under_sync_flush_reports_what_is_on_disk(tmp_path: Path, run: Run) -> None:
    async def test() -> None:
        async with (
            Side(tmp_path / "master", flush_disk_type="SYNC_FLUSH") as master,
            slave_of(tmp_path / "slave", master.ha, flush_disk_type="SYNC_FLUSH") as slave,
        ):
            assert master.running.ha_master is not None
            await asyncio.to_thread(master.put, 20)
            await eventually_async(lambda: acks(master) == [master.store.max_phy_offset])
            assert slave.store.flushed_phy_offset == master.store.max_phy_offset

    run(test())


def acks(master: Side) -> list[int]:
    """The offsets that the slaves of a master have reported."""
    return [one.ack for one in master.broker.replication.slaves()]


@pytest.mark.parametrize("is_longer", [True, False])
def test_parted_logs_stay_as_they_are(
    tmp_path: Path, run: Run, caplog: pytest.LogCaptureFixture, is_longer: bool
) -> None:
    async def test() -> None:
        async with Side(tmp_path / "slave") as once_master:
            once_master.put(30 if is_longer else 20, topic="other")
        async with Side(tmp_path / "master") as master:
            master.put(25)
            async with slave_of(tmp_path / "slave", master.ha) as slave:
                before = slave.log()
                await eventually_async(lambda: parted(caplog))
                await eventually_async(lambda: "differ at phy_offset" in slave_error(slave))
                master.put(20)
                await eventually_async(lambda: "differ at phy_offset" in slave_error(slave))
                assert slave.log() == before
        assert len([one for one in caplog.records if one.levelno == logging.ERROR]) == 1

    run(test())


def parted(caplog: pytest.LogCaptureFixture) -> bool:
    """Whether an error with its hint was logged."""
    return LogsPartedError.hint in caplog.text


def slave_error(slave: Side) -> str:
    """Why a slave does not follow its master."""
    found = slave.broker.replication.master()
    assert found is not None
    return found.error


async def lying_master(answers: bytes) -> asyncio.Server:
    """Listen as an HA port that sends the same bytes to each that reports."""

    async def came(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(8)
        writer.write(answers)
        await reader.read()
        writer.close()

    return await asyncio.start_server(came, "127.0.0.1", 0)


HEADER = struct.Struct(">qi")


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (HEADER.pack(0, -1), "body_size is -1"),
        (HEADER.pack(0, -12), "body_size is -12"),
        (HEADER.pack(0, (4 << 20) - 11), "body_size is 4194293"),
        (HEADER.pack(0, (1 << 31) - 1), "body_size is 2147483647"),
        (HEADER.pack(-1, 0), "phy_offset is -1"),
        (HEADER.pack(1 << 62 | 1, 0), "phy_offset is"),
        (HEADER.pack(7, 0), "phy_offset is 7"),
        (HEADER.pack(0, 200) + b"\0\0\0\x64garbage" * 20, "append_raw"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "frame of the HA port"),
    ],
)
def test_what_is_no_frame_is_not_appended(
    tmp_path: Path, run: Run, caplog: pytest.LogCaptureFixture, answers: bytes, said: str
) -> None:
    async def test() -> None:
        server = await lying_master(answers)
        port = server.sockets[0].getsockname()[1]
        async with slave_of(tmp_path / "slave", f"127.0.0.1:{port}") as slave:
            await eventually_async(
                lambda: said in slave_error(slave), details=lambda: slave_error(slave)
            )
            assert slave.store.max_phy_offset == 0
        server.close()

    run(test())
    assert len([one for one in caplog.records if "cannot follow master" in one.message]) == 1


@pytest.mark.parametrize("lie", [-2, -(1 << 63), 1 << 62, (1 << 63) - 1, 10_000_000])
def test_a_report_beyond_the_log_is_not_believed(
    tmp_path: Path, run: Run, caplog: pytest.LogCaptureFixture, lie: int
) -> None:
    async def test() -> None:
        async with Side(tmp_path / "master") as master:
            master.put(10)
            for _ in range(3):
                peer = await RawSlave.connect(master.ha)
                peer.report(lie)
                assert await peer.is_closed()
            assert acks(master) == []
        assert (
            len([one for one in caplog.records if "the connection is closed" in one.message]) == 1
        )

    run(test())


def test_a_raw_slave_gets_frames_and_heartbeats(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ha_master, "LOOK_MS", 20)

    async def test() -> None:
        side = Side(tmp_path / "master", ha_send_heartbeat_interval=50, ha_transfer_batch_size=999)
        async with side as master:
            master.put(30)
            log = master.log()
            peer = await RawSlave.connect(master.ha)
            peer.writer.write(b"\0\0\0")  # a report in two pieces
            await asyncio.sleep(0)
            peer.writer.write(b"\0\0\0\0\x07")
            got = b""
            while len(got) < len(log) - 7:
                at, body = await peer.frame()
                assert at == 7 + len(got)
                assert len(body) <= 999
                got += body
            assert got == log[7:]
            for _ in range(3):
                assert await peer.frame() == (len(log), b"")
            peer.close()

    run(test())


def test_twenty_slaves_and_one_that_never_reads(tmp_path: Path, run: Run) -> None:
    async def test() -> None:
        async with Side(tmp_path / "master", mapped_file_size_commit_log=32 << 20) as master:
            deaf = await RawSlave.connect(master.ha)
            deaf.writer.transport.pause_reading()  # type: ignore[attr-defined]
            deaf.report(0)
            peers = [await RawSlave.connect(master.ha) for _ in range(20)]
            for peer in peers:
                peer.report(0)
            await asyncio.to_thread(master.put, 8_000)
            end = master.store.max_phy_offset
            assert master.running.ha_master is not None
            for got in await asyncio.gather(*(read_to(peer, end) for peer in peers)):
                assert got == end
            for one in master.running.ha_master.open:
                assert one.unsent <= ha_master.MOST_UNSENT + (64 << 10)
            for peer in (deaf, *peers):
                peer.close()
            await eventually_async(lambda: acks(master) == [])

    run(test())


async def read_to(peer: RawSlave, end: int) -> int:
    """Read frames up to an offset, and report it."""
    at = 0
    while at < end:
        begin, body = await peer.frame()
        assert begin == at
        at += len(body)
    peer.report(at)
    return at


def test_a_silent_slave_is_given_up(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ha_master, "LOOK_MS", 20)

    async def test() -> None:
        async with Side(tmp_path / "master", ha_housekeeping_interval=100) as master:
            never = await RawSlave.connect(master.ha)
            once = await RawSlave.connect(master.ha)
            once.report(0)
            assert await never.is_closed()
            assert await once.is_closed()

    run(test())


def test_a_master_that_says_nothing_is_left(tmp_path: Path, run: Run) -> None:
    async def test() -> None:
        async with Side(tmp_path / "master") as master, Line(master.ha) as line:
            master.put(10)
            async with slave_of(
                tmp_path / "slave", line.address, ha_housekeeping_interval=300
            ) as slave:
                await slave.holds(master)
                line.stall()
                master.put(10)
                await eventually_async(lambda: line.made > 1)
                assert "haHousekeepingInterval" in slave_error(slave)
                line.go_on()
                line.cut()
                await slave.holds(master)
                assert slave.log() == master.log()

    run(test())


def test_strangers_and_too_many(tmp_path: Path, run: Run) -> None:
    async def test() -> None:
        master = Side(tmp_path / "master")
        master.ports = {"max_connections": 2}
        async with master:
            peers = [await RawSlave.connect(master.ha) for _ in range(3)]
            assert await peers[2].is_closed()
            for peer in peers:
                peer.close()
        master.ports = {"allowed": (ipaddress.ip_network("192.0.2.0/24"),)}
        async with master:
            assert await (await RawSlave.connect(master.ha)).is_closed()

    run(test())


def test_files_that_the_master_deletes(
    tmp_path: Path, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        size: dict[str, Any] = {"mapped_file_size_commit_log": 1 << 16}
        master = Side(tmp_path / "master", **size)
        master.block = PortBlock()
        async with master:
            master.put(50)
            slave = slave_of(tmp_path / "slave", master.ha, **size)
            async with slave:
                await slave.holds(master)
            end = master.store.max_phy_offset
            master.put(300)
        for file in sorted((tmp_path / "master" / "commitlog").iterdir())[:3]:
            file.unlink()
        async with master, slave:
            await eventually_async(lambda: "are deleted at the master" in slave_error(slave))
            assert slave.store.max_phy_offset == end

    run(test())
    (said,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert "start the slave with an empty store" in said.message


def test_the_pace_of_all_slaves(tmp_path: Path, run: Run) -> None:
    async def test() -> None:
        master = Side(tmp_path / "master")
        master.settings = {
            "ha_flow_control_enable": True,
            "max_ha_transfer_byte_in_second": 100_000,
        }
        async with master:
            master.put(200)
            peer = await RawSlave.connect(master.ha)
            begin = time.monotonic()
            peer.report(0)
            got = 0
            while got < 200_000:
                got += len((await peer.frame())[1])
            # 100,000 bytes at once, and at least 67,000 of the rest at 100,000 a second.
            assert time.monotonic() - begin > 0.6
            peer.close()

    run(test())


def test_what_enough_replicas_hold_is_told(tmp_path: Path, run: Run) -> None:
    async def test() -> None:
        sync = {"in_sync_replicas": 3, "slave_timeout": 1}
        async with Side(tmp_path / "master", "SYNC_MASTER", **sync) as master:
            assert master.running.ha_master is not None
            told: list[int] = []
            master.running.ha_master.on_held = told.append
            peers = [await RawSlave.connect(master.ha) for _ in range(2)]
            for number in range(100):
                master.store.append(Message("t", b"%d" % number))
            end = master.store.max_phy_offset
            for peer in peers:
                peer.report(1)
                await peer.frame()
            peers[0].report(end)
            await eventually_async(lambda: end in acks(master))
            assert told == []
            peers[1].report(end // 2)
            await eventually_async(lambda: told == [end // 2])
            peers[1].report(end)
            await eventually_async(lambda: told == [end // 2, end])
            for peer in peers:
                peer.close()

    run(test())


def test_a_slave_that_falls_behind_and_comes_back_is_told(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ha_master, "LOOK_MS", 10)

    async def test() -> None:
        async with Side(tmp_path / "master", ha_max_gap_not_in_sync=1000) as master:
            peer = await RawSlave.connect(master.ha)
            peer.report(0)
            await eventually_async(lambda: acks(master) == [0])
            assert "in sync" not in caplog.text
            await asyncio.to_thread(master.put, 10)
            await eventually_async(lambda: "is no longer in sync" in caplog.text)
            peer.report(master.store.max_phy_offset)
            await eventually_async(lambda: "is in sync again" in caplog.text)
            peer.close()

    run(test())


def test_a_slave_under_load_reads_what_lies_on_the_disk(tmp_path: Path, run: Run) -> None:
    """After a restart nothing is known to be in memory: readers bring it in, and the loop goes on."""

    async def test() -> None:
        master = Side(tmp_path / "master", mapped_file_size_commit_log=8 << 20)
        async with master:
            await asyncio.to_thread(master.put, 5000)
        async with (
            master,
            slave_of(tmp_path / "slave", master.ha, mapped_file_size_commit_log=8 << 20) as slave,
        ):
            await asyncio.to_thread(master.put, 100)
            await slave.holds(master)
            assert slave.log() == master.log()

    run(test())


def test_a_first_report_is_not_an_acknowledgement(tmp_path: Path, run: Run) -> None:
    """A log that has parted reports offsets all the same: a send was answered by a slave that never got it."""

    async def test() -> None:
        sync = {"in_sync_replicas": 2, "slave_timeout": 1}
        async with Side(tmp_path / "master", "SYNC_MASTER", **sync) as master:
            assert master.running.ha_master is not None
            told: list[int] = []
            master.running.ha_master.on_held = told.append
            for number in range(100):
                master.store.append(Message("t", b"%d" % number))
            end = master.store.max_phy_offset
            peer = await RawSlave.connect(master.ha)
            peer.report(end - 1)
            await peer.frame()
            peer.report(end - 1)
            await eventually_async(lambda: acks(master) == [end - 1])
            assert told == []
            peer.report(end)
            await eventually_async(lambda: told == [end])
            peer.close()

    run(test())


def test_sends_of_one_turn_of_the_loop_are_one_frame(tmp_path: Path, run: Run) -> None:
    """A frame and a report for each send cost a SYNC_MASTER with 64 connections more than the sends."""

    async def test() -> None:
        async with Side(tmp_path / "master", "SYNC_MASTER", in_sync_replicas=2) as master:
            leads = master.running.ha_master
            assert leads is not None
            master.store.append(Message("t", b"first"))
            end = master.store.max_phy_offset
            peer = await RawSlave.connect(master.ha)
            peer.report(1)
            while (frame := await peer.frame())[0] + len(frame[1]) < end:
                pass
            for number in range(20):
                master.store.append(Message("t", b"%d" % number))
                leads.requests_answered()
            at, body = await peer.frame()
            assert (at, at + len(body)) == (end, master.store.max_phy_offset)
            peer.close()

    run(test())


def test_what_is_on_its_way_to_the_disk_is_looked_for_soon(tmp_path: Path, run: Run) -> None:
    """Under SYNC_FLUSH nothing is to be sent yet when requests are answered: the next look must not be that of a log at rest."""

    async def test() -> None:
        sync = {"in_sync_replicas": 2, "flush_disk_type": "SYNC_FLUSH"}
        async with Side(tmp_path / "master", "SYNC_MASTER", **sync) as master:
            leads = master.running.ha_master
            assert leads is not None
            peer = await RawSlave.connect(master.ha)
            peer.report(0)
            await eventually_async(lambda: leads._delay_s == ha_master.IDLE_S)
            master.store.append(Message("t", b"x"))
            leads.requests_answered()
            assert leads._delay_s == ha_master.BUSY_S
            peer.close()

    run(test())


def test_one_line_when_a_slave_goes_and_one_when_it_is_back(
    tmp_path: Path, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with Side(tmp_path / "master") as master:
            master.put(10)
            for _ in range(3):  # one that leaves at once, as a slave whose log has parted
                peer = await RawSlave.connect(master.ha)
                peer.report(7)
                await peer.frame()
                peer.close()
                await eventually_async(lambda: acks(master) == [])
            for _ in range(2):
                peer = await RawSlave.connect(master.ha)
                peer.report(1)
                await peer.frame()
                peer.report(master.store.max_phy_offset)
                await eventually_async(lambda: acks(master) == [master.store.max_phy_offset])
                peer.close()
                await eventually_async(lambda: acks(master) == [])

    run(test())
    said = [one.message for one in caplog.records if one.levelno == logging.WARNING]
    for part, count in (
        ("disconnected without accepting it", 1),
        ("disconnected at", 2),
        ("has reconnected", 1),
    ):
        assert sum(part in one for one in said) == count, said
