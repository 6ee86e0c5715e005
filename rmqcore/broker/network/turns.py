"""The order in which connections are answered while more requests wait than the loop answers at once.

A connection is answered for `SLICE_S` at a time. Connections with requests left wait here. The next one is the one that
will have used the least of the loop's time after its slice (fair queueing by finish times): of 300 that have just
connected, the one with a single short request. After `TURN_S` the loop polls its sockets again. A request of a quiet
connection therefore waits for two turns at most, however many neighbours send without a pause.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable
from itertools import count
from typing import Protocol

SLICE_S = 0.001
"""Seconds for which one connection is answered without a pause."""
TURN_S = 0.005
"""Seconds for which requests are answered before the loop looks at its sockets again."""
SLICE_BYTES = 32 << 10
"""Bytes of requests that are expected to fill a slice; those of sends take less time, those of pulls more."""
NOT_CHARGED_S = 20e-6
"""A read that takes less is not noted: one plain send."""


class Served(Protocol):
    """A connection, as `Turns` sees it. `used_s` is its virtual time: `Turns` alone changes it."""

    used_s: float

    def take_turn(self) -> object:
        """Answer requests for one slice, and wait for another turn if requests are left."""
        ...


class Turns:
    """The connections of one port that wait for their turn. Used by the loop's thread only.

    Parameters
    ----------
    call_soon : callable, optional
        That of the event loop by default.
    clock : callable
        Seconds, monotonic.
    cpu_clock : callable
        Seconds of CPU time of the loop's thread, which leave out waits for threads that hold the GIL.

    Attributes
    ----------
    are_over : bool
        The loop has to poll its sockets before more requests are answered.
    """

    def __init__(
        self,
        call_soon: Callable[[Callable[[], object]], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._call_soon = call_soon
        self.clock = clock
        self.cpu_clock = cpu_clock
        self._waiting: list[tuple[float, int, float, Served]] = []
        self._numbers = count()
        self._virtual_s = 0.0
        self._spent_s = 0.0
        self.are_over = False
        self._asked = False

    def __len__(self) -> int:
        return len(self._waiting)

    def charge(self, connection: Served, seconds: float, used_s: float | None = None) -> None:
        """Charge a connection for the time in which it was answered.

        Parameters
        ----------
        connection : Served
        seconds : float
            Seconds of the turn that have passed.
        used_s : float, optional
            Seconds that the connection itself used, without waits for other threads; `seconds` by default.
        """
        self._spent_s += seconds
        used_s = seconds if used_s is None else min(seconds, used_s)
        connection.used_s = max(connection.used_s, self._virtual_s) + used_s
        if self._spent_s >= TURN_S:  # may be several turns: the next one begins at zero
            self.are_over = True
            self._ask()

    def wait(self, connection: Served, pending: int) -> None:
        """Call `take_turn` of a connection when its turn comes. The connection must not wait already.

        Parameters
        ----------
        connection : Served
        pending : int
            Bytes that wait to be answered, from which the length of its slice is estimated.
        """
        start_s = max(connection.used_s, self._virtual_s)
        finish_s = start_s + SLICE_S * min(pending, SLICE_BYTES) / SLICE_BYTES
        heapq.heappush(self._waiting, (finish_s, next(self._numbers), start_s, connection))
        self._ask()

    def _begin(self) -> None:
        self._spent_s = 0.0
        self.are_over = False

    def _ask(self) -> None:
        if not self._asked:
            self._asked = True
            (self._call_soon or asyncio.get_running_loop().call_soon)(self._serve)

    def _serve(self) -> None:
        """Answer the waiting connections, one slice each, as long as this turn lasts."""
        self._asked = False
        self._begin()
        most = len(self._waiting)  # a connection that costs no time must not come twice in a turn
        try:
            while self._waiting and most and not self.are_over:
                most -= 1
                _, _, start_s, connection = heapq.heappop(self._waiting)
                self._virtual_s = max(self._virtual_s, start_s)
                connection.take_turn()
        finally:  # the loop logs an error of one of them; the others still wait
            self._begin()
            if self._waiting:
                self._ask()
