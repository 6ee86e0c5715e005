"""State shared by producers and consumers: name servers, routes, heartbeats.

Source: RocketMQ 5.5.0 MQClientInstance, NettyRemotingClient#getAndCreateNameserverChannel.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from rmqcore.client.connection import Connection, OnRequest
from rmqcore.client.events import Events, OnEvent
from rmqcore.client.messages.unique_ids import UniqueIds
from rmqcore.client.outages import Outages
from rmqcore.client.remote import Answer, Remote
from rmqcore.client.routes import Routes, route_of_new_topic
from rmqcore.errors import ClientClosedError, ClientError
from rmqcore.errors.arguments import check_texts, wrong_type
from rmqcore.remoting.bodies.heartbeat import ConsumerData, Heartbeat, encode_heartbeat
from rmqcore.remoting.bodies.routes import TopicRoute, parse_route
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.request_fields import Value, encode_fields
from rmqcore.vocabulary.clock import wall_clock_ms
from rmqcore.vocabulary.topics import DEFAULT_TOPIC

_LOG = logging.getLogger("rmqcore.client")
API_SECONDS = 3.0
"""How long the answer to a small request is waited for. Source: RocketMQ 5.5.0 ClientConfig#getMqClientApiTimeout."""
REFRESH_SECONDS = 30.0
HEARTBEAT_SECONDS = 30.0
CLOSE_SECONDS = 1.0


