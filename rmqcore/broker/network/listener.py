"""A port that accepts its connections in batches.

libuv accepts one connection in each step of its loop. While 300 connect and send at once, the next one waited for 300 steps.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

from rmqcore.broker.network.files_limit import COMING

BACKLOG = 1024
"""Connections that may wait at a port; those beyond try again after a second.

Source: RocketMQ 5.5.0 NettyServerConfig#serverSocketBacklog.
"""
RETRY_S = 1.0
"""Seconds until a port that got no descriptor, or no memory, for a connection tries again."""
_LOG = logging.getLogger("rmqcore.broker")


class Listener:
    """Accepts the connections of a port until `close`. Used by the loop's thread only.

    Parameters
    ----------
    bound : socket
        A bound socket, which the listener closes.
    protocol : callable
        Returns the protocol of a connection.
    """

    def __init__(self, bound: socket.socket, protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        self._socket = bound
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._starting: set[asyncio.Task[object]] = set()
        self._retry: asyncio.TimerHandle | None = None
        bound.setblocking(False)
        bound.listen(BACKLOG)
        self._resume()

    def close(self) -> None:
        """Close the port; connections that were accepted stay. May be repeated."""
        if self._socket.fileno() < 0:
            return
        self._pause()
        self._socket.close()

    def _resume(self) -> None:
        self._retry = None
        self._loop.add_reader(self._socket.fileno(), self._accept)

    def _pause(self) -> None:
        if self._retry is None:
            self._loop.remove_reader(self._socket.fileno())
        else:
            self._retry.cancel()

    def _accept(self) -> None:
        for _ in range(COMING):
            try:
                accepted, _address = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:  # the peer is gone already
                continue
            except OSError as error:
                self._wait(error)
                return
            accepted.setblocking(False)
            task = self._loop.create_task(self._start(accepted))
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)

    def _wait(self, error: OSError) -> None:
        """Report that a connection could not be accepted, and try again later; new connections wait in the kernel."""
        context = {"message": "cannot accept a connection", "exception": error}
        self._loop.call_exception_handler(context)
        self._pause()
        self._retry = self._loop.call_later(RETRY_S, self._resume)

    async def _start(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, accepted)
        except OSError as error:
            accepted.close()
            _LOG.info("a connection ended before its first request: %s", error)
