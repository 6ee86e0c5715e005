"""The HA port of a master: one connection for each slave, over which the master sends the log as it grows.

Source: RocketMQ 5.5.0 DefaultHAService, DefaultHAConnection.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import cast

import numpy as np

from rmqcore.broker.broker import Broker
from rmqcore.broker.network.name_server_link import host_port
from rmqcore.broker.state.replication import ByteRate, SlaveInfo
from rmqcore.engine.store.put_waits import MASTER_ALONE, replicas_needed
from rmqcore.errors import StoreError
from rmqcore.ha.master import Follower, Pace, held_by

LOOK_MS = 1_000
"""Milliseconds between two looks for silent slaves and heartbeats that are due."""
BUSY_S, IDLE_S = 0.001, 0.02
"""Least and most seconds between two looks at the end of the log, while slaves are connected: it grows by threads that tell
nobody. Each look at a log that rests doubles them."""
MOST_UNSENT = 1 << 20
"""Bytes in the buffer of a connection, above which nothing is added until the slave takes some."""
MOST_FRAMES = 32
"""Frames that one slave is sent before the loop serves others."""
READ_IN_BYTES = 1 << 20
"""Bytes that one piece of work of a reader brings into memory."""
IN_MEMORY_BYTES = 16 << 20
"""Bytes before the end of the log that are taken as being in memory if this process has appended them."""
_TOUCH = 64
"""One byte of so many is read to bring a page in: NumPy lets go of the GIL for 500 and more, which the least batch has not."""
_LOG = logging.getLogger("rmqcore.broker")
Clock = Callable[[], float]


class HaMaster:
    """The slaves of a broker. Its methods are called by the loop's thread only.

    Parameters
    ----------
    broker : Broker
    may_connect : callable
        Receives a peer's host, and returns whether the peer may stay.
    max_connections : int
    on_held : callable, optional
        Receives the CommitLog offset up to which `inSyncReplicas` replicas hold the log, when it grows.
    clock : callable
        Seconds, monotonic.

    Attributes
    ----------
    open : set of SlaveConnection
    on_held : callable or None
    """

    def __init__(
        self,
        broker: Broker,
        may_connect: Callable[[str], bool],
        max_connections: int,
        on_held: Callable[[int], object] | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self.broker = broker
        self.may_connect = may_connect
        self.max_connections = max_connections
        self.clock = clock
        self.open: set[SlaveConnection] = set()
        self._gone: set[str] = set()  # hosts of slaves that followed
        self.pace = Pace(_bytes_per_second(broker), clock())
        self.started_end = broker.store.max_phy_offset
        self.on_held = on_held
        self._replicas = replicas_needed(broker.store.config)
        self._held = -1
        self._end = -1
        self._timer: asyncio.TimerHandle | None = None
        self._delay_s = BUSY_S
        self._sends_soon = False  # `_send_now` is on its way
        broker.every(LOOK_MS, self._look)

    def __call__(self) -> SlaveConnection:
        """Return the protocol of a new connection."""
        return SlaveConnection(self)

    def connected(self, one: SlaveConnection) -> None:
        """Count a connection."""
        self.open.add(one)
        if self._timer is None:
            self._set_timer(BUSY_S)

    def lost(self, one: SlaveConnection) -> None:
        """Forget a connection."""
        self.open.discard(one)
        if not self.open and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def gone(self, follower: Follower, why: str) -> None:
        """Log that a slave is gone: each time if it followed, else once for its host, which keeps trying."""
        if follower.follows:
            self._gone.add(follower.host)
            _LOG.warning("slave %s disconnected at %d: %s", follower.peer, follower.ack, why)
            return
        self.broker.said_once.warn(
            self.broker.now_ms(),
            ("ha gone", follower.host),
            "slave %s requested the log from %d and disconnected without accepting it (%s): see "
            "the slave's own log; its CommitLog may differ from the master's",
            follower.peer,
            follower.asked_from,
            why,
        )

    def followed(self, follower: Follower) -> None:
        """Log that a slave follows again, if an earlier one of its host is gone."""
        if follower.host in self._gone:
            self._gone.discard(follower.host)
            text = "slave %s has reconnected: it has the log up to %d of %d"
            _LOG.warning(text, follower.peer, follower.ack, self.broker.store.confirm_offset)

    # ---- the log grows

    def requests_answered(self) -> None:
        """Check whether requests have appended messages; called after the requests of one read of a connection.

        One frame carries the messages of many requests: a frame for each would cost a master as much as the messages.
        If sends wait for a slave, the frame is sent when the loop has read all connections with new bytes, else at the
        timer's next tick.
        """
        if self._sends_soon or not self.open:
            return
        store = self.broker.store
        if store.max_phy_offset == self._end:
            return
        if (
            self._replicas > MASTER_ALONE
            and store.confirm_offset != self._end  # else the flush has already begun
        ):
            self._sends_soon = True
            asyncio.get_running_loop().call_soon(self._send_now)
        if self._delay_s > BUSY_S:
            self._set_timer(BUSY_S)

    def _send_now(self) -> None:
        self._sends_soon = False
        self._grown()

    def _grown(self) -> bool:
        """Send new bytes of the log; return whether there were any, or some are still being written to disk."""
        store = self.broker.store
        end = store.confirm_offset
        if end == self._end:
            return store.max_phy_offset != end
        self._end = end
        for one in list(self.open):
            one.send_more()
        return True

    def _set_timer(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._delay_s = seconds
        self._timer = asyncio.get_running_loop().call_later(seconds, self._tick)

    def _tick(self) -> None:
        self._set_timer(BUSY_S if self._grown() else min(2 * self._delay_s, IDLE_S))

    # ---- reports of slaves

    def reported(self) -> None:
        """Inform the waiting puts that replicas hold more of the log now."""
        if self.on_held is None or self._replicas == MASTER_ALONE:
            return
        held = held_by([one.follower for one in self.open], self._replicas)
        if held > self._held:
            self._held = held
            self.on_held(held)

    def slaves(self) -> list[SlaveInfo]:
        """Describe the slaves that are connected."""
        end, now = self.broker.store.confirm_offset, self.clock()
        return [one.info(end, now) for one in self.open]

    def all_hold(self) -> bool:
        """Return whether every slave that has reported holds all of the log."""
        end = self.broker.store.confirm_offset
        return all(one.follower.ack < 0 or one.follower.ack >= end for one in self.open)

    # ---- the clock

    def _look(self) -> None:
        now = self.clock()
        for one in list(self.open):
            one.look(now)

    def close(self) -> None:
        """Close all connections at once."""
        for one in list(self.open):
            one.abort()


class SlaveConnection(asyncio.Protocol):
    """The connection of one slave. Used by the loop's thread only.

    Attributes
    ----------
    follower : Follower
    """

    follower: Follower

    def __init__(self, master: HaMaster) -> None:
        self._master = master
        self._store = master.broker.store
        self._transport: asyncio.Transport | None = None
        self._paused = False
        self._waits = False  # for a reader, a timer or the loop, which will continue it
        self._read_in_to = -1
        self._is_ended = False  # from here
        self._in_sync = True

    # ---- asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection, or close it if there are too many or the peer may not connect."""
        # uvloop's transport is a class of its own, not an asyncio.Transport.
        transport = cast("asyncio.Transport", transport)
        master = self._master
        peername = transport.get_extra_info("peername")
        if peername is None:  # the peer is gone already
            transport.abort()
            return
        host = peername[0].partition("%")[0]
        peer = host_port(host, peername[1])
        if not master.may_connect(host):
            _LOG.warning("%s is not allowed to connect to the HA port: see --allow", peer)
            transport.abort()
            return
        if len(master.open) >= master.max_connections:
            most = master.max_connections
            _LOG.warning(
                "%s was refused at the HA port: the limit of %d connections is reached", peer, most
            )
            transport.abort()
            return
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.set_write_buffer_limits(high=MOST_UNSENT)
        now = master.clock()
        self.follower = Follower(self._store, peer, now)
        self._rate = ByteRate(now)
        self._transport = transport
        master.connected(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the slave."""
        if self._transport is None:
            return
        self._transport = None
        self._master.lost(self)
        if self.follower.ack >= 0 and not self._is_ended:
            self._master.gone(self.follower, str(exc or "the connection was closed"))

    def data_received(self, data: bytes) -> None:
        """Receive reports, and send the bytes that the slave lacks."""
        if self._transport is None or self._transport.is_closing():
            return
        follower = self.follower
        is_first = follower.ack < 0
        try:
            has_reported = follower.data_received(data, self._master.clock())
        except StoreError as error:
            self._end(error)
            return
        if not has_reported:
            return
        if is_first:
            text = "slave %s has the log up to %d; sending from %d"
            _LOG.info(text, follower.peer, follower.ack, follower.sent_to)
        if follower.follows:
            self._master.followed(follower)
        self._master.reported()
        self.send_more()

    def pause_writing(self) -> None:
        """Stop sending: the slave does not take the bytes."""
        self._paused = True

    def resume_writing(self) -> None:
        """Continue to send."""
        self._paused = False
        self.send_more()

    # ---- sending

    def send_more(self) -> None:
        """Send the bytes that the slave lacks, until it takes no more or the loop must serve others."""
        if self._paused or self._waits or self._transport is None or self._transport.is_closing():
            return
        try:
            self._send(self._transport, self.follower)
        except (StoreError, ValueError) as error:
            self._end(error)

    def _send(self, transport: asyncio.Transport, follower: Follower) -> None:
        """Write the frames that fit in the buffer, and ask for another turn if the slave lacks more."""
        frames: list[bytes | memoryview] = []
        then = self._gather(frames, follower, MOST_UNSENT - self.unsent)
        if frames:
            transport.writelines(frames)
        if then is not None:
            then()
        elif follower.lacks and not self._paused:
            self._go_on_after(0)

    def _gather(
        self, frames: list[bytes | memoryview], follower: Follower, most_bytes: int
    ) -> Callable[[], object] | None:
        """Add frames of about `most_bytes` bytes; return the step that comes before further ones, or None."""
        master, store = self._master, self._store
        now, most = master.clock(), follower.sent_to + most_bytes
        while follower.lacks and follower.sent_to < most and len(frames) < 2 * MOST_FRAMES:
            if follower.sent_to < store.min_phy_offset:
                follower.next_body()  # raises if the file is deleted
            wait_s = master.pace.wait(now)
            if wait_s > 0:
                return partial(self._go_on_after, wait_s)
            if not self._is_in_memory(follower.sent_to):
                return partial(self._read_in, follower.sent_to)
            body = follower.next_body()
            frames += (follower.frame(body, now), body)
            master.pace.sent(len(body))
        return None

    def _go_on_after(self, seconds: float) -> None:
        self._waits = True
        asyncio.get_running_loop().call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        self._waits = False
        self.send_more()

    # ---- bytes that lie on disk only

    def _is_in_memory(self, phy_offset: int) -> bool:
        """Return whether the batch at an offset can be read without a wait, as far as is known."""
        near = max(self._master.started_end, self._store.max_phy_offset - IN_MEMORY_BYTES)
        return phy_offset >= near or phy_offset < self._read_in_to

    def _read_in(self, phy_offset: int) -> None:
        """Let a reader thread wait for the disk, then continue to send."""
        self._waits = True
        self._master.broker.readers.run(
            lambda: _touch(self._store.read_range(phy_offset, READ_IN_BYTES)), self._is_read_in
        )

    def _is_read_in(self, done: Future[int]) -> None:
        error = done.exception()
        if error is None:
            self._read_in_to = self.follower.sent_to + done.result()
        elif self.follower.sent_to >= self._store.min_phy_offset:
            self._end(error)
            return
        self._go_on()  # a deleted file is found there

    # ---- the rest

    def look(self, now: float) -> None:
        """Close the connection of a silent slave, or send a heartbeat if one is due."""
        if self._transport is None:
            return
        follower = self.follower
        self._rate.look(follower.sent_bytes, now)
        self._note_sync()
        if follower.is_silent(now):
            _LOG.warning(
                "slave %s has been silent for too long: closing its connection", follower.peer
            )
            self.abort()
            return
        if not (self._paused or self._transport.is_closing()) and not follower.lacks:
            beat = follower.heartbeat(now)
            if beat:
                self._transport.write(beat)

    def _note_sync(self) -> None:
        """Log that the slave has fallen too far behind, or that it has caught up again."""
        follower = self.follower
        in_sync = follower.ack < 0 or follower.is_in_sync(self._store.confirm_offset)
        if in_sync != self._in_sync:
            self._in_sync = in_sync
            text = "slave %s is %s: it has the log up to %d of %d"
            how = "in sync again" if in_sync else "no longer in sync"
            _LOG.warning(text, follower.peer, how, follower.ack, self._store.confirm_offset)

    @property
    def unsent(self) -> int:
        """Bytes that wait for the slave to take them."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def info(self, end: int, now: float) -> SlaveInfo:
        """Describe the slave."""
        follower = self.follower
        lag_bytes = max(0, end - max(follower.ack, 0))
        return SlaveInfo(
            peer=follower.peer,
            ack=follower.ack,
            sent_to=follower.sent_to,
            lag_bytes=lag_bytes,
            lag_s=now - follower.caught_up_at if lag_bytes else 0.0,
            bytes_per_second=self._rate.rate,
            in_sync=follower.is_in_sync(end),
        )

    def abort(self) -> None:
        """Close the connection at once."""
        self._is_ended = True
        if self._transport is not None:
            self._transport.abort()

    def _end(self, error: BaseException) -> None:
        """Close the connection of a slave that cannot continue; log one line for each host and kind of error."""
        broker, peer, host = self._master.broker, self.follower.peer, self.follower.host
        hint = getattr(error, "hint", None)
        broker.said_once.warn(
            broker.now_ms(),
            ("ha", host, type(error)),
            "slave %s: %s; the connection is closed%s",
            peer,
            str(error),
            f" ({hint})" if hint else "",
        )
        self.abort()


def _touch(data: memoryview) -> int:
    """Read bytes so that memory holds them, which may wait for the disk; return how many."""
    if data:
        np.frombuffer(data, np.uint8)[::_TOUCH].max()
    return len(data)


def _bytes_per_second(broker: Broker) -> int | None:
    """Return the bytes per second that `haFlowControlEnable` and `maxHaTransferByteInSecond` allow; None: no limit."""
    settings = broker.settings
    return settings.max_ha_transfer_byte_in_second if settings.ha_flow_control_enable else None
