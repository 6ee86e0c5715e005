"""A proxy between clients and a broker that does what networks and bad peers do: all of it chosen by a seed."""

from __future__ import annotations

import asyncio
import contextlib
import random
from enum import Enum, auto
from typing import Self

from rmqcore.errors import ProtocolError
from rmqcore.remoting.frame import FrameDecoder, encode_frame

READ_BYTES = 1 << 14
LONGEST_DELAY_S = 0.005


class Harm(Enum):
    """What a connection of the proxy does to the bytes of its client."""

    NONE = auto()
    CUT = auto()
    """It ends both ways after some bytes, in the middle of a frame."""
    DELAY = auto()
    SINGLE_BYTES = auto()
    DUPLICATE = auto()
    """Frames come twice."""
    FUZZ = auto()
    """Some bytes are others."""


class HostileProxy:
    """Takes connections, and opens one to the broker for each. What it does to one is chosen when it comes.

    Attributes
    ----------
    address : str
    counts : dict
        How many connections each harm was done to.
    """

    def __init__(
        self, target: str, rng: random.Random, harms: tuple[Harm, ...] = tuple(Harm)
    ) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self._rng = rng
        self._harms = harms
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.address = ""
        self.counts = dict.fromkeys(Harm, 0)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._came, "127.0.0.1", 0)
        self.address = "{}:{}".format(*self._server.sockets[0].getsockname())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _came(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        rng = random.Random(self._rng.random())
        harm = rng.choice(self._harms)
        self.counts[harm] += 1
        try:
            out_reader, out_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        there = asyncio.create_task(_pump(reader, out_writer, harm, rng))
        back_harm = harm if harm in (Harm.CUT, Harm.DELAY, Harm.SINGLE_BYTES) else Harm.NONE
        back = asyncio.create_task(_pump(out_reader, writer, back_harm, rng))
        try:
            await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in (there, back):
                pump.cancel()
            await asyncio.gather(there, back, return_exceptions=True)
            for end in (writer, out_writer):
                end.transport.abort()


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, harm: Harm, rng: random.Random
) -> None:
    """Carry bytes one way until that side ends, or this harm is to end it."""
    left = rng.randrange(1, 40_000) if harm is Harm.CUT else None
    decoder = FrameDecoder()
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(READ_BYTES):
            if left is not None:
                data = data[:left]
                left -= len(data)
            await _pass_on(data, writer, harm, rng, decoder)
            if left == 0:
                return


async def _pass_on(
    data: bytes,
    writer: asyncio.StreamWriter,
    harm: Harm,
    rng: random.Random,
    decoder: FrameDecoder,
) -> None:
    if harm is Harm.DUPLICATE:
        data = _twice(data, decoder, rng)
    elif harm is Harm.FUZZ and rng.random() < 0.2:
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 8))):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        data = bytes(changed)
    elif harm is Harm.DELAY:
        await asyncio.sleep(rng.random() * LONGEST_DELAY_S)  # the harm itself
    if harm is Harm.SINGLE_BYTES:
        for i in range(len(data)):
            writer.write(data[i : i + 1])
            await asyncio.sleep(0)  # each byte is a packet of its own: the socket has no delay
    else:
        writer.write(data)
    await writer.drain()


def _twice(data: bytes, decoder: FrameDecoder, rng: random.Random) -> bytes:
    """Give the frames that are whole now, some of them twice."""
    decoder.feed(data)
    found = bytearray()
    try:
        while (frame := decoder.next_frame()) is not None:
            found += encode_frame(frame) * rng.choice((1, 2, 2, 3))
    except ProtocolError:
        raise ConnectionError("the client sent no frame") from None
    return bytes(found)
