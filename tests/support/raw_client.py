"""A client that says just what a test wants it to say, for ordinary code and for asyncio; requests that such clients make."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from itertools import count
from typing import Self

from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.frame import FrameDecoder
from rmqcore.remoting.header import decode_command, encode_command
from rmqcore.remoting.request_fields import Value, encode_fields

MOST_SECONDS = 60.0


class RawClient:
    """A connection that waits.

    Attributes
    ----------
    peer : str
        Its address as the server sees it.
    asked : list of RemotingCommand
        What the server said while an answer was waited for.
    """

    def __init__(self, address: str, *, source: str | None = None) -> None:
        host, _, port = address.rpartition(":")
        where = (source, 0) if source else None
        self.socket = socket.create_connection((host, int(port)), MOST_SECONDS, where)
        self.peer = "{}:{}".format(*self.socket.getsockname())
        self.asked: list[RemotingCommand] = []
        self._decoder = FrameDecoder()
        self._opaques = count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def send(self, command: RemotingCommand) -> None:
        """Send a command as it is."""
        self.socket.sendall(encode_command(command))

    def ask(self, request: RemotingCommand) -> RemotingCommand:
        """Send a request, and give its response."""
        request.opaque = next(self._opaques)
        self.send(request)
        while True:
            command = self.next()
            if command.is_response and command.opaque == request.opaque:
                return command
            self.asked.append(command)

    def wait_for(self, wanted: Callable[[RemotingCommand], bool]) -> RemotingCommand:
        """Give the first command of the server that is so."""
        while not any(map(wanted, self.asked)):
            self.asked.append(self.next())
        found = next(filter(wanted, self.asked))
        self.asked.remove(found)
        return found

    def next(self) -> RemotingCommand:
        """Give what the server says next.

        Raises
        ------
        ConnectionError
            It closed the connection.
        """
        while (frame := self._decoder.next_frame()) is None:
            data = self.socket.recv(1 << 16)
            if not data:
                raise ConnectionError("the server closed the connection")
            self._decoder.feed(data)
        return decode_command(frame)

    def is_closed_by_server(self) -> bool:
        """Wait until the server has closed the connection, whatever it says before."""
        try:
            while self.socket.recv(1 << 16):
                pass
        except ConnectionError:
            pass  # a reset is an end as well
        except TimeoutError:
            return False
        return True


class AsyncRawClient:
    """A connection of asyncio; `opaques` may be shared by several, so that an answer is told from all others."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._decoder = FrameDecoder()
        self._opaques = count(1)

    @classmethod
    async def open(cls, address: str) -> Self:
        """Connect."""
        host, _, port = address.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    def send(self, request: RemotingCommand) -> int:
        """Send a request; give its number."""
        request.opaque = next(self._opaques)
        self.writer.write(encode_command(request))
        return request.opaque

    async def ask(self, request: RemotingCommand) -> RemotingCommand:
        """Send a request, and give its response."""
        opaque = self.send(request)
        while True:
            command = await self.next()
            if command.is_response and command.opaque == opaque:
                return command

    async def next(self) -> RemotingCommand:
        """Give what the server says next.

        Raises
        ------
        ConnectionError
            It closed the connection.
        """
        while (frame := self._decoder.next_frame()) is None:
            data = await self._reader.read(1 << 16)
            if not data:
                raise ConnectionError("the server closed the connection")
            self._decoder.feed(data)
        return decode_command(frame)

    def close(self) -> None:
        """Close the connection at once."""
        self.writer.transport.abort()


def send_request(topic: str, body: bytes, queue_id: int = 0, key: str = "KEY") -> RemotingCommand:
    """Make a send of a message with this UNIQ_KEY."""
    fields: dict[str, Value] = {
        "producerGroup": "raw",
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": 4,
        "queueId": queue_id,
        "sysFlag": 0,
        "bornTimestamp": 1_700_000_000_000,
        "flag": 0,
        "properties": f"UNIQ_KEY\x01{key}\x02KEYS\x01{key}\x02WAIT\x01true\x02",
        "reconsumeTimes": 0,
        "unitMode": False,
        "batch": False,
    }
    code = RequestCode.SEND_MESSAGE_V2
    return RemotingCommand(code, ext_fields=encode_fields(code, fields), body=body)


def pull_request(
    topic: str, queue_offset: int, *, queue_id: int = 0, held_ms: int = 0, group: str = "raw"
) -> RemotingCommand:
    """Make a pull that brings its subscription; it may be held so long."""
    fields: dict[str, Value] = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": queue_id,
        "queueOffset": queue_offset,
        "maxMsgNums": 32,
        "sysFlag": 4 | (2 if held_ms else 0),
        "commitOffset": 0,
        "suspendTimeoutMillis": held_ms,
        "subscription": "*",
        "subVersion": 0,
    }
    code = RequestCode.PULL_MESSAGE
    return RemotingCommand(code, ext_fields=encode_fields(code, fields))
