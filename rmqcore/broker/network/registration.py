"""Registration of a broker's address and topics at name servers: the one in its process, and others elsewhere.

Source: RocketMQ 5.5.0 BrokerController#registerBrokerAll, #registerIncrementBrokerData, BrokerOuterAPI.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial

from rmqcore.broker.broker import Broker
from rmqcore.broker.handlers.in_background import SHORT_TABLE
from rmqcore.broker.network.name_server_link import host_port, parse_address
from rmqcore.broker.network.remote_name_server import Done, RemoteNameServer
from rmqcore.broker.thens import nothing
from rmqcore.broker.worker import WorkerBusyError
from rmqcore.errors import RequestError
from rmqcore.namesrv.requests import NameServer
from rmqcore.namesrv.route_table import Master, RegisteredTopics, registered_topics
from rmqcore.remoting.bodies.json_object import parse_body
from rmqcore.remoting.bodies.routes import TopicRoute, parse_route
from rmqcore.remoting.bodies.topic_configs import (
    READ,
    WRITE,
    TopicConfig,
    TopicTable,
    encode_registration,
)
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.request_fields import Value, encode_fields
from rmqcore.vocabulary.data_version import DataVersion

FIRST_ANSWERS_S, LAST_ANSWERS_S = 3.0, 1.0
"""Seconds that a start and an end wait for name servers."""
_CRC_MASK = 0x7FFFFFFF
_LOG = logging.getLogger("rmqcore.broker")


class Registration:
    """The registrations of one broker. Its methods are called by the loop's thread only.

    A topic that changes is registered alone; all are registered every `register_name_server_period`, and at a name
    server that was away. No call waits for a name server that does not answer.

    Parameters
    ----------
    broker : Broker
        From `start` on, its `topics` report changes.
    name_server : NameServer or None
        The one in this process.
    addresses : sequence of str
        ``host:port`` of name servers elsewhere.

    Attributes
    ----------
    master : Master or None
        A name server's last answer about the master, if this broker is a slave.

    Raises
    ------
    ValueError
        An address is not ``host:port``.
    """

    def __init__(
        self, broker: Broker, name_server: NameServer | None, addresses: Sequence[str] = ()
    ) -> None:
        self._broker = broker
        self._name_server = name_server
        self._version = broker.topics.table().data_version
        self.master: Master | None = None
        self._remote = [RemoteNameServer(address, self) for address in dict.fromkeys(addresses)]

    async def start(self) -> None:
        """Register all topics now and regularly; wait some seconds for the first answers of name servers elsewhere."""
        self._register_at_once(())
        self._broker.topics.on_change = self._changed
        self._broker.find_route = self._find_route
        period_ms = self._broker.settings.register_name_server_period
        self._broker.every(period_ms, self.register_all)
        if self._remote:
            first = [asyncio.ensure_future(remote.first()) for remote in self._remote]
            await asyncio.wait(first, timeout=FIRST_ANSWERS_S)
            for waiting in first:
                waiting.cancel()

    def register_all(self) -> None:
        """Register all topics at all name servers."""
        self._register_here(())
        for remote in self._remote:
            remote.register((), nothing)

    async def stop(self) -> None:
        """Unregister the broker at all name servers."""
        self._broker.topics.on_change = None
        if self._name_server is not None:
            self._answer_here(self._request(RequestCode.UNREGISTER_BROKER, {}))
        asked = [remote.unregister() for remote in self._remote]
        if asked:
            await asyncio.wait(asked, timeout=LAST_ANSWERS_S)
        for remote in self._remote:
            remote.link.stop()

    def _changed(self, topics: tuple[TopicConfig, ...], done: Done) -> None:
        """Register topics, or all if `topics` is empty; call `done` when the name servers that answer have them."""
        self._version = self._version.next(self._broker.now_ms())
        self._register_here(topics)
        waiting = _Countdown(len(self._remote), done)
        for remote in self._remote:
            remote.register(topics, waiting.one_less)

    def _find_route(self, topic: str, then: Callable[[TopicRoute | None], object]) -> None:
        """Ask a name server for a topic's route: first one elsewhere, where other brokers register, then the own."""
        code = RequestCode.GET_ROUTEINFO_BY_TOPIC
        request = RemotingCommand(code, ext_fields=encode_fields(code, {"topic": topic}))
        for remote in self._remote:
            if remote.link.answers and not remote.link.closed:
                remote.link.ask(request, partial(self._route_found, remote.link.peer, then))
                return
        here = self._answer_here(request) if self._name_server is not None else None
        self._route_found("the name server of this process", then, here)

    @staticmethod
    def _route_found(
        name_server: str,
        then: Callable[[TopicRoute | None], object],
        response: RemotingCommand | None,
    ) -> None:
        route = None
        if response is not None and response.code == ResponseCode.SUCCESS:
            try:
                route = parse_route("GET_ROUTEINFO_BY_TOPIC", response.body)
            except RequestError as error:
                _LOG.warning("name server %s: %s", name_server, error)
        then(route)

    def _register_here(self, topics: Sequence[TopicConfig]) -> None:
        """Register some topics at once; a table of many topics is registered when a thread has copied it."""
        if topics or len(self._broker.topics.known()) <= SHORT_TABLE:
            self._register_at_once(topics)
            return
        version = self._version

        def made(done: Future[RegisteredTopics]) -> None:
            # Later changes are registered already: an older table must not replace them.
            if self._version is version:
                self._take_registered(done.result())

        try:
            self._broker.parser.run(self._registered(topics), made)
        except WorkerBusyError:
            self._register_at_once(topics)

    def _register_at_once(self, topics: Sequence[TopicConfig]) -> None:
        if self._name_server is not None:
            self._take_registered(self._registered(topics)())

    def _registered(self, topics: Sequence[TopicConfig]) -> Callable[[], RegisteredTopics]:
        table = self._table(topics)
        return lambda: registered_topics(table())

    def _take_registered(self, table: RegisteredTopics) -> None:
        if self._name_server is None:
            return
        request, now_ms = self._registration(), self._broker.now_ms()
        answer = self._name_server.register(request, table, connection=self, now_ms=now_ms)
        self.take_answer("the name server of this process", answer)

    def _answer_here(self, request: RemotingCommand) -> RemotingCommand | None:
        assert self._name_server is not None
        return self._name_server.answer(request, connection=self, now_ms=self._broker.now_ms())

    # ---- requests and answers -----------------------------------------------------------------------

    def with_registration(
        self, topics: Iterable[TopicConfig], then: Callable[[RemotingCommand], object]
    ) -> None:
        """Call `then` with the request that registers some topics, or all; a thread builds a long request."""
        wanted = list(topics) or list(self._broker.topics.known().values())
        body_of = partial(_body_of, self._table(wanted))
        if len(wanted) > SHORT_TABLE:
            with suppress(WorkerBusyError):
                self._broker.parser.run(
                    body_of, lambda done: then(self._registration(done.result()))
                )
                return
        then(self._registration(body_of()))

    def _table(self, topics: Iterable[TopicConfig]) -> Callable[[], TopicTable]:
        """Return a function that makes the table of some topics, or all, as they are now. Any thread may call it."""
        wanted = list(topics) or list(self._broker.topics.known().values())
        return partial(_permitted, wanted, self._version, self._broker.settings.broker_permission)

    def _registration(self, body: bytes = b"") -> RemotingCommand:
        host, port = parse_address(self._broker.address)
        fields: dict[str, Value] = {
            "haServerAddr": self._broker.replication.ha_address or host_port(host, port + 1),
            "bodyCrc32": zlib.crc32(body) & _CRC_MASK,
            "compressed": False,
        }
        return self._request(RequestCode.REGISTER_BROKER, fields, body)

    def unregistration(self) -> RemotingCommand:
        """Return the request that unregisters the broker."""
        return self._request(RequestCode.UNREGISTER_BROKER, {})

    def _request(
        self, code: RequestCode, fields: dict[str, Value], body: bytes = b""
    ) -> RemotingCommand:
        settings = self._broker.settings
        who: dict[str, Value] = {
            "brokerName": settings.broker_name,
            "brokerAddr": self._broker.address,
            "clusterName": settings.broker_cluster_name,
            "brokerId": settings.broker_id,
        }
        return RemotingCommand(code, ext_fields=encode_fields(code, {**who, **fields}), body=body)

    def take_answer(self, name_server: str, response: RemotingCommand | None) -> bool:
        """Read a name server's response to a registration; return whether the broker is registered."""
        if response is None or response.code != ResponseCode.SUCCESS:
            why = "no answer" if response is None else response.remark
            _LOG.warning("%s has not registered this broker: %s", name_server, why)
            return False
        address = response.ext_fields.get("masterAddr")
        if address:
            self.master = Master(address, response.ext_fields.get("haServerAddr", ""))
        if response.body:
            self._take_order(name_server, response.body)
        return True

    def _take_order(self, name_server: str, body: bytes) -> None:
        """Mark the topics as ordered that a name server names as ordered."""
        try:
            ordered = parse_body("REGISTER_BROKER", body).text_table("table")
        except RequestError as error:
            _LOG.warning("%s: %s", name_server, error)
            return
        self._broker.topics.set_order(ordered)


def _permitted(topics: list[TopicConfig], version: DataVersion, permission: int) -> TopicTable:
    """Return a table of topics, each limited to the permission of the broker."""
    if permission & (READ | WRITE) != READ | WRITE:
        topics = [replace(topic, perm=topic.perm & permission) for topic in topics]
    return TopicTable({topic.name: topic for topic in topics}, version)


def _body_of(table: Callable[[], TopicTable]) -> bytes:
    return encode_registration(table())


class _Countdown:
    """Calls `done` after `many` calls of `one_less`; at once if `many` is 0."""

    def __init__(self, many: int, done: Done) -> None:
        self._left = many
        self._done = done
        if not many:
            done()

    def one_less(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._done()
