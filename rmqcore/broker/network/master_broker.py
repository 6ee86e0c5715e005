"""A slave's connection to the broker of its master: where the master's log lies, and its topics, groups and offsets.

Source: RocketMQ 5.5.0 SlaveSynchronize, BrokerOuterAPI.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from rmqcore.broker.broker import Broker
from rmqcore.broker.network.name_server_link import NameServerLink, host_port, parse_address
from rmqcore.broker.network.registration import Registration
from rmqcore.broker.state.deleted_topics import ANSWERED, begin_phy_offsets
from rmqcore.errors import RequestError, StoreError
from rmqcore.remoting.bodies.json_object import MAX_DEPTH, parse_body
from rmqcore.remoting.bodies.subscription_groups import subscription_group_table
from rmqcore.remoting.bodies.topic_configs import topic_table
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.request_fields import Value, encode_fields
from rmqcore.vocabulary.java_json import parse_json

SYNC_MS = 60_000
"""Milliseconds between two looks at the master's topics, groups and offsets; the first look is made when it is found."""
MODES_FILE = "messageRequestMode.json"
CATCH_UP_S, CATCH_UP_LOOK_S = 60.0, 0.02
"""Seconds that offsets wait for the messages before them, and between two looks."""
CONNECT_S = 3.0
"""Seconds that a connection to the master's broker has."""
BROKER_BELOW_HA = 1
"""A broker's port is one below its HA port unless both are configured."""
_OFFSETS = RequestCode.GET_ALL_CONSUMER_OFFSET, RequestCode.GET_ALL_DELAY_OFFSET
_LOG = logging.getLogger("rmqcore.broker")


