"""What `rmqcore serve` holds its peers to, over real sockets: each limit ends or refuses one connection, and no other."""

from __future__ import annotations

import asyncio
import json
import re
import resource
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import uvloop
from support.eventually import eventually, eventually_async
from support.ports import PortBlock
from support.raw_client import AsyncRawClient, RawClient, pull_request, send_request
from support.server_process import OPENED, ServerProcess, fsck

import rmqcore
from rmqcore.broker.network import connection, server
from rmqcore.broker.network.server import Ports, Running
from rmqcore.broker.settings import BrokerSettings
from rmqcore.codec.message import Message
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.frame import MAX_FRAME_SIZE, MAX_HEADER_SIZE
from rmqcore.remoting.header import encode_command

MIB = 1 << 20


def ask_version() -> RemotingCommand:
    """Make a request that is answered at once, whatever the store holds."""
    return RemotingCommand(RequestCode.GET_BROKER_CONFIG)


def is_served(address: str) -> bool:
    """Say whether a connection that comes now is answered."""
    with RawClient(address) as client:
        return client.ask(ask_version()).code == ResponseCode.SUCCESS


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that the tests share: what one of them does to its connections must not touch another's."""
    with ServerProcess(tmp_path_factory.mktemp("served")) as process:
        yield process
        assert process.stop() == 0
        assert "Traceback" not in process.log


# ---- what comes is no frame -------------------------------------------------------------------------


def frame(header: bytes, body: bytes = b"", *, kind: int = 0) -> bytes:
    return struct.pack(">iI", 4 + len(header) + len(body), kind << 24 | len(header)) + header + body


def json_header(**more: Any) -> bytes:
    members = {"code": 26, "opaque": 1, "flag": 0, "language": "PYTHON", "version": 0, **more}
    return json.dumps(members, ensure_ascii=False).encode()


def nested(levels: int) -> bytes:
    return json_header(deep=0).replace(b"0}", b"[" * (levels - 1) + b"]" * (levels - 1) + b"}")


def padded(size: int) -> bytes:
    """Give a header of this many bytes."""
    empty = json_header(remark="")
    return json_header(remark="x" * (size - len(empty)))


REFUSED = {
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "zeros": bytes(64),
    "negative length": struct.pack(">iI", -1, 0),
    "a frame of 16 MiB and a byte": struct.pack(">i", MAX_FRAME_SIZE - 3),
    "a header of 64 KiB and a byte": struct.pack(">iI", 1 << 20, MAX_HEADER_SIZE + 1),
    "a header beyond its frame": struct.pack(">iI", 20, 30),
    "a kind of header that is none": frame(json_header(), kind=2),
    "JSON of nine levels": frame(nested(9)),
    "JSON of a million levels": frame(b"[" * 60_000),
    "no UTF-8": frame(json_header(remark="\0").replace(b"\\u0000", b"\xff\xfe")),
    "an overlong UTF-8": frame(json_header(remark="\0").replace(b"\\u0000", b"\xc0\xaf")),
    "half of a surrogate pair": frame(json_header(remark="\0").replace(b"u0000", b"ud800")),
    "no object": frame(b"[1]"),
    "no code": frame(b'{"opaque":1}'),
    "a code beyond an int": frame(json_header(code=1 << 31)),
    "a binary header cut short": frame(b"\0\1", kind=1),
}


@pytest.mark.parametrize("port", ["broker", "namesrv"])
@pytest.mark.parametrize("what", REFUSED)
def test_garbage_ends_its_connection_and_no_other(
    served: ServerProcess, what: str, port: str
) -> None:
    address = getattr(served, port)
    with RawClient(address) as other, RawClient(address) as client:
        known = other.ask(ask_version()).code
        client.socket.sendall(REFUSED[what])
        assert client.is_closed_by_server()
        assert other.ask(ask_version()).code == known
    assert is_served(served.broker)


@pytest.mark.parametrize(
    "header", [nested(8), padded(MAX_HEADER_SIZE)], ids=["eight levels", "64 KiB"]
)
def test_what_is_just_within_the_limits_is_answered(served: ServerProcess, header: bytes) -> None:
    with RawClient(served.broker) as client:
        client.socket.sendall(frame(header))
        assert client.next().code == ResponseCode.SUCCESS


