"""A name server elsewhere, at which a broker registers: one registration after the other.

Source: RocketMQ 5.5.0 BrokerOuterAPI#registerBrokerAll.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from rmqcore.broker.network.name_server_link import NameServerLink
from rmqcore.broker.thens import call_each
from rmqcore.remoting.bodies.topic_configs import TopicConfig
from rmqcore.remoting.command import RemotingCommand

Done = Callable[[], object]


class Registrar(Protocol):
    """A broker's registration data, and its reaction to the name servers' responses."""

    def with_registration(
        self, topics: Iterable[TopicConfig], then: Callable[[RemotingCommand], object]
    ) -> None:
        """Call `then`, at once or later, with the request that registers some topics, or all."""
        ...

    def unregistration(self) -> RemotingCommand:
        """Return the request that unregisters the broker."""
        ...

    def take_answer(self, name_server: str, response: RemotingCommand | None) -> bool:
        """Read a name server's response to a registration; return whether the broker is registered."""
        ...


class RemoteNameServer:
    """A name server elsewhere: changes wait for its last answer, then one request has them. For the loop's thread only.

    Parameters
    ----------
    address : str
        ``host:port``.
    registrar : Registrar

    Attributes
    ----------
    link : NameServerLink
    """

    def __init__(self, address: str, registrar: Registrar) -> None:
        self.link = NameServerLink(address, self._connected)
        self._registrar = registrar
        self._topics: dict[str, TopicConfig] = {}
        self._all = False
        self._thens: list[Done] = []
        self._asking = False
        self._registered = False

    async def first(self) -> None:
        """Connect, and register all topics for the first time."""
        done = asyncio.Event()
        self._thens.append(done.set)
        await asyncio.shield(self.link.start())
        await done.wait()

    def register(self, topics: tuple[TopicConfig, ...], then: Done) -> None:
        """Register topics, or all if `topics` is empty; call `then` on the answer, or if none is expected."""
        if not self.link.answers and topics:
            self._all = True  # with the next request that it answers
            then()
            return
        self._topics.update({topic.name: topic for topic in topics})
        self._all = self._all or not topics
        self._thens.append(then)
        if self.link.closed:
            self._end()
        elif not self._asking:
            self._ask()

    def unregister(self) -> asyncio.Future[None]:
        """Unregister the broker; the future ends when the name server has answered."""
        asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.link.closed:
            asked.set_result(None)
        else:
            self.link.ask(self._registrar.unregistration(), lambda _: asked.set_result(None))
        return asked

    def _connected(self) -> None:
        self._asking = self._registered = False
        self._all = True
        self._ask()

    def _ask(self) -> None:
        topics = () if self._all or not self._registered else tuple(self._topics.values())
        thens = self._thens
        self._thens = []
        self._topics = {}
        self._all = False
        self._asking = True
        self._registrar.with_registration(
            topics, lambda request: self.link.ask(request, partial(self._answered, thens))
        )

    def _answered(self, thens: list[Done], response: RemotingCommand | None) -> None:
        self._asking = False
        self._registered = self._registrar.take_answer(f"name server {self.link.peer}", response)
        call_each(thens)
        if self.link.closed:
            self._end()
        elif self._thens and not self._asking:
            self._ask()

    def _end(self) -> None:
        """Call the waiting callbacks: a name server that is away gets all topics when it is back."""
        thens, self._thens = self._thens, []
        call_each(thens)
