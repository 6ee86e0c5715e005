"""A connection to a server that says just what a test wants it to say."""

from __future__ import annotations

import socket
from collections.abc import Callable
from itertools import count
from typing import Self

from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.frame import FrameDecoder
from rmqcore.remoting.header import decode_command, encode_command

MOST_SECONDS = 60.0


class Wire:
    """A client's end of a connection.

    Attributes
    ----------
    peer : str
        Its address as the server sees it.
    asked : list of RemotingCommand
        What the server asked while an answer was waited for.
    """

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=MOST_SECONDS)
        self._decoder = FrameDecoder()
        self._opaques = count(1)
        self.peer = "{}:{}".format(*self._socket.getsockname())
        self.asked: list[RemotingCommand] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, command: RemotingCommand) -> None:
        """Send a command as it is."""
        self._socket.sendall(encode_command(command))

    def ask(self, request: RemotingCommand) -> RemotingCommand:
        """Send a request, and give its response."""
        request.opaque = next(self._opaques)
        self.send(request)
        while True:
            command = self._next()
            if command.is_response and command.opaque == request.opaque:
                return command
            self.asked.append(command)

    def wait_for(self, wanted: Callable[[RemotingCommand], bool]) -> RemotingCommand:
        """Give the first command of the server that is so."""
        while not any(wanted(command) for command in self.asked):
            self.asked.append(self._next())
        found = next(command for command in self.asked if wanted(command))
        self.asked.remove(found)
        return found

    def _next(self) -> RemotingCommand:
        while (frame := self._decoder.next_frame()) is None:
            data = self._socket.recv(1 << 16)
            if not data:
                raise ConnectionError("the server closed the connection")
            self._decoder.feed(data)
        return decode_command(frame)
