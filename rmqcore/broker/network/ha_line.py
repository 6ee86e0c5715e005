"""A connection to the HA port of a master, read by a thread of its own, to follow the log or to compare it."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

CONNECT_TIMEOUT_S = 5.0
LOOK_S = 0.2
"""Seconds between two looks at the clock while nothing comes."""
READ_BYTES = 1 << 20
_BELL_BYTES = 4096


class Side(Protocol):
    """The reader of the bytes: `ha.slave.Slave` or `ha.slave.Question`."""

    def first_report(self) -> bytes:
        """Return the report that names the first byte wanted."""
        ...

    def data_received(self, data: memoryview, now: float) -> None:
        """Read what the master sends."""
        ...

    def report(self, now: float) -> bytes:
        """Return the report that is due; empty bytes if none is due."""
        ...

    def is_silent(self, now: float) -> bool:
        """Return True if the master has sent nothing for too long."""
        ...


@dataclass(slots=True)
class LineCounts:
    """Bytes and times of a line and of the lines before it. The thread writes them, and any thread reads them.

    Attributes
    ----------
    received_bytes : int
        Includes headers and heartbeats, as in Java.
    last_read_ms, last_write_ms : int
        0 before the first read or write.
    """

    received_bytes: int = 0
    last_read_ms: int = 0
    last_write_ms: int = 0


class HaLine:
    """One connection. Any thread may call `end` and `ring`; only the thread that reads calls the other methods.

    Parameters
    ----------
    place : tuple of str and int
    now_ms : callable
        The clock of `counts`.
    counts : LineCounts

    Attributes
    ----------
    is_connected : bool
    """

    def __init__(
        self, place: tuple[str, int], now_ms: Callable[[], int], counts: LineCounts
    ) -> None:
        self._place = place
        self._now_ms = now_ms
        self._counts = counts
        self._bell, self._rope = socket.socketpair()
        self._ended = False
        self.is_connected = False

    def end(self) -> None:
        """End the connection; may be repeated."""
        self._ended = True
        self.ring()

    def ring(self) -> None:
        """Wake the thread, which sends a report if one is due. After the end of the thread this has no effect."""
        with suppress(OSError):
            self._rope.send(b"!", socket.MSG_DONTWAIT)

    def close(self) -> None:
        """Close the sockets of `ring`; `steps` has closed the connection already."""
        self._bell.close()
        self._rope.close()

    def steps(self, side: Side) -> Iterator[None]:
        """Connect, and let `side` read and report until `end`; yield after each read, and regularly while none is due.

        Raises
        ------
        OSError
            The connection fails or is lost, or the master is silent.
        StoreError, ValueError
            As for `side.data_received`.
        """
        try:
            with socket.create_connection(self._place, CONNECT_TIMEOUT_S) as line:
                line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                # Non-blocking: with a timeout Python polls before each call of its own.
                line.setblocking(False)
                self.is_connected = True
                yield from self._steps(line, side)
        finally:
            self.is_connected = False

    def _steps(self, line: socket.socket, side: Side) -> Iterator[None]:
        self._send(line, side.first_report())
        poller = select.poll()
        poller.register(line, select.POLLIN)
        poller.register(self._bell, select.POLLIN)
        number = line.fileno()
        buffer = memoryview(bytearray(READ_BYTES))
        while not self._ended:
            for ready, _ in poller.poll(LOOK_S * 1000):
                if ready == number:
                    self._read(line, side, buffer)
                else:
                    self._bell.recv(_BELL_BYTES)
            yield
            now = time.monotonic()
            if side.is_silent(now):
                raise ConnectionError("the master has sent nothing for haHousekeepingInterval")
            if report := side.report(now):
                self._send(line, report)

    def _read(self, line: socket.socket, side: Side, buffer: memoryview) -> None:
        try:
            count = line.recv_into(buffer)
        except BlockingIOError:  # the segment had a wrong checksum
            return
        if not count:
            raise ConnectionError("the master closed the connection")
        self._counts.last_read_ms = self._now_ms()
        self._counts.received_bytes += count
        side.data_received(buffer[:count], time.monotonic())

    def _send(self, line: socket.socket, report: bytes) -> None:
        while report:
            try:
                report = report[line.send(report) :]
            except BlockingIOError:  # the send buffer is full: the master does not read
                poller = select.poll()
                poller.register(line, select.POLLOUT)
                if not poller.poll(CONNECT_TIMEOUT_S * 1000):
                    raise ConnectionError("the master does not take a report") from None
        self._counts.last_write_ms = self._now_ms()