def test_a_frame_of_16_mib_is_read_and_its_message_refused(served: ServerProcess) -> None:
    request = send_request("big", b"")
    request.body = bytes(MAX_FRAME_SIZE - len(encode_command(request)))
    with RawClient(served.broker) as client:
        assert client.ask(request).code == ResponseCode.MESSAGE_ILLEGAL
        assert client.ask(ask_version()).code == ResponseCode.SUCCESS


def test_an_announced_length_takes_no_memory(served: ServerProcess) -> None:
    with ExitStack() as stack:
        before = served.anonymous_bytes()
        for _ in range(200):
            client = stack.enter_context(RawClient(served.broker))
            client.socket.sendall(struct.pack(">i", MAX_FRAME_SIZE - 4))
        assert is_served(served.broker)
        assert served.anonymous_bytes() - before < 20 * MIB


# ---- how many, and who ------------------------------------------------------------------------------


def test_one_connection_too_many_is_closed(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--max-connections", "3") as process, ExitStack() as stack:
        clients = [stack.enter_context(RawClient(process.broker)) for _ in range(3)]
        assert all(c.ask(ask_version()).code == ResponseCode.SUCCESS for c in clients)
        with RawClient(process.broker) as fourth:
            assert fourth.is_closed_by_server()
        assert "the limit of 3 connections is reached" in process.log
        clients[0].close()
        eventually(lambda: connects(process.broker))
        assert clients[1].ask(ask_version()).code == ResponseCode.SUCCESS
        assert process.stop() == 0


def connects(address: str) -> bool:
    try:
        return is_served(address)
    except ConnectionError:
        return False


def test_a_thousand_idle_connections(tmp_path: Path) -> None:
    """They are within the limit of a shell that allows 1,024 open files: the server asks for more. None costs much memory."""
    limited = ("prlimit", "--nofile=1024:")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))  # for us
    with ServerProcess(tmp_path, before=limited) as process, ExitStack() as stack:
        with RawClient(process.broker) as client:
            assert client.ask(send_request("t", b"x")).code == ResponseCode.SUCCESS
        before = process.anonymous_bytes()
        clients = [stack.enter_context(RawClient(process.broker)) for _ in range(999)]
        for client in clients:
            assert client.ask(ask_version()).code == ResponseCode.SUCCESS
        assert is_served(process.broker)
        assert process.anonymous_bytes() - before < 50 * MIB
        files = process.open_files()
        for client in clients:
            client.close()
        eventually(lambda: process.open_files() < files - 990)
        assert process.stop() == 0


