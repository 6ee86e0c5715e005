"""A master and slaves in one process, each with its store and its sockets, and a line between them that a test cuts."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Self

from support.eventually import eventually_async
from support.ports import PortBlock

import rmqcore
from rmqcore import Message
from rmqcore.broker.broker import Broker
from rmqcore.broker.network.server import Ports, Running, serving
from rmqcore.broker.settings import BrokerSettings
from rmqcore.engine.store.store import MessageStore

SMALL: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 20,
    "mapped_file_size_consume_queue": 6000,
    "max_index_num": 1000,
    "max_hash_slot_num": 100,
    "disk_max_used_space_ratio": 100,
}
READ_BYTES = 1 << 14
LONG_S = 120.0


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test for at most `LONG_S` seconds."""

    async def timed() -> None:
        async with asyncio.timeout(LONG_S):
            await test()

    asyncio.run(timed())


class Side:
    """A broker with its store, which is started and stopped, as master or slave.

    Attributes
    ----------
    store : MessageStore
    running : Running
    settings, ports : dict
        Of BrokerSettings and Ports, for the next start.
    block : PortBlock or None
        Where its broker listens, and on the next port its HA port: a slave finds the one by the other.
    """

    store: MessageStore
    running: Running

    def __init__(self, root: Path, role: str = "ASYNC_MASTER", **config: Any) -> None:
        self.root = root
        self.role = role
        self.config: dict[str, Any] = {**SMALL, **config}
        self.settings: dict[str, Any] = {}
        self.ports: dict[str, Any] = {}
        self.block: PortBlock | None = None
        self._stack: AsyncExitStack | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Open the store and serve it; a master listens for slaves."""
        is_slave = self.role == "SLAVE"
        settings = {"broker_id": 1 if is_slave else 0, **self.settings}
        ports = {"broker": 0, "namesrv": None, "ha": None if is_slave else 0, **self.ports}
        if self.block is not None:
            ports.update(broker=self.block.first, ha=None if is_slave else self.block.first + 1)
        async with AsyncExitStack() as stack:
            opened = rmqcore.open(self.root, broker_role=self.role, **self.config)
            self.store = stack.enter_context(opened)
            serves = serving(self.store, BrokerSettings(**settings), Ports(**ports))
            self.running = await stack.enter_async_context(serves)
            self._stack = stack.pop_all()

    async def stop(self) -> None:
        """End it; may be repeated."""
        if self._stack is not None:
            stack, self._stack = self._stack, None
            await stack.aclose()

    @property
    def broker(self) -> Broker:
        """Its broker."""
        return self.running.broker

    @property
    def ha(self) -> str:
        """Where its HA port listens."""
        assert self.running.ready.ha is not None
        return self.running.ready.ha

    def put(self, count: int, size: int = 1000, topic: str = "t") -> None:
        """Store messages."""
        for number in range(count):
            body = number.to_bytes(8, "big") * (size // 8)
            self.store.put(Message(topic, body, number % 4)).raise_for_status()

    async def holds(self, master: Side) -> None:
        """Wait until its log ends where the master's does."""
        await eventually_async(
            lambda: self.store.max_phy_offset == master.store.max_phy_offset,
            details=lambda: (
                self.store.max_phy_offset,
                master.store.max_phy_offset,
                self.broker.replication.master(),
            ),
        )

    def log(self) -> bytes:
        """All bytes of its log."""
        return log_bytes(self.store)


def log_bytes(store: MessageStore) -> bytes:
    """All bytes of a log."""
    at, found = store.min_phy_offset, bytearray()
    while piece := store.read_range(at, 1 << 20):
        found += piece
        at += len(piece)
    return bytes(found)


def slave_of(root: Path, ha_address: str, **config: Any) -> Side:
    """Make a slave that is configured with its master's HA address."""
    return Side(root, "SLAVE", ha_master_address=ha_address, **config)


class Line:
    """A proxy of a TCP port: it passes bytes on in small pieces, stops, and is cut at a byte.

    Attributes
    ----------
    address : str
    cut_after : int or None
        Bytes from the target after which each connection ends.
    made : int
        Connections that came.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = asyncio.Event()
        self._open.set()
        self.address = ""
        self.piece_bytes = READ_BYTES
        self.cut_after: int | None = None
        self.made = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._came, "127.0.0.1", 0)
        self.address = "{}:{}".format(*self._server.sockets[0].getsockname())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self._open.set()
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """End all connections."""
        for writer in self._writers:
            writer.transport.abort()

    def stall(self) -> None:
        """Pass nothing on."""
        self._open.clear()

    def go_on(self) -> None:
        """Pass on what waits, and what comes."""
        self._open.set()

    async def _came(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.made += 1
        try:
            there, back = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, back}
        self._writers |= ends
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass_on(reader, back, None))
                group.create_task(self._pass_on(there, writer, self.cut_after))
        except* OSError:
            pass
        finally:
            self._writers -= ends
            for end in ends:
                end.transport.abort()

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most: int | None
    ) -> None:
        left = most
        while data := await reader.read(self.piece_bytes):
            await self._open.wait()
            if left is not None:
                data = data[:left]
                left -= len(data)
            writer.write(data)
            await writer.drain()
            if left == 0:
                break
        raise ConnectionResetError  # the other way ends too


class RawSlave:
    """A peer of an HA port that says what the test wants."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, address: str) -> Self:
        """Connect."""
        host, _, port = address.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    def report(self, phy_offset: int) -> None:
        """Report an offset."""
        self.writer.write(struct.pack(">q", phy_offset))

    async def frame(self) -> tuple[int, bytes]:
        """Return the next frame: where its body lies, and the body."""
        phy_offset, size = struct.unpack(">qi", await self.reader.readexactly(12))
        return phy_offset, await self.reader.readexactly(size)

    async def is_closed(self) -> bool:
        """Wait until the master has closed the connection."""
        with suppress(ConnectionError):
            while await self.reader.read(READ_BYTES):
                pass
        self.close()
        return True

    def close(self) -> None:
        """Close the connection at once."""
        self.writer.transport.abort()
