"""A slave's connection to the broker of its master: where the master's log lies, and its topics, groups and offsets.

Source: RocketMQ 5.5.0 SlaveSynchronize, BrokerOuterAPI.
"""

from __future__ import annotations

import asyncio
import logging

from rmqcore.broker.broker import Broker
from rmqcore.broker.network.name_server_link import NameServerLink, host_port, parse_address
from rmqcore.broker.network.registration import Registration
from rmqcore.errors import RequestError
from rmqcore.remoting.bodies.json_object import parse_body
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.request_fields import Value, encode_fields

CONNECT_S = 3.0
"""Seconds that a connection to the master's broker has."""
BROKER_BELOW_HA = 1
"""A broker's port is one below its HA port unless both are configured."""
_LOG = logging.getLogger("rmqcore.broker")


class MasterBroker:
    """The broker of the master, once it is found. Its methods are called by the loop's thread only.

    Parameters
    ----------
    broker : Broker
        The slave's.
    registration : Registration

    Attributes
    ----------
    address : str or None
        ``host:port``; None: not found.
    end : int
        CommitLog offset where the master's log ended when it was asked last; 0: not known.
    """

    def __init__(self, broker: Broker, registration: Registration) -> None:
        self._broker = broker
        self._registration = registration
        self._link: NameServerLink | None = None
        self.address: str | None = None
        self.end = 0

    # ---- where it is

    async def log_of(self, ha_address: str) -> tuple[int, int] | None:
        """Ask where the log of the master with this HA port begins and ends; None where no broker answers."""
        link = await self._find(ha_address)
        if link is None:
            return None
        response = await self._ask(link, RequestCode.GET_BROKER_RUNTIME_INFO)
        if response is None:
            return None
        try:
            table = parse_body("GET_BROKER_RUNTIME_INFO", response.body).text_table("table")
            found = int(table["commitLogMinOffset"]), int(table["commitLogMaxOffset"])
        except (RequestError, KeyError, ValueError) as error:
            _LOG.warning(
                "master's broker %s does not say where its log lies: %s", self.address, error
            )
            return None
        self.end = found[1]
        return found

    async def _find(self, ha_address: str) -> NameServerLink | None:
        """Connect to the broker that a name server names; else to the one below the HA port, if that port is its own."""
        named = self._registration.master
        if named is not None and named.address and named.address != self._broker.address:
            return await self._connect(named.address)
        host, port = parse_address(ha_address, "haMasterAddress")
        if port <= BROKER_BELOW_HA:
            return None
        link = await self._connect(host_port(host, port - BROKER_BELOW_HA))
        if link is None or await self._is_of(link, port):
            return link
        self.stop()
        return None

    async def _is_of(self, link: NameServerLink, ha_port: int) -> bool:
        """Whether a broker says that its HA port is this one."""
        response = await self._ask(link, RequestCode.EXCHANGE_BROKER_HA_INFO)
        if response is None:
            return False
        told = response.ext_fields.get("masterHaAddress", "")
        return told.rpartition(":")[2] == str(ha_port)

    async def _connect(self, address: str) -> NameServerLink | None:
        """Return a connection that stands; None where none does in time."""
        if self._link is not None and (self.address != address or self._link.closed):
            self.stop()
        if self._link is None:
            self._link = link = NameServerLink(address, _nothing, "master's broker", once=True)
            self.address = address
            await asyncio.wait({link.start()}, timeout=CONNECT_S)
            if link.closed:
                self.stop()
                return None
        return self._link

    async def _ask(
        self, link: NameServerLink, code: RequestCode, fields: dict[str, Value] | None = None
    ) -> RemotingCommand | None:
        """Return the response to a request; None where none comes, or the master refuses."""
        if link.closed:
            return None
        answered: asyncio.Future[RemotingCommand | None] = (
            asyncio.get_running_loop().create_future()
        )

        def on_answer(response: RemotingCommand | None) -> None:
            if not answered.done():
                answered.set_result(response)

        link.ask(RemotingCommand(code, ext_fields=encode_fields(code, fields or {})), on_answer)
        response = await answered
        if response is not None and response.code != ResponseCode.SUCCESS:
            _LOG.warning(
                "master's broker %s refuses %s: %s", self.address, code.name, response.remark
            )
            return None
        return response

    def stop(self) -> None:
        """Close the connection."""
        if self._link is not None:
            self._link.stop()
        self._link = None
        self.address = None

    # ---- topics, groups and offsets

    def sync_now(self) -> None:
        """Get the master's topics, groups and offsets."""


def _nothing() -> None:
    """A connection that stands is asked by who waits for it."""
