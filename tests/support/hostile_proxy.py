"""A proxy between clients and a broker that does what networks and bad peers do: all of it chosen by a seed."""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass
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
    SWALLOW_THERE = auto()
    """Nothing of the client comes to the broker, and no side notices."""
    SWALLOW_BACK = auto()
    """The broker hears, and its answers go nowhere."""
    HALF_CLOSE = auto()
    """One side reads an end, and the other may still send."""


PARTITIONS = (Harm.SWALLOW_THERE, Harm.SWALLOW_BACK, Harm.HALF_CLOSE)
"""After these a connection has lost bytes, and a client waits until its patience is over."""


@dataclass(eq=False)
class _Line:
    """A connection: its harm may change while it is open."""

    harm: Harm
    ends: list[asyncio.StreamWriter]
    has_lost: bool = False

    def abort(self) -> None:
        """End it on both sides; its task sees that."""
        for end in self.ends:
            end.transport.abort()


class HostileProxy:
    """Takes connections, and opens one to the broker for each. What it does to one is chosen when it comes.

    Attributes
    ----------
    address : str
    counts : dict
        How many connections each harm was done to.
    """

    def __init__(
        self,
        target: str,
        rng: random.Random,
        harms: tuple[Harm, ...] = tuple(Harm),
        *,
        place: tuple[str, int] = ("127.0.0.1", 0),
    ) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self._rng = rng
        self._harms = harms
        self._place = place
        self._refuses = False
        self._lines: set[_Line] = set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.address = ""
        self.counts = dict.fromkeys(Harm, 0)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._came, *self._place)
        self.address = "{}:{}".format(*self._server.sockets[0].getsockname())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.refuse()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def change(self, harm: Harm) -> None:
        """Do this to all connections from now on, to those that are open and to new ones."""
        self._harms = (harm,)
        for line in self._lines:
            line.harm = harm

    def refuse(self) -> None:
        """End all connections, and every new one at once."""
        self._refuses = True
        for line in self._lines:
            line.abort()

    def heal(self) -> None:
        """Carry all bytes again; what has lost some is ended, as a connection that is no use."""
        self._refuses = False
        self.change(Harm.NONE)
        for line in self._lines:
            if line.has_lost:
                line.abort()

    async def _came(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        rng = random.Random(self._rng.random())
        line = _Line(rng.choice(self._harms), [writer])
        self.counts[line.harm] += 1
        if self._refuses:
            writer.transport.abort()
            return
        self._lines.add(line)
        task.add_done_callback(lambda _: self._lines.discard(line))
        try:
            out_reader, out_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        line.ends.append(out_writer)
        if self._refuses:
            line.abort()
        there = asyncio.create_task(_pump(reader, out_writer, line, rng))
        back = asyncio.create_task(_pump(out_reader, writer, line, rng, back=True))
        try:
            await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in (there, back):
                pump.cancel()
            await asyncio.gather(there, back, return_exceptions=True)
            line.abort()


async def _pump(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    line: _Line,
    rng: random.Random,
    *,
    back: bool = False,
) -> None:
    """Carry bytes one way until that side ends, or this harm is to end it."""
    left: int | None = None
    decoder = FrameDecoder()
    closes, is_closed = rng.random() < 0.5, False
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(READ_BYTES):
            harm = line.harm
            if harm in PARTITIONS:
                swallows = harm is (Harm.SWALLOW_BACK if back else Harm.SWALLOW_THERE)
                if harm is Harm.HALF_CLOSE and closes:
                    swallows = True
                    if not is_closed:
                        writer.write_eof()
                        is_closed = True
                if swallows:
                    line.has_lost = True
                    continue
            if back and harm in (Harm.DUPLICATE, Harm.FUZZ):
                harm = Harm.NONE
            if harm is Harm.CUT:
                left = rng.randrange(1, 40_000) if left is None else left
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