class ClientInstance:
    """A client of a cluster, with an id of its own. Used by its loop's thread only.

    Parameters
    ----------
    namesrv : str or iterable of str
        Addresses of name servers, ``host:port``; in one string with ``;`` between them.
    now_ms : callable, optional
        The clock: milliseconds since the epoch.

    producer_group : str, optional
        The producer group that heartbeats name.
    consumers : callable, optional
        Returns the consumer groups that heartbeats name.
    on_request : callable, optional
        Receives each request of a broker, and returns the answer or None.
    on_routes : callable, optional
        Called when a route has changed.
    on_event : callable, optional

    Attributes
    ----------
    events : Events
    outages : Outages
    routes : Routes
    name_servers : list of str
        Their addresses, ``host:port``.
    """

    def __init__(
        self,
        namesrv: str | Iterable[str],
        now_ms: Callable[[], int] | None = None,
        *,
        producer_group: str | None = None,
        consumers: Callable[[], tuple[ConsumerData, ...]] = tuple,
        on_request: OnRequest = RemotingCommand.not_supported,
        on_routes: Callable[[], object] = lambda: None,
        on_event: OnEvent | None = None,
    ) -> None:
        self.events = Events(on_event)
        self.outages = Outages(lambda: asyncio.get_running_loop().time())
        self._connects: Counter[str] = Counter()
        self.name_servers = _addresses(namesrv)
        self._name_server = secrets.randbelow(len(self.name_servers))
        self.now_ms = now_ms or wall_clock_ms
        self.routes = Routes()
        self._producer_groups = () if producer_group is None else (producer_group,)
        self._consumers = consumers
        self._on_routes = on_routes
        self._looking: dict[str, asyncio.Task[bool]] = {}
        self._remote = Remote(on_request, self._connected)
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._client_id = ""
        self._ids: UniqueIds | None = None
        self._name = secrets.randbits(62)  # a clock may stand still, or be set back
        self._pid = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None

    # ---- identity ---------------------------------------------------------------------------------

    @property
    def client_id(self) -> str:
        """The id by which brokers know this client; set once a name server has responded."""
        assert self._client_id
        return self._client_id

    @property
    def ids(self) -> UniqueIds:
        """Generator of message ids; set once a name server has responded."""
        assert self._ids is not None
        return self._ids

    # ---- life -------------------------------------------------------------------------------------

    def check_open(self) -> None:
        """Raise an error if the client was closed, and start the background work at the first call.

        Raises
        ------
        ClientClosedError
            The client was closed, or belongs to another event loop or process.
        """
        if self._closed:
            raise ClientClosedError("this client was closed")
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        if not self.is_ours:
            raise ClientClosedError(
                "this client belongs to the event loop and process that used it first: create "
                "another client"
            )
        if not self._tasks:
            self.every(REFRESH_SECONDS, self.refresh_routes)
            self.every(HEARTBEAT_SECONDS, self.heartbeat)

    @property
    def is_ours(self) -> bool:
        """Return True if the client belongs to the running event loop and process."""
        loop = self._loop
        return os.getpid() == self._pid and (loop is None or loop is asyncio.get_running_loop())

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something in the background, until `close` at the latest."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def every(self, seconds: float, step: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Repeat a step every period, first after one period; a step that fails is logged and repeated."""
        self.run(self._repeat(seconds, step))

    async def close(
        self, groups: Iterable[dict[str, Value]], seconds: float = CLOSE_SECONDS
    ) -> None:
        """Unregister at all brokers, for each of the groups, and end everything.

        Parameters
        ----------
        groups : iterable of dict
            ``producerGroup`` or ``consumerGroup``.
        seconds : float
            How long to wait for answers, at most `CLOSE_SECONDS`.
        """
        if self._closed:
            return
        if not self.is_ours:
            self.abandon()
            return
        self._closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.say_goodbye(groups, seconds)
        finally:
            self._remote.close()

    async def say_goodbye(
        self, groups: Iterable[dict[str, Value]], seconds: float = CLOSE_SECONDS
    ) -> None:
        """Unregister this client's groups at all brokers; a failure is logged."""
        code = RequestCode.UNREGISTER_CLIENT
        goodbyes = [
            self.ask(
                address,
                RemotingCommand(
                    code, ext_fields=encode_fields(code, {"clientID": self.client_id, **group})
                ),
                _nothing,
                seconds=max(min(seconds, CLOSE_SECONDS), 0.0),
            )
            for address in self._remote.connected()
            if address in self.routes.all_addresses()
            for group in groups
        ]
        for error in await asyncio.gather(*goodbyes, return_exceptions=True):
            if isinstance(error, BaseException):
                _LOG.info("at close: %s", error)

    def abandon(self) -> None:
        """End everything without unregistering; tasks and connections of another loop or process are left to it."""
        self._closed = True
        if os.getpid() != self._pid or (self._loop is not None and self._loop.is_closed()):
            return
        for task in self._tasks:
            task.cancel()
        self._remote.close()

    # ---- requests ---------------------------------------------------------------------------------

    async def ask(
        self,
        address: str,
        request: RemotingCommand,
        read: Callable[[RemotingCommand], Answer],
        *,
        seconds: float = API_SECONDS,
        accepted: Iterable[int] = (ResponseCode.SUCCESS,),
    ) -> Answer:
        """Ask a peer: `Remote.ask`."""
        return await self._remote.ask(
            address, request, read, seconds=seconds, accepted=tuple(accepted)
        )

    async def tell(self, address: str, request: RemotingCommand, *, seconds: float) -> None:
        """Send a one-way request to a peer: `Remote.tell`."""
        await self._remote.tell(address, request, seconds=seconds)

    # ---- routes -----------------------------------------------------------------------------------

    async def find_route(self, topic: str) -> bool:
        """Find and keep the route of a topic; return False if no broker has it. Concurrent calls share one request.

        Raises
        ------
        ClientError
            No name server answers.
        """
        looking = self._looking.get(topic)
        if looking is None:
            looking = asyncio.create_task(self._look_for(topic))
            self._looking[topic] = looking
            looking.add_done_callback(lambda done: self._looked(topic, done))
        return await asyncio.shield(looking)

    async def find_route_again(self, topic: str) -> None:
        """Ask again for a route whose brokers fail; if no name server answers, log it once."""
        what = f"route {topic}"
        try:
            await self.find_route(topic)
        except ClientError as error:
            self.outages.begin(what, "route of topic %s, asked for again: %s", topic, error)
        else:
            self.outages.end(what, "name servers say again where topic %s is", topic)

    async def find_publish_route(self, topic: str, queue_nums: int) -> bool:
        """Ask for the route of a topic; for a missing topic, for the route of the brokers that would create it.

        Raises
        ------
        ClientError
            No name server answers.
        """
        if await self.find_route(topic):
            return True
        default = await self.ask_route(DEFAULT_TOPIC)
        return self._learn(topic, default and route_of_new_topic(default, queue_nums))

    async def refresh_routes(self) -> None:
        """Ask for the routes of all topics again; a route that is gone stays as it was, as in Java."""
        for topic in self.routes.topics():
            await self.find_route_again(topic)

    async def _look_for(self, topic: str) -> bool:
        return self._learn(topic, await self.ask_route(topic))

    def _looked(self, topic: str, task: asyncio.Task[bool]) -> None:
        del self._looking[topic]
        if not task.cancelled():
            task.exception()  # the callers that wait for the task raise it

    def _learn(self, topic: str, route: TopicRoute | None) -> bool:
        if route is None:
            return False
        if self.routes.learn(topic, route):
            self._on_routes()
        return True

    async def ask_route(self, topic: str, *, seconds: float = API_SECONDS) -> TopicRoute | None:
        """Ask for the route of a topic without keeping it; return None if no broker has it.

        Raises
        ------
        ClientError
            No name server answers.
        """
        code = RequestCode.GET_ROUTEINFO_BY_TOPIC

        def read(response: RemotingCommand) -> TopicRoute | None:
            if response.code == ResponseCode.TOPIC_NOT_EXIST:
                return None
            route = parse_route(code.name, response.body)
            Routes().learn(topic, route)  # checks its numbers
            return route

        accepted = (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST)
        return await self.ask_name_server(
            code, {"topic": topic}, read, seconds=seconds, accepted=accepted
        )

    async def ask_name_server(
        self,
        code: RequestCode,
        fields: dict[str, Value],
        read: Callable[[RemotingCommand], Answer],
        *,
        seconds: float = API_SECONDS,
        accepted: Iterable[int] = (ResponseCode.SUCCESS,),
    ) -> Answer:
        """Ask one name server after the other until one answers.

        Raises
        ------
        ClientError
            No name server answers; the error is that of the last one.
        """
        last: ClientError | None = None
        for _ in range(len(self.name_servers)):
            request = RemotingCommand(code, ext_fields=encode_fields(code, fields))
            address = self.name_servers[self._name_server]
            try:
                return await self.ask(address, request, read, seconds=seconds, accepted=accepted)
            except ClientError as error:
                last = error
                # Requests go to the next name server from now on, until it fails as well.
                self._name_server = (self._name_server + 1) % len(self.name_servers)
        assert last is not None
        raise last

    # ---- heartbeats -------------------------------------------------------------------------------

    async def heartbeat(self) -> None:
        """Report this client's groups to all brokers, or only to masters if the client consumes nothing.

        If a broker cannot be reached, it is logged once.
        """
        consumers = self._consumers()
        if not consumers and not self._producer_groups:
            return
        addresses = sorted(self.routes.all_addresses(masters_only=not consumers))
        asked = [
            self.ask(address, self._heartbeat_request(consumers), _nothing) for address in addresses
        ]
        done = await asyncio.gather(*asked, return_exceptions=True)
        for address, error in zip(addresses, done, strict=True):
            what = f"heartbeat {address}"
            if isinstance(error, ClientError):
                self.outages.begin(what, "heartbeat, sent again: %s", error)
            elif isinstance(error, BaseException):
                raise error
            else:
                self.outages.end(what, "heartbeats reach %s again", address)

    def _heartbeat_request(self, consumers: tuple[ConsumerData, ...]) -> RemotingCommand:
        beat = Heartbeat(self.client_id, self._producer_groups, consumers)
        return RemotingCommand(RequestCode.HEART_BEAT, body=encode_heartbeat(beat))

    # ---- inside -----------------------------------------------------------------------------------

    def _connected(self, connection: Connection) -> None:
        """Send a heartbeat first over a new connection: the broker may have restarted or forgotten this client."""
        if not self._client_id:
            self._client_id = f"{connection.local_ip}@{os.getpid()}#{self._name}"
            self._ids = UniqueIds(
                connection.local_ip, os.getpid(), secrets.randbits(32), self.now_ms
            )
        self._connects[connection.address] += 1
        self.events.tell("connect", connection.address, self._connects[connection.address])
        consumers = self._consumers()
        told = self.routes.all_addresses(masters_only=not consumers)
        if (consumers or self._producer_groups) and connection.address in told:
            connection.send_at_once(self._heartbeat_request(consumers))

    async def _repeat(self, seconds: float, step: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await step()
            except ClientError as error:
                _LOG.warning("%s: %s", step.__name__, error)
            except Exception:  # noqa: BLE001 a bug in one round must not end all rounds
                _LOG.exception("%s", step.__name__)


def _addresses(namesrv: str | Iterable[str]) -> list[str]:
    given: object = namesrv
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise wrong_type("namesrv", "str or an iterable of str", namesrv)
    texts = namesrv.split(";") if isinstance(namesrv, str) else list(namesrv)
    for text in texts:
        check_texts(namesrv=text)
    addresses = [text.strip() for text in texts if text.strip()]
    if not addresses:
        raise ValueError(f"namesrv is {namesrv!r}, expected host:port, or several separated by ;")
    for address in addresses:
        if "," in address or "/" in address or not address.rpartition(":")[2].isdigit():
            raise ValueError(f"namesrv: {address!r}, expected host:port, or several separated by ;")
    return addresses


def _nothing(*_: object) -> None:
    """Drop a response that no caller wants."""
