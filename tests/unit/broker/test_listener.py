"""How a port accepts the connections that come in."""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from contextlib import ExitStack
from typing import Any

import pytest
from support.eventually import eventually_async

from rmqcore.broker.network import listener as listener_module
from rmqcore.broker.network.files_limit import COMING
from rmqcore.broker.network.listener import Listener


class Counted(asyncio.Protocol):
    """Notes its connections."""

    made: list[asyncio.BaseTransport]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.made.append(transport)


class Port(socket.socket):
    """A bound port; its next calls of `accept` fail."""

    def __init__(self, *errors: int) -> None:
        super().__init__()
        self.errors = list(errors)
        self.bind(("127.0.0.1", 0))

    def accept(self) -> tuple[socket.socket, Any]:
        if self.errors:
            raise OSError(self.errors.pop(0), "by the test")
        return super().accept()


def protocols() -> tuple[list[asyncio.BaseTransport], type[Counted]]:
    made: list[asyncio.BaseTransport] = []
    return made, type("Noting", (Counted,), {"made": made})


def connected(stack: ExitStack, port: Port, count: int) -> None:
    for _ in range(count):
        stack.enter_context(socket.create_connection(port.getsockname()))


def test_many_connections_are_accepted_in_one_step() -> None:
    """One in each step: while 300 connected and sent, the next one waited for 300 steps of some 5 ms."""

    async def accept() -> int:
        made, protocol = protocols()
        with Port() as port, ExitStack() as stack:
            listener = Listener(port, protocol)
            connected(stack, port, 2 * COMING)
            for _ in range(6):
                await asyncio.sleep(0)
            early = len(made)
            await eventually_async(lambda: len(made) == 2 * COMING)
            for transport in made:
                transport.close()
            listener.close()
            listener.close()
            return early

    assert asyncio.run(accept()) >= COMING


def test_hundreds_may_wait_at_a_port() -> None:
    """Of 400 that connected at once some waited for a second, until the kernel sent their first packet again."""

    async def connect() -> float:
        made, protocol = protocols()
        with Port() as port, ExitStack() as stack:
            listener = Listener(port, protocol)
            begin = time.monotonic()
            connected(stack, port, 300)  # while the loop accepts none
            took = time.monotonic() - begin
            await eventually_async(lambda: len(made) == 300)
            for transport in made:
                transport.close()
            listener.close()
        return took

    assert asyncio.run(connect()) < 1.0


def test_a_port_without_a_descriptor_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "RETRY_S", 0.0)
    reported: list[dict[str, Any]] = []

    async def accept() -> None:
        made, protocol = protocols()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context))
        with Port(errno.EMFILE, errno.ECONNABORTED, errno.ENFILE) as port, ExitStack() as stack:
            listener = Listener(port, protocol)
            connected(stack, port, 3)
            await eventually_async(lambda: len(made) == 3)
            for transport in made:
                transport.close()
            listener.close()

    asyncio.run(accept())
    assert [context["exception"].errno for context in reported] == [errno.EMFILE, errno.ENFILE]


def test_a_port_that_waits_can_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "RETRY_S", 3600.0)
    reported: list[object] = []

    async def accept() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context))
        with Port(errno.EMFILE) as port, ExitStack() as stack:
            listener = Listener(port, asyncio.Protocol)
            connected(stack, port, 1)
            await eventually_async(lambda: bool(reported))
            listener.close()
            assert port.fileno() == -1

    asyncio.run(accept())
