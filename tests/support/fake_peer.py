"""A client that connects to a broker's connection without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from rmqcore.broker.channel import Channel
from rmqcore.broker.network.connection import ClientConnection, Connections
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.frame import FrameDecoder
from rmqcore.remoting.header import decode_command

Answer = Callable[[RemotingCommand, Channel], RemotingCommand | None]


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


class Peer:
    """A client that connected."""

    def __init__(
        self, answer: Answer, *, host: str = "127.0.0.1", connections: Connections | None = None
    ) -> None:
        self.closed: list[Channel] = []
        self.connections = connections or Connections(
            answer, self.closed.append, lambda host: host == "127.0.0.1", 2
        )
        self.transport = FakeTransport(host)
        self.connection: ClientConnection = self.connections()
        self.connection.connection_made(self.transport)

    def comes(self, data: bytes) -> None:
        """Bring bytes as asyncio does: into the buffer that the connection gives."""
        while data and self.transport.ended is None:
            room = self.connection.get_buffer(-1)
            piece, data = data[: len(room)], data[len(room) :]
            room[: len(piece)] = piece
            self.connection.buffer_updated(len(piece))

    def answers(self) -> list[RemotingCommand]:
        decoder = FrameDecoder()
        decoder.feed(self.transport.written)
        found = []
        while (frame := decoder.next_frame()) is not None:
            found.append(decode_command(frame))
        assert not decoder.pending
        return found
