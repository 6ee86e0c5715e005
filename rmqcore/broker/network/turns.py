"""Whose requests are answered next where more have come than the loop answers at once.

A connection is answered for `SLICE_S` at a time. Connections with requests left wait here, and the one that has used the least of
the loop's time comes first (start-time fair queueing). After `TURN_S` the loop looks at its sockets again. A request of a quiet
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
NOT_CHARGED_S = 20e-6
"""A read that takes less is not noted: one plain send."""


class Served(Protocol):
    """A connection, as `Turns` sees it. `used_s` is its virtual time: `Turns` alone changes it."""

    used_s: float

    def take_turn(self) -> object:
        """Answer requests for one slice, and wait for another turn where requests are left."""
        ...


class Turns:
    """The connections of one port that wait for their turn. Used by the loop's thread only.

    Parameters
    ----------
    call_soon : callable, optional
        As that of the event loop, which is the default.
    clock : callable
        Seconds, monotonic.

    Attributes
    ----------
    are_over : bool
        The loop has to look at its sockets before more requests are answered.
    """

    def __init__(
        self,
        call_soon: Callable[[Callable[[], object]], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._call_soon = call_soon
        self.clock = clock
        self._waiting: list[tuple[float, int, Served]] = []
        self._numbers = count()
        self._virtual_s = 0.0
        self._spent_s = 0.0
        self.are_over = False
        self._asked = False

    def __len__(self) -> int:
        return len(self._waiting)

    def charge(self, connection: Served, seconds: float) -> None:
        """Note for how long a connection was answered."""
        self._spent_s += seconds
        connection.used_s = max(connection.used_s, self._virtual_s) + seconds
        if self._spent_s >= TURN_S:  # it may be of several turns: the next one begins at zero
            self.are_over = True
            self._ask()

    def wait(self, connection: Served) -> None:
        """Call `take_turn` of a connection when its turn comes. It must not wait already."""
        due_s = max(connection.used_s, self._virtual_s)
        heapq.heappush(self._waiting, (due_s, next(self._numbers), connection))
        self._ask()

    def _begin(self) -> None:
        self._spent_s = 0.0
        self.are_over = False

    def _ask(self) -> None:
        if not self._asked:
            self._asked = True
            (self._call_soon or asyncio.get_running_loop().call_soon)(self._serve)

    def _serve(self) -> None:
        """Run the waiting connections, one slice each, as long as this turn lasts."""
        self._asked = False
        self._begin()
        most = len(self._waiting)  # one that costs no time must not come twice in a turn
        try:
            while self._waiting and most and not self.are_over:
                most -= 1
                self._virtual_s, _, connection = heapq.heappop(self._waiting)
                connection.take_turn()
        finally:  # the loop logs what one of them raises; the others wait still
            self._begin()
            if self._waiting:
                self._ask()