class MasterBroker:
    """The master's broker, once its address is known. Its methods are called by the loop's thread only.

    Parameters
    ----------
    broker : Broker
        The broker of the slave.
    registration : Registration

    Attributes
    ----------
    address : str or None
        ``host:port``; None if it was not found.
    end : int
        CommitLog offset where the master's log ended in its last answer; 0 if it is not known.
    synced : int
        How many times topics, groups and offsets were copied.
    """

    def __init__(self, broker: Broker, registration: Registration) -> None:
        self._broker = broker
        self._registration = registration
        self._link: NameServerLink | None = None
        self.address: str | None = None
        self.end = 0
        self._says_end = False
        self.synced = 0
        self._syncing: asyncio.Task[None] | None = None
        self._modes: dict[str, Any] = {}
        self._deleted: dict[str, int] = {}  # where the queues of deleted topics begin at the master
        self._adopts = {
            RequestCode.GET_ALL_TOPIC_CONFIG: self._adopt_topics,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self._adopt_groups,
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: self._adopt_modes,
            RequestCode.GET_ALL_CONSUMER_OFFSET: self._adopt_offsets,
            RequestCode.GET_ALL_DELAY_OFFSET: self._adopt_delays,
        }
        broker.every(SYNC_MS, self.sync_now)

    # ---- where the broker is

    async def log_of(self, ha_address: str) -> tuple[int, int] | None:
        """Ask where the log of the master with this HA port starts and ends; None if no broker answers."""
        link = await self._find(ha_address)
        return None if link is None else await self._log(link)

    async def _log(self, link: NameServerLink) -> tuple[int, int] | None:
        """Ask the master's broker where its log starts and ends; None if the answer lacks it."""
        response = await self._ask(link, RequestCode.GET_BROKER_RUNTIME_INFO)
        if response is None:
            return None
        try:
            table = parse_body("GET_BROKER_RUNTIME_INFO", response.body).text_table("table")
            found = int(table["commitLogMinOffset"]), int(table["commitLogMaxOffset"])
        except (RequestError, KeyError, ValueError) as error:
            _LOG.warning(
                "master's broker %s did not report where its log starts and ends: %s",
                self.address,
                error,
            )
            return None
        self.end, self._says_end = found[1], True
        return found

    async def record_at(self, phy_offset: int) -> bytes | None:
        """Ask for the record at a CommitLog offset; None if the broker does not answer."""
        if self._link is None:
            return None
        code = RequestCode.VIEW_MESSAGE_BY_ID
        response = await self._ask(self._link, code, {"offset": phy_offset})
        return None if response is None else response.body

    async def _find(self, ha_address: str) -> NameServerLink | None:
        """Connect to the broker that a name server names; else to the one at the port below, if it has this HA port."""
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
        text = (
            "the broker at %s does not own HA port %d: its topics, groups and offsets are not "
            "copied"
        )
        self._warn(host, text, link.peer, port)
        return None

    async def _is_of(self, link: NameServerLink, ha_port: int) -> bool:
        """Return True if a broker reports this HA port as its own."""
        response = await self._ask(link, RequestCode.EXCHANGE_BROKER_HA_INFO)
        if response is None:
            return False
        told = response.ext_fields.get("masterHaAddress", "")
        return told.rpartition(":")[2] == str(ha_port)

    async def _connect(self, address: str) -> NameServerLink | None:
        """Return an open connection; None if connecting takes too long."""
        if self._link is not None and (self.address != address or self._link.closed):
            self.stop()
        if self._link is None:
            self._link = link = NameServerLink(address, _nothing, "master's broker", once=True)
            self.address = address
            await asyncio.wait({link.start()}, timeout=CONNECT_S)
            if link.closed:
                self.stop()
                self._warn(
                    address,
                    "master's broker %s cannot be reached: topics, groups and offsets are not "
                    "copied; its address comes from name servers (--namesrv), else it is one "
                    "below the HA port",
                    address,
                )
                return None
        return self._link

    async def _ask(
        self, link: NameServerLink, code: RequestCode, fields: dict[str, Value] | None = None
    ) -> RemotingCommand | None:
        """Return the response to a request; None if the master does not answer, or refuses."""
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
        if self._syncing is not None:
            self._syncing.cancel()
        if self._link is not None:
            self._link.stop()
        self._link = None
        self.address = None

    async def look_at_end(self) -> None:
        """Ask where the master's log ends, unless another request is under way, or its answers lack it."""
        link = self._link
        free = link is not None and not link.closed and self._syncing is None
        if link is not None and free and self._says_end:
            await self._log(link)

    # ---- topics, groups and offsets

    def sync_now(self) -> None:
        """Start to copy the master's topics, groups and offsets, unless a copy is running."""
        if self._link is None or self._link.closed or self._syncing is not None:
            return
        self._syncing = asyncio.get_running_loop().create_task(self._sync(self._link))
        self._syncing.add_done_callback(self._synced)

    def _synced(self, done: asyncio.Task[None]) -> None:
        self._syncing = None
        if not done.cancelled() and done.exception() is not None:
            _LOG.error("metadata of the master: %s", done.exception(), exc_info=done.exception())

    async def _sync(self, link: NameServerLink) -> None:
        """Copy all that a slave has beside the log; parts that the master does not answer stay as they are."""
        for code, adopt in self._adopts.items():
            response = await self._ask(link, code)
            if response is None:
                continue
            if code in _OFFSETS and not await self._catches_up(link):
                continue
            try:
                adopt(response)
            except (StoreError, ValueError) as error:
                text = "master's broker %s: its %s could not be copied: %s"
                self._warn(code.name, text, link.peer, code.name, str(error))
        await self._hide_deleted(link)
        self.synced += 1

    async def _hide_deleted(self, link: NameServerLink) -> None:
        """Hide the messages of deleted topics as the master does, once this log has them on disk."""
        deleted = self._broker.deleted_topics
        begins = deleted.lacking(self._deleted)
        if begins and await self._catches_up(link, max(begins.values())):
            deleted.adopt(begins)

    async def _catches_up(self, link: NameServerLink, on_disk_to: int = 0) -> bool:
        """Wait until this log holds the master's current log, on disk up to an offset; return False on a timeout.

        A master knows offsets of messages that its slave has not received yet. If the master dies then, the slave gives
        these offsets to other messages, and a consumer would skip them. A Java slave adopts offsets at once.
        """
        log = await self._log(link)
        if log is None:
            return False
        loop = asyncio.get_running_loop()
        until = loop.time() + CATCH_UP_S
        store = self._broker.store
        while store.reput_from_offset < log[1] or store.flushed_phy_offset < on_disk_to:
            if link.closed or loop.time() > until:
                return False
            await asyncio.sleep(CATCH_UP_LOOK_S)
        return True

    def _adopt_topics(self, response: RemotingCommand) -> None:
        body = parse_body("GET_ALL_TOPIC_CONFIG", response.body)
        table = topic_table(body)
        check_whole(response, "totalTopicNum", len(table.topics))
        self._broker.topics.adopt(table)
        self._deleted = begin_phy_offsets(body.child(ANSWERED))

    def _adopt_groups(self, response: RemotingCommand) -> None:
        code = "GET_ALL_SUBSCRIPTIONGROUP_CONFIG"
        table = subscription_group_table(parse_body(code, response.body))
        check_whole(response, "totalGroupNum", len(table.groups))
        self._broker.groups.adopt(table)

    def _adopt_offsets(self, response: RemotingCommand) -> None:
        self._broker.offsets.adopt(_object("GET_ALL_CONSUMER_OFFSET", response.body))

    def _adopt_delays(self, response: RemotingCommand) -> None:
        self._broker.schedule.adopt(_object("GET_ALL_DELAY_OFFSET", response.body))

    def _adopt_modes(self, response: RemotingCommand) -> None:
        """Keep the table of groups that pop, for a broker that serves them."""
        told = _object("GET_ALL_MESSAGE_REQUEST_MODE", response.body)
        if told.get("messageRequestModeMap") and told != self._modes:
            self._modes = told
            self._broker.config_files.save(MODES_FILE, told)

    def _warn(self, what: str, text: str, *values: object) -> None:
        self._broker.said_once.warn(self._broker.now_ms(), ("master", what), text, *values)


def check_whole(response: RemotingCommand, field: str, count: int) -> None:
    """Refuse an incomplete table: the entries that it lacks would be deleted.

    Raises
    ------
    ValueError
        The master has more entries.
    """
    total = response.ext_fields.get(field, str(count))
    if total != str(count):
        raise ValueError(f"{field} is {total}, received {count}")


def _object(code: str, body: bytes) -> dict[str, Any]:
    """Read a body that is the JSON of a file.

    Raises
    ------
    RequestError
        The body is not a JSON object.
    """
    parse_body(code, body)
    found = parse_json(body, MAX_DEPTH)
    assert isinstance(found, dict)
    return found


def _nothing() -> None:
    """Do nothing when a connection is open: the caller that waits for it sends the request."""
