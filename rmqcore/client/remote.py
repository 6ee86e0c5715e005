"""Name servers and brokers by address: connected at the first request, and again after a connection was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import TypeVar

from rmqcore.client.connection import Connection, OnRequest, request_name
from rmqcore.errors import BadAnswerError, NotReachedError, RefusedError, RequestError
from rmqcore.remoting.codes import ResponseCode
from rmqcore.remoting.command import RemotingCommand

Answer = TypeVar("Answer")
_SUCCESS = (int(ResponseCode.SUCCESS),)


class Remote:
    """The connections to peers, one for each address. Used by its loop's thread only.

    Parameters
    ----------
    on_request : callable
        Returns the answers to requests of brokers.
    on_connect : callable
        Called with each new connection, before anything is sent over it.
    """

    def __init__(self, on_request: OnRequest, on_connect: Callable[[Connection], None]) -> None:
        self._on_request = on_request
        self._on_connect = on_connect
        self._connections: dict[str, Connection] = {}
        self._opening: dict[str, asyncio.Task[Connection]] = {}
        self._closed = False

    async def ask(
        self,
        address: str,
        request: RemotingCommand,
        read: Callable[[RemotingCommand], Answer],
        *,
        seconds: float,
        accepted: Collection[int] = _SUCCESS,
    ) -> Answer:
        """Send a request to a peer, and read its answer.

        Parameters
        ----------
        address : str
        request : RemotingCommand
        read : callable
            Turns the answer into the result of the call.
        seconds : float
            Timeout, which includes the time to connect.
        accepted : collection of int
            The response codes that are not errors.

        Raises
        ------
        ClientError
            The peer did not respond, or refused the request.
        """
        name = request_name(request)
        end = asyncio.get_running_loop().time() + seconds
        connection = await self._connection_within(seconds, address, name)
        response = await connection.ask(request, max(end - asyncio.get_running_loop().time(), 0))
        if response.code not in accepted:
            remark = response.remark or "no remark"
            raise RefusedError(address, name, response.code, _response_name(response), remark)
        try:
            return read(response)
        except RequestError as error:
            raise BadAnswerError(address, name, error.field, error.expected, error.found) from error

    async def tell(self, address: str, request: RemotingCommand, *, seconds: float) -> None:
        """Send a one-way request.

        Raises
        ------
        ClientError
            The peer accepts no connection, or reads no bytes.
        """
        end = asyncio.get_running_loop().time() + seconds
        connection = await self._connection_within(seconds, address, request_name(request))
        await connection.tell(request, max(end - asyncio.get_running_loop().time(), 0))

    def connected(self) -> list[str]:
        """Return the addresses that are connected."""
        return [address for address, one in self._connections.items() if not one.closed]

    def close(self) -> None:
        """Close all connections."""
        self._closed = True
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    async def _connection_within(self, seconds: float, address: str, request: str) -> Connection:
        try:
            async with asyncio.timeout(seconds):
                return await self._connection(address, request)
        except TimeoutError:
            raise NotReachedError(address, request, f"no connection in {seconds:g} s") from None

    async def _connection(self, address: str, request: str) -> Connection:
        if self._closed:
            raise NotReachedError(address, request, "this client was closed")
        found = self._connections.get(address)
        if found is not None and not found.closed:
            return found
        opening = self._opening.get(address)
        if opening is None:
            opening = asyncio.create_task(self._open(address, request))
            self._opening[address] = opening
            opening.add_done_callback(lambda done: self._opened(address, done))
        # Other calls may wait for the same connection: a call that gives up must not cancel it.
        return await asyncio.shield(opening)

    async def _open(self, address: str, request: str) -> Connection:
        connection = await Connection.open(address, self._on_request, request)
        if self._closed:
            connection.close()
            raise NotReachedError(address, request, "this client was closed")
        self._connections[address] = connection
        self._on_connect(connection)
        return connection

    def _opened(self, address: str, task: asyncio.Task[Connection]) -> None:
        del self._opening[address]
        if not task.cancelled():
            task.exception()  # the calls that wait for the task raise it; without one the error does not matter


def _response_name(response: RemotingCommand) -> str:
    try:
        return ResponseCode(response.code).name
    except ValueError:
        return str(response.code)
