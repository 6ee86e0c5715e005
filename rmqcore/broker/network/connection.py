"""A connection of asyncio: bytes into commands, the responses back, and the limits for each peer.

Source: RocketMQ 5.5.0 NettyRemotingServer, NettyDecoder; the limits but the frame's length are rmqcore's own.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from rmqcore.broker.channel import Asker, Channel
from rmqcore.broker.network.stuck_peers import StuckPeers
from rmqcore.broker.network.turns import NOT_CHARGED_S, SLICE_S, Turns
from rmqcore.broker.quick_pulls import QuickPulls
from rmqcore.broker.quick_sends import QuickSends
from rmqcore.codec.message import pack_host
from rmqcore.errors import ProtocolError, StoreError
from rmqcore.remoting.codes import ResponseCode
from rmqcore.remoting.command import RemotingCommand, code_name
from rmqcore.remoting.frame import Frame, FrameDecoder
from rmqcore.remoting.header import decode_command, encode_command

Answer = Callable[[RemotingCommand, Asker], RemotingCommand | None]
_LOG = logging.getLogger("rmqcore.broker")
_READ_BYTES = 256 << 10
_READ_BEHIND_BYTES = 32 << 10
"""Bytes that one read takes of a connection whose requests waited for their turn: they lie in memory until the next one."""
READ_S = SLICE_S / 4
"""What a connection that waited for its turn is charged for its next read: so many of them are read in one turn."""
SHORT_READ_BYTES = 4 << 10
SHORT_READ_S = SLICE_S / 10
"""What a read of at most that many bytes is charged for at most: what it takes beyond that, it waits for other threads."""
MOST_UNSENT = 1 << 20
"""Bytes of answers that a peer has not taken, above which nothing more is read of it."""
MOST_UNANSWERED = 10_000
"""Requests of a connection that wait for their answer, above which nothing more is read of it."""
MOST_KEPT = 4 << 20
"""Bytes that requests of a connection keep while they wait, one-way ones too, above which no more of them is answered or read."""
HALF_FRAME_S = 30.0
"""Seconds that a peer has for the rest of a frame, and for taking the last bytes of a connection that ends."""
IDLE_S = 120.0
"""Seconds without a byte either way, after which a connection is closed, as Java does."""
_RECOUNT_S = 0.01


@dataclass
class Connections:
    """The open connections of one port, and the state that they share.

    Parameters
    ----------
    answer : callable
        Returns the response to a command, or None.
    on_closed : callable
        Receives each channel that was closed.
    may_connect : callable
        Receives the peer's host, and returns whether the peer may stay.
    max_connections : int
    quick_sends : QuickSends, optional
        Reads plain sends from the received bytes, before `answer` sees a command.
    quick_pulls : QuickPulls, optional
        Reads pulls that find messages in the same way.
    on_answered : callable, optional
        Called after requests of one connection were answered: they may have appended messages.
    max_buffered : int
        Bytes that the buffers of all connections may hold together. Above it requests are answered with SYSTEM_BUSY,
        and stuck peers lose their connections (`StuckPeers`). Above twice that number a connection that receives more
        of a frame is closed, because an incomplete request cannot be answered.
    turns : Turns
        Chooses the connection whose requests are answered next.
    """

    answer: Answer
    on_closed: Callable[[Channel], object]
    may_connect: Callable[[str], bool]
    max_connections: int
    quick_sends: QuickSends | None = None
    quick_pulls: QuickPulls | None = None
    on_answered: Callable[[], object] | None = None
    max_buffered: int = 256 << 20
    turns: Turns = field(default_factory=Turns)
    open: set[ClientConnection] = field(default_factory=set)
    # Filled and emptied within one step of the loop, so that all connections can share it.
    read_buffer: bytearray = field(default_factory=lambda: bytearray(_READ_BYTES))
    buffered: int = 0
    stuck_peers: StuckPeers = field(default_factory=StuckPeers)
    _counted: float = 0.0

    def __call__(self) -> ClientConnection:
        """Return the protocol of a new connection."""
        return ClientConnection(self)

    def close_idle(self) -> None:
        """Close the connections whose time is over."""
        now = self.turns.clock()
        for connection in list(self.open):
            connection.close_if_idle(now)
        self.stuck_peers.look(self.open, self.buffered - self.max_buffered, now)

    def are_full(self, now: float) -> bool:
        """Return whether the buffers hold too many bytes.

        A connection learns nothing when its peer has taken bytes. So the bytes are counted again before a request is
        refused, but not for each request: requests and connections may be many then.
        """
        if self.buffered > self.max_buffered and now - self._counted > _RECOUNT_S:
            self._counted = now
            for connection in self.open:
                connection.note_buffered()
            self.stuck_peers.look(self.open, self.buffered - self.max_buffered, now)
        return self.buffered > self.max_buffered


class ClientConnection(asyncio.BufferedProtocol):
    """One connection: a `Channel`. Used by the loop's thread only."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._decoder = FrameDecoder()
        self._transport: asyncio.Transport | None = None
        self._buffered = 0
        self._unanswered = 0
        self._unsent_full = self._ended = False
        self._reading = True
        self._waits_turn = self._is_behind = False
        self._held = self._kept = 0
        self._turns = connections.turns
        self._clock = connections.turns.clock
        self._cpu_clock = connections.turns.cpu_clock
        self.used_s = 0.0
        self._batch: list[bytes] | None = None
        self._batch_bytes = 0
        self._last_bytes = self._frame_began = connections.turns.clock()
        self._unsent = 0
        self.peer = "?"
        self._born_host = b""

    # ---- asyncio ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection, or close it if there are too many or the peer may not connect."""
        # uvloop's transport is a class of its own, not an asyncio.Transport.
        transport = cast("asyncio.Transport", transport)
        peername = transport.get_extra_info("peername")
        if peername is None:  # the peer is gone already
            transport.abort()
            return
        host, port = (
            peername[0].partition("%")[0],
            peername[1],
        )  # an IPv6 address may name its interface
        self.peer = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        connections = self._connections
        if not connections.may_connect(host):
            _LOG.warning("%s is not allowed to connect: see --allow", self.peer)
            transport.abort()
            return
        if len(connections.open) >= connections.max_connections:
            _LOG.warning(
                "%s was refused: the limit of %d connections is reached",
                self.peer,
                connections.max_connections,
            )
            transport.abort()
            return
        peer_socket = transport.get_extra_info("socket")
        if peer_socket is not None and peer_socket.family != socket.AF_UNIX:
            peer_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.set_write_buffer_limits(high=MOST_UNSENT)
        self._transport = transport
        if connections.quick_sends is not None:
            self._born_host = pack_host(self.peer)
        connections.open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Inform every part that must forget the connection."""
        if self._transport is None:
            return
        if exc is not None:
            _LOG.info("%s: %s", self.peer, exc)
        self._transport = None
        self._decoder = FrameDecoder()
        self.note_buffered()
        self._connections.open.discard(self)
        self._connections.on_closed(self)

    def get_buffer(self, sizehint: int) -> bytearray | memoryview:  # noqa: ARG002
        """Return the buffer that the next bytes are read into."""
        if self._is_behind or self._turns.are_over:
            self._is_behind = True  # the bytes read now wait for their turn
            return memoryview(self._connections.read_buffer)[:_READ_BEHIND_BYTES]
        return self._connections.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Receive bytes, and answer the requests that they complete."""
        if self._transport is None:
            return  # it was refused, and is about to be closed
        now = self._clock()
        self._last_bytes = now
        if not self._decoder.pending:
            self._frame_began = now
        is_full_read = nbytes >= (_READ_BEHIND_BYTES if self._is_behind else _READ_BYTES)
        self._is_behind = False
        if self._turns.are_over:
            with memoryview(self._connections.read_buffer) as came:
                self._decoder.feed(came[:nbytes])
            self._wait_turn()
        else:
            self._answer_what_came(nbytes, now)
        is_long = is_full_read or self._decoder.pending >= _READ_BEHIND_BYTES
        if is_long and not self._waits_turn:
            # The kernel may have more, and uvloop would read on, 32 times in a row. A turn includes few reads of a
            # frame that needs many: the loop may wait for a parsing thread at each of them.
            self._waits_turn = True
            self._turns.wait(self, self._decoder.pending)
            self._read_or_wait()
        if (
            self._decoder.pending
            and self._connections.buffered > 2 * self._connections.max_buffered
        ):
            self._close_if_full(now)

    def take_turn(self) -> None:
        """Answer the requests that are waiting, and read on when none is left; see `Turns.wait`."""
        self._waits_turn = False
        if self.closed or self._ended:
            return
        if self._decoder.pending and not self._is_stopped:
            self._answer_what_came(0, self._clock())
        else:
            self._read_or_wait()
        if self._reading:
            self._turns.charge(self, READ_S)

    def _wait_turn(self) -> None:
        """Let the remaining requests wait for this connection's next turn, and read nothing more until then."""
        self._is_behind = True
        if not self._waits_turn:
            self._waits_turn = True
            self._turns.wait(self, self._decoder.pending)
        self.note_buffered()
        self._read_or_wait()

    def pause_writing(self) -> None:
        """Read nothing more from a peer that does not take its answers."""
        self._unsent_full = True
        self._read_or_wait()

    def resume_writing(self) -> None:
        """Continue with the requests that were received already."""
        self._unsent_full = False
        self._go_on()

    def hold(self) -> None:
        """Leave the requests that follow unanswered, and read nothing more; see `Asker.hold`."""
        self._held += 1
        self._read_or_wait()

    def release(self) -> None:
        """Continue with the requests that followed; see `Asker.release`."""
        self._held -= 1
        self._go_on()

    def keep(self, size: int) -> None:
        """Count the bytes that waiting requests keep; see `Asker.keep`."""
        self._kept += size
        self.note_buffered()
        if size < 0 and self._batch is None:
            self._go_on()

    @property
    def _is_stopped(self) -> bool:
        """True if no request is answered now: the peer takes no answers, or earlier requests must be answered first."""
        return self._unsent_full or self._held > 0 or self._kept >= MOST_KEPT

    def _go_on(self) -> None:
        if self._waits_turn or self._is_stopped:
            return
        if self._decoder.pending and not (self.closed or self._ended):
            if self._turns.are_over:
                self._wait_turn()
            else:
                self._answer_what_came(0, self._clock())
        else:
            self._read_or_wait()

    # ---- a channel ----------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """True if nothing that is sent arrives any more. The parsing thread may read it too."""
        transport = self._transport
        return transport is None or transport.is_closing()

    def send(self, command: RemotingCommand) -> None:
        """Send a command; see `Channel.send`."""
        if command.is_response:
            self._unanswered -= 1
        if self.closed:
            return
        self._write(_encoded(command))
        if self._batch is None:
            self.note_buffered()
            self._read_or_wait()

    def close(self) -> None:
        """Close the connection once the written bytes are sent."""
        if self._transport is not None:
            self._transport.close()

    # ---- the rest -----------------------------------------------------------------------------------

    @property
    def unanswered(self) -> int:
        """Number of requests that were received and have no answer yet."""
        return self._unanswered

    @property
    def held(self) -> tuple[int, int]:
        """Bytes of answers that the peer has not taken, and bytes of its unfinished frame if the peer must act next."""
        unsent = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return unsent, self._decoder.pending if self._reading else 0

    def end_reading(self) -> None:
        """Stop reading for good, because the server ends."""
        self._ended = True
        self._read_or_wait()

    def abort(self) -> None:
        """Close the connection at once; unsent bytes are lost."""
        if self._transport is not None:
            self._transport.abort()

    def close_if_idle(self, now: float) -> None:
        """Close the connection if its peer left a frame half sent, or was silent, for too long."""
        unsent = 0 if self._transport is None else self._transport.get_write_buffer_size()
        if unsent < self._unsent:
            self._last_bytes = now  # the peer has taken bytes
        self._unsent = unsent
        self.note_buffered()
        if not self._reading:
            self._frame_began = now  # the peer must act next when reading continues
            if not self._unsent_full:
                self._last_bytes = now  # the peer waits for the server, which is silent too
        if self.closed:
            # The peer never takes the bytes written before: without this the connection would stay for ever.
            if now - self._last_bytes > HALF_FRAME_S:
                self.abort()
        elif self._decoder.pending and now - self._frame_began > HALF_FRAME_S:
            _LOG.warning(
                "%s: an incomplete frame for %d s; the connection is closed",
                self.peer,
                HALF_FRAME_S,
            )
            self.close()
        elif now - self._last_bytes > IDLE_S:
            _LOG.info("%s: silent for %d s; the connection is closed", self.peer, IDLE_S)
            self.close()

    def _answer_what_came(self, nbytes: int, now: float) -> None:
        """Answer requests that `nbytes` of the read buffer complete, for one slice, while the peer takes answers."""
        self._batch = []
        requests_left = False
        used_s = None
        try:
            if not self._all_quick(nbytes):
                begun_s = self._cpu_clock()
                requests_left = self._answer_all(now + SLICE_S)
                used_s = self._cpu_clock() - begun_s
            elif nbytes <= SHORT_READ_BYTES:
                used_s = SHORT_READ_S
        except ProtocolError as error:
            _LOG.warning("%s: %s; the connection is closed", self.peer, error)
            self._flush()
            self.close()
        except BaseException:
            # The loop closes a connection if a read raises. A turn is not a read: without this reading would stop.
            self.abort()
            raise
        finally:
            self._flush()
        if self._connections.on_answered is not None:
            self._connections.on_answered()
        took = (
            self._last_bytes - now
        )  # quick answers set it; all others read the clock at their end
        if took > NOT_CHARGED_S:
            self._turns.charge(self, took, used_s)
        if requests_left:
            self._wait_turn()
            return
        self.note_buffered()
        self._read_or_wait()

    def _all_quick(self, nbytes: int) -> bool:
        """Answer quick requests in the read buffer; return True if no bytes are left.

        Nearly always the bytes are whole frames that need no handler, and are used without a copy. The rest goes to the
        decoder.
        """
        connections, taken = self._connections, 0
        is_next = not (self._decoder.pending or self._is_stopped)
        if is_next and not connections.are_full(self._last_bytes):
            taken = self._take_quick(connections.read_buffer, 0, nbytes)
            if taken == nbytes:
                return True
        with memoryview(connections.read_buffer) as came:
            self._decoder.feed(came[taken:nbytes])
        if nbytes >= _READ_BEHIND_BYTES:
            self._last_bytes = self._clock()
        return False

    def _answer_all(self, until: float) -> bool:
        """Answer the complete requests, and return whether some may be left when the time `until` is over."""
        connections, clock = self._connections, self._clock
        while not self._is_full() and (frame := self._next_frame()) is not None:
            command = decode_command(frame)
            self._frame_began = self._last_bytes
            if not (command.is_oneway or command.is_response):
                self._unanswered += 1
            if not command.is_response and connections.are_full(self._last_bytes):
                response = _busy(command)
            else:
                response = connections.answer(command, self)
            if response is not None:
                self.send(response)
            self._last_bytes = now = clock()
            if now >= until:
                return self._decoder.pending > 0 and not self._is_stopped
        return False

    def _is_full(self) -> bool:
        """Return True if requests must wait: the answers to one read may exceed the bytes that are kept for a peer."""
        if self._batch_bytes >= MOST_UNSENT:
            self._flush()
            self._batch = []
        return self._is_stopped

    def _next_frame(self) -> Frame | None:
        """Return the next frame for a handler."""
        if not self._connections.are_full(self._last_bytes):
            self._decoder.take_ahead(self._take_quick)
        return self._decoder.next_frame()

    def _take_quick(self, buffer: bytearray, begin: int, end: int) -> int:
        """Answer the requests that need no handler, and return the length of their frames in bytes."""
        at = self._take_quick_sends(buffer, begin, end)
        while at < end and self._batch_bytes < MOST_UNSENT:
            behind = self._take_quick_pulls(buffer, at, end)
            if behind == at:
                break
            at = self._take_quick_sends(buffer, behind, end)
        return at - begin

    def _take_quick_pulls(self, buffer: bytearray, begin: int, end: int) -> int:
        """Answer the pulls at the start of the bytes that find messages, and return where their frames end."""
        quick_pulls = self._connections.quick_pulls
        if quick_pulls is None:
            return begin
        room = MOST_UNSENT - self._batch_bytes
        taken, answers = quick_pulls.feed(buffer, begin, end, self.peer, room)
        if answers:
            self._frame_began = self._last_bytes
            for answer in answers:
                self._write(answer)
        return taken

    def _take_quick_sends(self, buffer: bytearray, begin: int, end: int) -> int:
        """Store the plain sends at the start of the bytes, and return where their frames end."""
        quick_sends = self._connections.quick_sends
        if quick_sends is None:
            return begin
        try:
            fed = quick_sends.feed(buffer, begin, end, self._born_host)
        except (StoreError, OSError, MemoryError) as error:
            # Which of them are stored is unknown: the producers have to send again.
            _LOG.error("%s: %s; the connection is closed", self.peer, error)
            self.abort()
            return end
        if fed is None or fed.taken == begin:
            return begin
        self._frame_began = self._last_bytes
        if fed.answer_count and quick_sends.is_safe(fed):
            self._write(fed.answers)
        elif fed.answer_count:
            self._unanswered += fed.answer_count
            quick_sends.when_safe(fed, partial(self._send_answers, fed.answer_count))
        return fed.taken

    def _send_answers(self, count: int, answers: bytes) -> None:
        """Send the answers to quick sends."""
        self._unanswered -= count
        if self.closed:
            return
        self._write(answers)
        if self._batch is None:
            self.note_buffered()
            self._read_or_wait()

    def _close_if_full(self, now: float) -> None:
        """Close the connection, which has sent half a frame, unless the buffers have room for it again."""
        connections = self._connections
        if connections.are_full(now) and connections.buffered > 2 * connections.max_buffered:
            _LOG.warning(
                "%s: an incomplete frame, and the buffers are full; the connection is closed",
                self.peer,
            )
            # Free its buffer at once: else the connections read before the loop reports its end would be closed too.
            self._decoder = FrameDecoder()
            self.note_buffered()
            self.abort()

    def _write(self, data: bytes) -> None:
        self._last_bytes = self._clock()
        if self._batch is not None:
            self._batch.append(data)
            self._batch_bytes += len(data)
        elif self._transport is not None:
            self._transport.write(data)

    def _flush(self) -> None:
        """Write the answers to all requests of one read in one call."""
        batch, self._batch = self._batch, None
        self._batch_bytes = 0
        if batch and self._transport is not None:
            self._transport.write(batch[0] if len(batch) == 1 else b"".join(batch))

    def _read_or_wait(self) -> None:
        full = self._is_stopped or self._waits_turn or self._unanswered >= MOST_UNANSWERED
        wanted = not (full or self._ended)
        if wanted == self._reading or self.closed:
            return
        assert self._transport is not None
        self._reading = wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def note_buffered(self) -> None:
        """Count the bytes in this connection's buffers, and those that its waiting requests keep."""
        pending = self._decoder.pending + self._kept
        if self._transport is not None:
            pending += self._transport.get_write_buffer_size()
        self._connections.buffered += pending - self._buffered
        self._buffered = pending


def _encoded(command: RemotingCommand) -> bytes:
    try:
        return encode_command(command)
    except ValueError as error:  # for example a body that is too long for a frame
        _LOG.warning("%s does not fit a frame: %s", code_name(command.code), error)
        lost = RemotingCommand(
            ResponseCode.SYSTEM_ERROR, opaque=command.opaque, flag=command.flag, remark=str(error)
        )
        return encode_command(lost)


def _busy(request: RemotingCommand) -> RemotingCommand | None:
    if request.is_oneway:
        return None
    remark = (
        "[OVERLOAD]the broker has too many bytes of requests and responses in memory, try again"
    )
    return request.response(ResponseCode.SYSTEM_BUSY, remark)
