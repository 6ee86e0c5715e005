"""A connection to a name server or broker: it sends requests, matches the answers, and receives the peer's requests.

Source: RocketMQ 5.5.0 NettyRemotingAbstract, NettyRemotingClient.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import count
from typing import Self, cast

from rmqcore.errors import AnswerTimeoutError, NotReachedError, ProtocolError
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import ONEWAY_FLAG, RemotingCommand, code_name
from rmqcore.remoting.frame import MAX_FRAME_SIZE, FrameDecoder
from rmqcore.remoting.header import decode_command, encode_command

_LOG = logging.getLogger("rmqcore.client")
_OPAQUES = 1 << 31
CONNECT_SECONDS = 3.0
SILENT_SECONDS = 1.0
OnRequest = Callable[[RemotingCommand], RemotingCommand | None]
"""What answers a request of the peer; None where there is nothing to answer."""


class Connection(asyncio.Protocol):
    """A connection, from `open` until it is closed by either side. Used by its loop's thread only.

    Attributes
    ----------
    address : str
        ``host:port`` of the peer.
    local_ip : str
        Address of this machine, as the peer sees it.
    closed : bool
        Whether the connection is closed: nothing that is sent arrives any more.
    """

    def __init__(self, address: str, on_request: OnRequest) -> None:
        self.address = address
        self.local_ip = ""
        self.closed = False
        self._on_request = on_request
        # The answer to a batch has the ids of all its messages in its header, whose length no broker limits.
        self._decoder = FrameDecoder(max_header_size=MAX_FRAME_SIZE)
        self._opaques = count(1)
        self._waiting: dict[int, tuple[str, asyncio.Future[RemotingCommand]]] = {}
        self._reason = "the connection was closed"
        self._room = asyncio.Event()
        self._room.set()
        self._transport: asyncio.Transport | None = None
        self._heard_at = 0.0

    @classmethod
    async def open(cls, address: str, on_request: OnRequest, request: str) -> Self:
        """Connect.

        Raises
        ------
        NotReachedError
            The peer does not accept the connection; the error names `request`.
        """
        host, port = split_address(address, request)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, connection = await loop.create_connection(
                    lambda: cls(address, on_request), host, port
                )
        except TimeoutError:
            reason = f"no connection in {CONNECT_SECONDS:g} s"
            raise NotReachedError(address, request, reason) from None
        except OSError as error:
            raise NotReachedError(address, request, str(error)) from error
        return connection

    async def ask(self, request: RemotingCommand, seconds: float) -> RemotingCommand:
        """Send a request and wait for its answer.

        Raises
        ------
        AnswerTimeoutError
            No answer arrived in time. If the peer has been silent for `SILENT_SECONDS`, the connection is closed,
            because the peer may be gone; otherwise the answers to other requests can still arrive.
        NotReachedError
            The connection was closed before the answer arrived.
        ValueError
            The request is too long for a frame.
        """
        opaque = next(self._opaques) % _OPAQUES
        request.opaque = opaque
        answer: asyncio.Future[RemotingCommand] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                await self._send(request)
                self._waiting[opaque] = request_name(request), answer
                return await answer
        except TimeoutError:
            silent = asyncio.get_running_loop().time() - self._heard_at
            if silent >= SILENT_SECONDS:
                self.close(f"no answer to {code_name(request.code)}, and silent for {silent:.1f} s")
            raise AnswerTimeoutError(self.address, request_name(request), seconds) from None
        finally:
            self._waiting.pop(opaque, None)

    async def tell(self, request: RemotingCommand, seconds: float) -> None:
        """Send a one-way request; whether the peer receives it stays unknown.

        Raises
        ------
        AnswerTimeoutError
            The peer reads no more bytes.
        NotReachedError, ValueError
            As for `ask`.
        """
        request.opaque = next(self._opaques) % _OPAQUES
        request.flag |= ONEWAY_FLAG
        try:
            async with asyncio.timeout(seconds):
                await self._send(request)
        except TimeoutError:
            self.close("it does not read")
            raise AnswerTimeoutError(self.address, request_name(request), seconds) from None

    def send_at_once(self, request: RemotingCommand) -> asyncio.Future[RemotingCommand]:
        """Send a request before all others, and return the future of its response."""
        request.opaque = next(self._opaques) % _OPAQUES
        answer: asyncio.Future[RemotingCommand] = asyncio.get_running_loop().create_future()
        self._waiting[request.opaque] = request_name(request), answer
        answer.add_done_callback(lambda _: self._waiting.pop(request.opaque, None))
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._write(encode_command(request), request)
        return answer

    def close(self, reason: str = "the connection was closed by this side") -> None:
        """Close the connection; waiting requests get `NotReachedError`."""
        if not self.closed:
            self.closed = True
            self._reason = reason
            if self._transport is not None:
                self._transport.abort()
            self._end()

    # ---- what asyncio calls -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._heard_at = asyncio.get_running_loop().time()
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is not a subclass of it
        self.local_ip = transport.get_extra_info("sockname")[0].partition("%")[0]

    def data_received(self, data: bytes) -> None:
        """Receive bytes, and handle the frames that they complete."""
        self._heard_at = asyncio.get_running_loop().time()
        self._decoder.feed(data)
        try:
            while (frame := self._decoder.next_frame()) is not None:
                self._came(decode_command(frame))
        except ProtocolError as error:
            _LOG.error("%s: %s", self.address, error)
            self.close(f"it sent an invalid frame: {error}")

    def eof_received(self) -> None:
        """Close the transport."""

    def connection_lost(self, exc: Exception | None) -> None:
        """End all waits for a response."""
        if not self.closed:
            self.closed = True
            self._reason = "the peer closed the connection" if exc is None else str(exc)
            self._end()

    def pause_writing(self) -> None:
        """Block sends until the peer has read the pending bytes."""
        self._room.clear()

    def resume_writing(self) -> None:
        """Let sends continue."""
        self._room.set()

    # ---- inside -----------------------------------------------------------------------------------

    async def _send(self, request: RemotingCommand) -> None:
        frame = encode_command(request)
        await self._room.wait()
        self._write(frame, request)

    def _write(self, frame: bytes, request: RemotingCommand) -> None:
        if self.closed or self._transport is None:
            raise NotReachedError(self.address, request_name(request), self._reason)
        self._transport.write(frame)

    def _came(self, command: RemotingCommand) -> None:
        if command.is_response:
            _, answer = self._waiting.get(command.opaque, ("", None))
            if answer is not None and not answer.done():
                answer.set_result(command)
            return
        response = self._on_request(command)
        if response is None or command.is_oneway:
            return
        if not self._room.is_set():
            self.close("it sends requests but does not read the responses")
        elif not self.closed:
            self._write(encode_command(response), response)

    def _end(self) -> None:
        self._room.set()
        for request, answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(NotReachedError(self.address, request, self._reason))


def split_address(address: str, request: str) -> tuple[str, int]:
    """Parse ``host:port`` or ``[v6]:port``, which may come from a peer.

    Raises
    ------
    NotReachedError
        The address has neither form.
    """
    host, colon, port = address.rpartition(":")
    digits = port.isascii() and port.isdigit() and len(port) < 6
    if not (colon and host and digits and 0 < int(port) < 65_536):
        raise NotReachedError(address[:200], request, "not host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)


def request_name(request: RemotingCommand) -> str:
    """Return the name of a request's code."""
    try:
        return RequestCode(request.code).name
    except ValueError:
        return str(request.code)
