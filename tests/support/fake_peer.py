"""A client that connects to a broker's connection without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from rmqcore.broker.channel import Asker, Channel
from rmqcore.broker.network.connection import ClientConnection, Connections
from rmqcore.broker.network.turns import Turns
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.frame import FrameDecoder
from rmqcore.remoting.header import decode_command

Answer = Callable[[RemotingCommand, Asker], RemotingCommand | None]


class FakeTransport(asyncio.Transport):
    """What asyncio hands a protocol: it keeps what is written, and takes it only where the test says so."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        super().__init__({"peername": (host, 40000)})
        self.written = bytearray()
        self.writes = 0
        self.unsent = 0
        self.is_read = True
        self.ended: str | None = None

    def write(self, data: Any) -> None:
        self.written += data
        self.writes += 1
        self.unsent += len(data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.limits = high, low

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def pause_reading(self) -> None:
        assert self.is_read
        self.is_read = False

    def resume_reading(self) -> None:
        assert not self.is_read
        self.is_read = True

    def is_closing(self) -> bool:
        return self.ended is not None

    def close(self) -> None:
        self.ended = self.ended or "closed"

    def abort(self) -> None:
        self.ended = "aborted"


class Steps:
    """The part of a loop that `Turns` uses: calls are made when the test says so."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], object]] = []

    def __call__(self, call: Callable[[], object]) -> None:
        self.calls.append(call)

    def step(self) -> bool:
        """Make the calls that wait now, not those that they add; return whether there was one."""
        calls, self.calls = self.calls, []
        for call in calls:
            call()
        return bool(calls)


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Peer:
    """A client that connected; its clock stands still unless its connections have their own."""

    def __init__(
        self, answer: Answer, *, host: str = "127.0.0.1", connections: Connections | None = None
    ) -> None:
        self.closed: list[Channel] = []
        self.connections = connections or Connections(
            answer,
            self.closed.append,
            lambda host: host == "127.0.0.1",
            2,
            turns=Turns(Steps(), Clock()),
        )
        turns = self.connections.turns
        if turns._call_soon is None:
            turns._call_soon = Steps()
        self.transport = FakeTransport(host)
        self.connection: ClientConnection = self.connections()
        self.connection.connection_made(self.transport)

    def comes(self, data: bytes) -> None:
        """Bring bytes as asyncio does, into the buffer that the connection gives, and let all turns pass."""
        while data and self.transport.ended is None:
            room = self.connection.get_buffer(-1)
            piece, data = data[: len(room)], data[len(room) :]
            room[: len(piece)] = piece
            self.connection.buffer_updated(len(piece))
            self.turns_pass()

    def turns_pass(self) -> None:
        """Let the loop turn until no connection waits for its turn."""
        steps = self.connections.turns._call_soon
        while isinstance(steps, Steps) and steps.step():
            pass

    def answers(self) -> list[RemotingCommand]:
        decoder = FrameDecoder()
        decoder.feed(self.transport.written)
        found = []
        while (frame := decoder.next_frame()) is not None:
            found.append(decode_command(frame))
        assert not decoder.pending
        return found
