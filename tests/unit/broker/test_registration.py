"""How a broker registers: beside it without a socket, elsewhere over a connection that is kept and made again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.eventually import eventually_async

import rmqcore
from rmqcore.broker.broker import Broker
from rmqcore.broker.network import name_server_link
from rmqcore.broker.network import registration as registration_of
from rmqcore.broker.network.name_server_link import parse_address
from rmqcore.broker.network.registration import Registration
from rmqcore.broker.settings import BrokerSettings
from rmqcore.engine.store.store import MessageStore
from rmqcore.namesrv.requests import NameServer
from rmqcore.remoting.bodies.topic_configs import TopicConfig
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.frame import FrameDecoder
from rmqcore.remoting.header import decode_command, encode_command

LONG_S = 120.0
"""Seconds after which a test that waits has failed."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    with rmqcore.open(tmp_path, mapped_file_size_commit_log=1 << 22) as opened:
        yield opened


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts follow each other at once, and a name server that answers has the time that it needs."""
    monkeypatch.setattr(name_server_link, "AGAIN_AFTER_S", 0.01)
    monkeypatch.setattr(name_server_link, "ANSWER_TIMEOUT_MS", 120_000)
    for limit in ("FIRST_ANSWERS_S", "LAST_ANSWERS_S"):
        monkeypatch.setattr(f"rmqcore.broker.network.registration.{limit}", LONG_S)


class Elsewhere:
    """A name server on a port of its own, which can be deaf, and ended and started again.

    Attributes
    ----------
    heard : list of RemotingCommand
        All requests that came.
    """

    def __init__(self) -> None:
        self.names = NameServer()
        self.heard: list[RemotingCommand] = []
        self.deaf = False
        self.port = 0
        self._connections: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        await accept_no_more(self._server)
        for writer in list(self._connections):
            writer.transport.abort()
        await eventually_async(lambda: not self._connections)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        decoder = FrameDecoder()
        try:
            while data := await reader.read(1 << 16):
                decoder.feed(data)
                while (frame := decoder.next_frame()) is not None:
                    request = decode_command(frame)
                    self.heard.append(request)
                    answer = self.names.answer(request, connection=writer, now_ms=0)
                    if answer is not None and not self.deaf:
                        writer.write(encode_command(answer))
        except ConnectionError:
            pass  # the test has cut it
        finally:
            self.names.routes.connection_closed(writer)
            self._connections.discard(writer)
            writer.close()


async def accept_no_more(server: asyncio.Server) -> None:
    """Close what listens, with no connection half accepted.

    asyncio of Python 3.11 never closes a connection that it has accepted and not yet begun when its server is closed: a
    run of all tests failed far away, where the garbage collector found it.
    """
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening.fileno())
    for _ in range(3):  # what is accepted gets a task, then a transport, then a protocol
        await asyncio.sleep(0)
    server.close()


@asynccontextmanager
async def broker_at(store: MessageStore, **settings: Any) -> Any:
    loop = asyncio.get_running_loop()
    made = Broker(store, BrokerSettings(**settings), loop, address="127.0.0.1:10911")
    yield made
    made.stop()


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(LONG_S):
            await test()

    asyncio.run(limited())


async def make_topic(broker: Broker, name: str) -> None:
    """Let a send make a topic, and wait for the answer."""
    done = asyncio.Event()
    broker.topics.create_for_send(name, "TBW102", 4, 0, lambda _: done.set())
    await done.wait()


# ---- in this process --------------------------------------------------------------------------------


def test_a_name_server_beside_the_broker(store: MessageStore) -> None:
    async def test() -> None:
        async with broker_at(store) as broker:
            names = NameServer()
            registration = Registration(broker, names)
            await registration.start()
            assert names.routes.clusters() == {"DefaultCluster": ["broker-a"]}
            assert names.routes.route("TBW102") is not None
            await make_topic(broker, "orders")
            route = names.routes.route("orders")
            assert route is not None
            assert (route.queues[0].write_queue_nums, route.queues[0].perm) == (4, 6)
            assert route.brokers[0].addresses == {0: "127.0.0.1:10911"}
            await registration.stop()
            assert names.routes.brokers() == ()

    run(test)


def test_what_the_broker_does_not_permit_is_not_registered(store: MessageStore) -> None:
    async def test() -> None:
        async with broker_at(store, broker_permission=4) as broker:
            names = NameServer()
            registration = Registration(broker, names)
            await registration.start()
            route = names.routes.route("TBW102")
            assert route is not None
            assert route.queues[0].perm == 4
            await registration.stop()

    run(test)


def test_a_name_server_says_which_topics_are_ordered(store: MessageStore) -> None:
    async def test() -> None:
        async with broker_at(store) as broker:
            names = NameServer()
            names.kv_config.put("ORDER_TOPIC_CONFIG", "BenchmarkTest", "broker-a:4")
            registration = Registration(broker, names)
            await registration.start()
            assert broker.topics.get("BenchmarkTest").order
            await registration.stop()

    run(test)


def test_a_slave_is_told_who_its_master_is(store: MessageStore) -> None:
    async def test() -> None:
        async with broker_at(store) as master, broker_at(store, broker_id=1) as slave:
            names = NameServer()
            first, second = Registration(master, names), Registration(slave, names)
            slave.address = "127.0.0.1:10921"
            await first.start()
            assert first.master is None
            await second.start()
            assert second.master is not None
            assert (second.master.address, second.master.ha_address) == (
                "127.0.0.1:10911",
                "127.0.0.1:10912",
            )
            await second.stop()
            await first.stop()

    run(test)


# ---- elsewhere --------------------------------------------------------------------------------------


def test_name_servers_elsewhere(store: MessageStore) -> None:
    async def test() -> None:
        one, two = Elsewhere(), Elsewhere()
        await one.start()
        await two.start()
        async with broker_at(store) as broker:
            registration = Registration(broker, None, [one.address, two.address])
            await registration.start()
            for names in (one.names, two.names):
                assert names.routes.route("TBW102") is not None
            await make_topic(broker, "orders")
            for names in (one.names, two.names):
                assert names.routes.route("orders") is not None
            await registration.stop()
            for names in (one.names, two.names):
                assert names.routes.brokers() == ()
            codes = [request.code for request in one.heard]
            assert codes == [
                RequestCode.REGISTER_BROKER,
                RequestCode.REGISTER_BROKER,
                RequestCode.UNREGISTER_BROKER,
            ]
            assert one.heard[1].body.count(b'"topicName"') == 1  # the new topic alone
        await one.stop()
        await two.stop()

    run(test)


def test_a_change_of_a_known_topic_is_taken(store: MessageStore) -> None:
    """A name server reads the topics of a version that it knows no second time: each change must bear another."""

    async def test() -> None:
        elsewhere = Elsewhere()
        await elsewhere.start()
        async with broker_at(store) as broker:
            registration = Registration(broker, None, [elsewhere.address])
            await registration.start()
            for perm in (6, 4, 2):
                done = asyncio.Event()
                broker.topics.update(TopicConfig("a", 1, 1, perm))
                broker.topics.update(TopicConfig("b", 1, 1, perm), done.set)
                await done.wait()
                for name in ("a", "b"):
                    route = elsewhere.names.routes.route(name)
                    assert route is not None
                    assert route.queues[0].perm == perm
            await registration.stop()
        await elsewhere.stop()

    run(test)


def test_a_burst_of_new_topics_takes_few_requests(store: MessageStore) -> None:
    async def test() -> None:
        elsewhere = Elsewhere()
        await elsewhere.start()
        async with broker_at(store) as broker:
            registration = Registration(broker, None, [elsewhere.address])
            await registration.start()
            await asyncio.gather(*(make_topic(broker, f"t{n}") for n in range(200)))
            assert all(elsewhere.names.routes.route(f"t{n}") is not None for n in range(200))
            assert len(elsewhere.heard) < 20
            await registration.stop()
        await elsewhere.stop()

    run(test)


def test_a_name_server_that_is_down_keeps_nobody(
    store: MessageStore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqcore.broker.network.registration.FIRST_ANSWERS_S", 0.05)

    async def test() -> None:
        elsewhere = Elsewhere()
        await elsewhere.start()
        await elsewhere.stop()  # its port is known, and nobody listens
        async with broker_at(store) as broker:
            registration = Registration(broker, None, [elsewhere.address])
            await registration.start()
            await make_topic(broker, "orders")
            await eventually_async(lambda: "cannot be reached" in caplog.text)
            assert caplog.text.count("cannot be reached") == 1
            await elsewhere.start()
            await eventually_async(lambda: elsewhere.names.routes.route("orders") is not None)
            await registration.stop()
            assert elsewhere.names.routes.brokers() == ()
        await elsewhere.stop()

    with caplog.at_level(logging.WARNING):
        run(test)


def test_a_connection_that_is_lost_is_made_again(store: MessageStore) -> None:
    async def test() -> None:
        elsewhere = Elsewhere()
        await elsewhere.start()
        async with broker_at(store) as broker:
            registration = Registration(broker, None, [elsewhere.address])
            await registration.start()
            await elsewhere.stop()
            assert elsewhere.names.routes.brokers() == ()
            await make_topic(broker, "orders")
            await elsewhere.start()
            await eventually_async(lambda: elsewhere.names.routes.route("orders") is not None)
            await registration.stop()
        await elsewhere.stop()

    run(test)


def test_a_name_server_that_does_not_answer_delays_one_topic_alone(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        elsewhere = Elsewhere()
        await elsewhere.start()
        async with broker_at(store) as broker:
            registration = Registration(broker, None, [elsewhere.address])
            await registration.start()
            elsewhere.deaf = True
            monkeypatch.setattr(name_server_link, "ANSWER_TIMEOUT_MS", 50)
            await make_topic(broker, "first")
            monkeypatch.setattr(name_server_link, "ANSWER_TIMEOUT_MS", 3_600_000)
            await make_topic(broker, "second")  # nobody waits for it any more
            elsewhere.deaf = False
            registration.register_all()
            await eventually_async(lambda: elsewhere.names.routes.route("second") is not None)
            await make_topic(broker, "third")
            assert elsewhere.names.routes.route("third") is not None
            await registration.stop()
        await elsewhere.stop()

    run(test)


def test_all_topics_are_registered_again_and_again(store: MessageStore) -> None:
    async def test() -> None:
        elsewhere = Elsewhere()
        await elsewhere.start()
        async with broker_at(store, register_name_server_period=10) as broker:
            registration = Registration(broker, None, [elsewhere.address])
            await registration.start()
            await eventually_async(lambda: len(elsewhere.heard) > 5)
            assert elsewhere.heard[5].body.count(b'"topicName"') > 10
            await registration.stop()
        await elsewhere.stop()

    run(test)


def test_rubbish_closes_the_connection_and_nothing_else(store: MessageStore) -> None:
    async def test() -> None:
        came = 0

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal came
            came += 1
            try:
                writer.write(b"\xff" * 64)
                await reader.read(1)
            except ConnectionError:
                pass  # the broker has closed it
            finally:
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with broker_at(store) as broker:
            registration = Registration(broker, None, [f"127.0.0.1:{port}"])
            await registration.start()
            await eventually_async(lambda: came > 2)
            await make_topic(broker, "orders")
            await registration.stop()
        await accept_no_more(server)
        await eventually_async(lambda: len(asyncio.all_tasks()) == 1)

    run(test)


@pytest.mark.parametrize(
    ("address", "parts"),
    [("127.0.0.1:9876", ("127.0.0.1", 9876)), ("[::1]:9876", ("::1", 9876)), (" n:1 ", ("n", 1))],
)
def test_addresses(address: str, parts: tuple[str, int]) -> None:
    assert parse_address(address) == parts


@pytest.mark.parametrize(
    "address", ["", "host", "host:", ":9876", "host:0", "host:65536", "host:x"]
)
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(ValueError, match="is not host:port"):
        parse_address(address)


# ---- many topics ------------------------------------------------------------------------------------


def test_many_topics_are_copied_and_written_in_another_thread(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration_of, "SHORT_TABLE", 0)

    async def test() -> None:
        elsewhere = Elsewhere()
        await elsewhere.start()
        async with broker_at(store) as broker:
            names = NameServer()
            registration = Registration(broker, names, [elsewhere.address])
            await registration.start()
            assert elsewhere.heard[0].body.count(b'"topicName"') > 10
            names.routes.delete_topic("TBW102")
            registration.register_all()
            await eventually_async(lambda: names.routes.route("TBW102") is not None)
            names.routes.delete_topic("TBW102")
            registration.register_all()
            assert broker.topics.on_change is not None
            broker.topics.on_change((TopicConfig("later"),), lambda: None)
            await eventually_async(lambda: not broker.parser.waiting)
            assert names.routes.route("later") is not None
            assert names.routes.route("TBW102") is None, "what was copied before a change is old"
            await registration.stop()
        await elsewhere.stop()

    run(test)
