"""A connection to a name server elsewhere: kept open, because a lost one unregisters a broker, and opened again.

A slave's connection to its master's broker is of the same kind.

Source: RocketMQ 5.5.0 BrokerOuterAPI, NettyRemotingClient.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from rmqcore.broker.client_requests import ClientRequests, OnAnswer
from rmqcore.errors import StoreError
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.frame import FrameDecoder
from rmqcore.remoting.header import decode_command, encode_command

CONNECT_TIMEOUT_S = 3.0
ANSWER_TIMEOUT_MS = 3_000
AGAIN_AFTER_S = 1.0
"""Seconds between two attempts to connect."""
_LOG = logging.getLogger("rmqcore.broker")


def host_port(host: str, port: int) -> str:
    """Return ``host:port``, or ``[host]:port`` for IPv6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(address: str, what: str = "name server") -> tuple[str, int]:
    """Parse ``host:port`` or ``[host]:port``; an error says that the address is that of a `what`.

    Raises
    ------
    ValueError
        The address is not ``host:port``.
    """
    host, colon, port = address.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        raise ValueError(f"{what} {address!r} is not host:port")
    return host, int(port)


class NameServerLink(asyncio.Protocol):
    """The connection to one name server. Its methods are called by the loop's thread only, and raise nothing.

    Parameters
    ----------
    address : str
        ``host:port``.
    on_connected : callable
        Called each time the connection opens.
    what : str
        What the peer is, for the log.
    once : bool
        Try to connect once only, and log nothing if that fails; a connection that was open is opened again.

    Attributes
    ----------
    peer : str
    answers : bool
        The connection is open, and the last request was answered in time. If not, callers do not wait for the next.

    Raises
    ------
    ValueError
        The address is not ``host:port``.
    """

    def __init__(
        self,
        address: str,
        on_connected: Callable[[], object],
        what: str = "name server",
        *,
        once: bool = False,
    ) -> None:
        self.peer = address
        self._what = what
        self.answers = False
        self._host, self._port = parse_address(address, what)
        self._on_connected = on_connected
        self._transport: asyncio.Transport | None = None
        self._decoder = FrameDecoder()
        self._connecting: asyncio.Task[None] | None = None
        self._requests: ClientRequests | None = None
        self._ended = False
        self._told = self._once = once

    # ---- connecting ---------------------------------------------------------------------------------

    def start(self, after: float = 0.0) -> asyncio.Task[None]:
        """Begin to connect; the task ends when the connection is open, `stop` was called, or the only try failed."""
        loop = asyncio.get_running_loop()
        if self._requests is None:
            self._requests = ClientRequests(loop)
        self._connecting = loop.create_task(self._connect(after))
        return self._connecting

    async def _connect(self, after: float) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(after)
        while not self._ended:
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    await loop.create_connection(lambda: self, self._host, self._port)
            except OSError as error:
                if not self._told:
                    self._told = True
                    why = str(error) or "no answer"
                    _LOG.warning("%s %s cannot be reached: %s", self._what, self.peer, why)
                if self._once:
                    return
                await asyncio.sleep(AGAIN_AFTER_S)
            else:
                return

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Use the new connection."""
        # uvloop's transport is a class of its own, not an asyncio.Transport.
        transport = cast("asyncio.Transport", transport)
        self._transport = transport
        self._decoder = FrameDecoder()
        self._told = self._once = False
        self.answers = True
        if self._ended:
            transport.close()
        else:
            self._on_connected()

    def connection_lost(self, exc: Exception | None) -> None:
        """Connect again, unless the link was stopped."""
        self._transport = None
        self.answers = False
        if self._requests is not None:
            self._requests.channel_closed(self)
        if not self._ended:
            why = f": {exc}" if exc else ""
            _LOG.warning("the connection to %s %s is closed%s", self._what, self.peer, why)
            self.start(AGAIN_AFTER_S)

    def data_received(self, data: bytes) -> None:
        """Receive what the name server sends: responses."""
        self._decoder.feed(data)
        try:
            while (frame := self._decoder.next_frame()) is not None:
                command = decode_command(frame)
                if command.is_response and self._requests is not None:
                    self.answers = True
                    self._requests.answered(self, command)
        except StoreError as error:
            _LOG.warning("%s %s: %s", self._what, self.peer, error)
            self.close()

    # ---- a channel ----------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """True if the connection is closed: nothing that is sent arrives any more."""
        return self._transport is None or self._transport.is_closing()

    def send(self, command: RemotingCommand) -> None:
        """Send a request, or drop it if the connection is closed or the request is too long for a frame."""
        if self._transport is not None:
            try:
                self._transport.write(encode_command(command))
            except (StoreError, ValueError) as error:
                _LOG.error("%s %s: %s", self._what, self.peer, error)

    def ask(self, request: RemotingCommand, on_answer: OnAnswer) -> None:
        """Send a request, and call `on_answer` with the response, or with None after a timeout."""

        def answered(response: RemotingCommand | None) -> None:
            if response is None:
                self.answers = False
            on_answer(response)

        assert self._requests is not None
        self._requests.ask(self, request, answered, ANSWER_TIMEOUT_MS)

    def close(self) -> None:
        """Close the connection; it is opened again."""
        if self._transport is not None:
            self._transport.abort()

    def stop(self) -> None:
        """Close the connection for good, once all sent bytes are written."""
        self._ended = True
        if self._connecting is not None:
            self._connecting.cancel()
        if self._transport is not None:
            self._transport.close()