def serve(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a server that is expected not to start."""
    command = [sys.executable, "-m", "rmqcore", "serve", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_where_others_can_connect_somebody_says_who(tmp_path: Path, host: str) -> None:
    done = serve(tmp_path / "store", "--port", "0", "--host", host)
    assert done.returncode == 64
    assert "--allow" in done.stderr
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_broker_says_where_it_can_be_reached(tmp_path: Path, host: str) -> None:
    """Clients were told 0.0.0.0, and looked for the broker on their own machine; so did the ids of its messages."""
    done = serve(tmp_path / "store", "--port", "0", "--host", host, "--insecure")
    assert done.returncode == 64
    assert "--advertise" in done.stderr
    assert not (tmp_path / "store").exists()


def test_a_host_may_have_a_name(tmp_path: Path) -> None:
    """Records have room for addresses only: a send to a broker on `localhost` was an error."""
    with ServerProcess(tmp_path, "--host", "localhost") as process:
        assert process.broker.startswith("localhost:")
        address = "127.0.0.1:" + process.broker.rpartition(":")[2]
        with RawClient(address) as client:
            answer = client.ask(send_request("t", b"x"))
        assert answer.code == ResponseCode.SUCCESS
        assert answer.ext_fields["msgId"].startswith("7F000001")
        assert process.stop() == 0


def test_what_a_start_has_cut_is_told(tmp_path: Path, golden: Path) -> None:
    """A damaged store was served as if nothing was missing: the log behind the damage was cut without a word."""
    store = shutil.copytree(golden / "crash_flipped" / "input", tmp_path / "store")
    with ServerProcess(tmp_path) as process:
        assert is_served(process.broker)
        assert process.stop() == 0
    said = process.log
    assert re.search(r"Warning: \d+ bytes behind the end of the log, at 204236, were cut", said)
    assert f"they are kept in {store / 'cut'}" in said


def test_a_slave_without_a_master_says_so(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, settings={"brokerRole": "SLAVE"}) as process:
        with RawClient(process.broker) as client:
            assert client.ask(send_request("t", b"x")).code != ResponseCode.SUCCESS
        eventually(
            lambda: "the master's address is unknown: haMasterAddress is not set" in process.log
        )
        assert process.stop() == 0


def test_a_pair_of_processes(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "one", "--ha-port", "0") as master:
        with RawClient(master.broker) as client:
            for number in range(50):
                body = str(number).encode() * 100
                assert client.ask(send_request("t", body)).code == ResponseCode.SUCCESS
        options = ("--role", "SLAVE", "--ha-master", master.ha)
        with ServerProcess(tmp_path / "two", *options) as slave:
            first = "commitlog/00000000000000000000"
            eventually(
                lambda: (
                    (slave.store / first).is_file()
                    and (slave.store / first).read_bytes() == (master.store / first).read_bytes()
                )
            )
            slave.kill()
            slave.start()
            assert slave.stop() == 0
        assert master.stop() == 0
    code, said = fsck(tmp_path / "two" / "store")
    assert code == 0, said


def test_a_sync_master_says_for_whom_it_waits(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, settings={"brokerRole": "SYNC_MASTER"}) as process:
        assert process.ha
        assert process.stop() == 0
    assert "inSyncReplicas=2 waits for one" in process.log


def test_a_disk_that_is_too_full_is_told_at_the_start(tmp_path: Path) -> None:
    """A broker on a disk of 76 % was ready, refused each message, and had not said a word of it."""
    with ServerProcess(tmp_path, settings={"diskMaxUsedSpaceRatio": 0}) as process:
        with RawClient(process.broker) as client:
            answer = client.ask(send_request("t", b"x"))
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert process.stop() == 0
    assert re.search(r"is \d+ % full, more than diskMaxUsedSpaceRatio \(0\)", process.log)


def test_topics_that_nobody_can_read_are_told(tmp_path: Path) -> None:
    """A store that a program had filled was served, its topics were nowhere, and nobody said a word of it."""
    topics = ["t1", "t2", "t3", "t4", "t5", "t6", "%RETRY%g", "SCHEDULE_TOPIC_XXXX"]
    with rmqcore.open(tmp_path / "store", mapped_file_size_commit_log=1 << 20) as store:
        for topic in topics:
            store.put(rmqcore.Message(topic, b"x")).raise_for_status()
    with ServerProcess(tmp_path) as process:
        assert process.stop() == 0
    told = (
        "topics.json lacks topics that have messages: t1, t2, t3, t4, t5, ...; clients see such a "
        "topic"
    )
    assert told in process.log
    assert process.log.count("lacks topics") == 1


def test_settings_that_do_nothing_are_told(tmp_path: Path) -> None:
    """`rmqcore.open` warned of such a setting of a broker.conf, and the broker took the same file without a word."""
    with ServerProcess(tmp_path, settings={"transientStorePoolEnable": "true"}) as process:
        assert process.stop() == 0
    told = "Warning: transient_store_pool_enable (transientStorePoolEnable) has no effect: "
    assert told in process.log.replace("\n", " ")


def test_a_warning_of_a_setting_is_given_once(tmp_path: Path) -> None:
    """The broker.conf was read twice where there was a store, and each of its warnings printed twice."""
    with ServerProcess(tmp_path, settings={"maxIndexNumm": 5}) as process:
        assert process.stop() == 0
        process.start()
        assert process.stop() == 0
    assert process.log.count("RocketMQ has no setting maxIndexNumm") == 2  # two starts


def test_a_wrong_setting_names_its_file(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerPermission=9\n")
    done = serve(tmp_path / "store", "--config", conf)
    assert done.returncode == 1
    assert f"{conf}:1: brokerPermission: expected 0 to 7, got 9" in done.stderr.replace("\n", " ")
    assert not (tmp_path / "store").exists()


def test_a_network_that_is_none(tmp_path: Path) -> None:
    done = serve(tmp_path / "store", "--port", "0", "--host", "0.0.0.0", "--allow", "10.0.0.1/8")
    assert done.returncode == 64
    assert "got '10.0.0.1/8', expected a network, such as 10.0.0.0/8" in done.stderr.replace(
        "\n", " "
    )


def test_only_peers_of_an_allowed_network_are_served(tmp_path: Path) -> None:
    options = ("--host", "0.0.0.0", "--advertise", "127.0.0.1", "--allow", "127.0.0.2/32")
    with ServerProcess(tmp_path, *options) as process:
        for listening in (process.broker, process.namesrv):
            address = "127.0.0.1:" + listening.rpartition(":")[2]
            with RawClient(address, source="127.0.0.3") as stranger:
                assert stranger.is_closed_by_server()
            with RawClient(address, source="127.0.0.2") as friend:
                assert friend.ask(ask_version()).is_response
        assert "127.0.0.3" in process.log
        assert process.stop() == 0


@pytest.mark.parametrize("which", ["--port", "--namesrv-port"])
def test_a_port_that_is_taken(tmp_path: Path, which: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ports = {"--port": "0", "--namesrv-port": "free", which: port}
        done = serve(tmp_path / "store", *(word for pair in ports.items() for word in pair))
    assert done.returncode == 1
    assert done.stdout == ""
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("reason", ["port", "host", "advertise"])
def test_a_start_that_fails_for_its_address_leaves_the_store_as_it_was(
    tmp_path: Path, reason: str
) -> None:
    """It had been recovered, and its end cut, before the port was tried."""
    store = rmqcore.open(tmp_path / "store", services=False, mapped_file_size_commit_log=MIB)
    store.put(Message("T", b"x"))
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "store", copy)  # as after a crash
    store.close()
    before = {path: path.stat().st_mtime_ns for path in copy.rglob("*")}
    assert copy / "abort" in before
    with socket.create_server(("127.0.0.1", 0)) as taken:
        options = {
            "port": ("--port", str(taken.getsockname()[1])),
            "host": ("--port", "0", "--host", "192.0.2.1", "--insecure"),
            "advertise": ("--port", "0", "--advertise", "unknown.invalid"),
        }[reason]
        done = serve(copy, *options)
    assert done.returncode == 1
    assert "cannot listen on" in done.stderr or "no address of unknown.invalid" in done.stderr
    assert {path: path.stat().st_mtime_ns for path in copy.rglob("*")} == before


def test_a_configuration_of_another_store_is_named(tmp_path: Path) -> None:
    """Only `rmqcore.open` said so, though the page of settings promises it."""
    config = tmp_path / "broker.conf"
    config.write_text(f"storePathRootDir={tmp_path / 'other'}\n")
    options = ("--config", str(config), "--host", "192.0.2.1", "--insecure")
    done = serve(tmp_path / "store", *options)
    warning = (
        f"storePathRootDir) is {tmp_path / 'other'}, but the store to open is {tmp_path / 'store'}"
    )
    assert done.stderr.count(warning) == 1
    config.write_text(f"storePathRootDir={tmp_path / 'store'}\n")
    assert "storePathRootDir" not in serve(tmp_path / "store", *options).stderr


# ---- over time: in this process, so that the limits can be short --------------------------------------


class Beside:
    """A server on the loop of its clients, which end with it."""

    def __init__(self, running: Running) -> None:
        self.broker = running.ready.broker
        self.namesrv = str(running.ready.namesrv)
        self.connections = running.connections
        self.clients: list[AsyncRawClient] = []

    async def open(self, address: str = "") -> AsyncRawClient:
        """Connect, to the broker where nothing else is said."""
        self.clients.append(await AsyncRawClient.open(address or self.broker))
        return self.clients[-1]


Scenario = Callable[[Beside], Coroutine[Any, Any, None]]


async def beside(folder: Path, scenario: Scenario) -> None:
    """Run a scenario, and look that nothing of its connections is left."""
    with rmqcore.open(folder / "store", **OPENED) as store:
        ports = Ports(broker=0, namesrv=0)
        async with asyncio.timeout(120), server.serving(store, BrokerSettings(), ports) as found:
            served = Beside(found)
            await scenario(served)
            for client in served.clients:
                client.close()
            await eventually_async(lambda: not found.connections.open)
            assert found.connections.buffered == 0


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Scenario], None]:
    """Runs a scenario beside a server, on the loop that everybody has and on the one of the extra."""

    def run(scenario: Scenario) -> None:
        factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(beside(tmp_path, scenario))

    return run


async def is_closed(client: AsyncRawClient) -> bool:
    try:
        while True:
            await client.next()
    except ConnectionError:
        return True


def test_half_a_frame_has_its_time(
    run: Callable[[Scenario], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HALF_FRAME_S", 0.05)
    monkeypatch.setattr(server, "CHECK_IDLE_MS", 20)

    async def scenario(served: Beside) -> None:
        other = await served.open()
        for address in (served.broker, served.namesrv):
            slow = await served.open(address)
            slow.writer.write(encode_command(ask_version())[:-1])
            assert await is_closed(slow)
        assert (await other.ask(ask_version())).code == ResponseCode.SUCCESS

    run(scenario)


def test_silence_has_an_end(
    run: Callable[[Scenario], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "IDLE_S", 0.05)
    monkeypatch.setattr(server, "CHECK_IDLE_MS", 20)

    async def scenario(served: Beside) -> None:
        assert await is_closed(await served.open())
        assert await is_closed(await served.open(served.namesrv))

    run(scenario)


class Clock:
    """The clock of the connections, put forward by a test: who is silent for minutes is so in a moment, and no other is."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead_s


def test_who_takes_no_answers_stops_only_itself(
    run: Callable[[Scenario], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(server, "CHECK_IDLE_MS", 20)

    async def scenario(served: Beside) -> None:
        served.connections.turns.clock = clock.monotonic
        other = await served.open()
        for queue_offset in range(4):
            sent = await other.ask(send_request("t", bytes(100_000), 0))
            assert (sent.code, sent.ext_fields["queueOffset"]) == (0, str(queue_offset))
            pulled = await other.ask(pull_request("t", queue_offset, held_ms=60_000))
            assert pulled.code == ResponseCode.SUCCESS  # it is dispatched
        greedy = await served.open()
        greedy.writer.transport.pause_reading()  # type: ignore[attr-defined]
        while len(served.connections.open) > 1:
            if not greedy.writer.is_closing():
                greedy.send(pull_request("t", 0))
            assert served.connections.buffered < 8 * MIB
            assert (await other.ask(ask_version())).code == ResponseCode.SUCCESS
            clock.ahead_s += 1
        greedy.close()

    run(scenario)


def test_half_frames_together_have_a_bound(run: Callable[[Scenario], None]) -> None:
    async def scenario(served: Beside) -> None:
        served.connections.max_buffered = 2 * MIB
        clients = [await served.open() for _ in range(8)]
        half = encode_command(send_request("t", bytes(MIB - 1000)))[:-1]
        for client in clients:
            client.writer.write(half)
        await eventually_async(lambda: len(served.connections.open) == 4)
        assert served.connections.buffered <= 4 * MIB
        for client in clients:
            client.close()
        await eventually_async(lambda: not served.connections.open)
        other = await served.open()
        assert (await other.ask(ask_version())).code == ResponseCode.SUCCESS

    run(scenario)


def test_an_allowed_network_of_ipv6_takes_an_address_of_ipv4_as_it_is() -> None:
    ports = Ports(allowed=(ip_network("192.0.2.0/24"),))
    assert ports.may_connect("::ffff:192.0.2.7")
    assert not ports.may_connect("::ffff:198.51.100.7")
    assert not ports.may_connect("no address")


# ---- the second port --------------------------------------------------------------------------------


def test_old_clients_find_the_port_two_below_if_it_is_asked_for(tmp_path: Path) -> None:
    """Without ``--vip`` a broker leaves that port to others."""
    ports = PortBlock()
    vip, port, namesrv = (f"127.0.0.1:{ports.first + n}" for n in (0, 2, 4))
    for options in ((), ("--vip",)):
        server = ServerProcess(tmp_path / f"with{len(options)}", *options)
        server.broker, server.namesrv = port, namesrv
        with server:
            assert is_served(port)
            if options:
                assert is_served(vip)
            else:
                with pytest.raises(ConnectionRefusedError):
                    is_served(vip)
            assert server.stop() == 0
