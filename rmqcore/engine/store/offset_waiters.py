"""Callers that wait for the log to be safe up to an offset, on disk or at followers: each has a callback and a last moment."""

from __future__ import annotations

import math
from _thread import allocate_lock
from bisect import insort
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from threading import TIMEOUT_MAX

from rmqcore._native.threads.once import Once
from rmqcore.engine.store import callbacks
from rmqcore.engine.store.callbacks import NoteError
from rmqcore.vocabulary.status import PutMessageStatus

Callback = Callable[[PutMessageStatus], object]
NEVER = math.inf
_Waiter = tuple[int, int, Once, float]
"""Where its message ends, a number of its own, its callback, and its last moment. Two are never equal in the first two."""


class OffsetWaiters:
    """Puts and programs that wait until the log is safe up to an offset. Each callback is called once.

    A callback is called in the thread that has the answer, which holds no lock of the store. A callback that raises keeps no
    other from its answer.

    Parameters
    ----------
    name : str
        The method of a store that adds callbacks here: `note_error` receives it.
    late : PutMessageStatus
        The answer to a callback whose time is over.
    note_error : callable
        Receives the exception of a callback, with `name`.

    Attributes
    ----------
    reached_offset : int
        Log offset up to which the log is known to be safe.
    over : bool
        No thread makes the log safe any more.

    Notes
    -----
    Thread safety: all methods may be called at once, also by a signal handler. Only single steps are made with the list, in which
    the lowest offset comes first: no interrupt halves them, and a callback that is still in it is answered by the next thread
    that looks. So an answer costs the same however many wait behind it.
    """

    def __init__(self, name: str, late: PutMessageStatus, note_error: NoteError) -> None:
        self._name = name
        self._late = late
        self._note_error = note_error
        self._waiting: list[_Waiter] = []
        self._numbers = count()
        self._looked_at = NEVER  # when the thread that watches the time looks next
        self.reached_offset = 0
        self.over = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, end_offset: int, callback: Callback, until: float = NEVER) -> bool:
        """Call `callback` with PUT_OK when the log is safe up to an offset, with the late status at a time of `monotonic`.

        Returns
        -------
        bool
            Whether the thread that watches the time has to look earlier than it was going to.
        """
        self._list(self._made(end_offset, callback, until))
        sooner = until < self._looked_at
        if sooner:
            self._looked_at = until
        return sooner

    def wait(self, end_offset: int, seconds: float, begin: Callable[[], object]) -> bool:
        """Wait in this thread until the log is safe up to an offset, all callers are answered, or the time is over.

        Parameters
        ----------
        end_offset : int
        seconds : float
            0 or less: do not wait.
        begin : callable
            Called once this thread is among those that wait, and before it waits.

        Returns
        -------
        bool
            Whether the log is safe up to there.
        """
        if self.reached_offset >= end_offset:
            return True
        # One lock for each thread that waits, held until it is answered: each wakes up once, and no herd waits at a condition.
        waiter = allocate_lock()
        waiter.acquire()
        made = self._made(end_offset, lambda _: waiter.release(), NEVER)
        try:
            self._list(made)
            begin()
            waiter.acquire(timeout=min(max(seconds, 0), TIMEOUT_MAX))
        finally:
            self._strike(made)
        return self.reached_offset >= end_offset

    def reached(self, phy_offset: int) -> None:
        """Note that the log is safe up to an offset."""
        self.reached_offset = max(self.reached_offset, phy_offset)

    def answer(self) -> None:
        """Call back all whose messages are safe."""
        reached_offset = self.reached_offset
        while (first := self._waiting[:1]) and first[0][0] <= reached_offset:
            self._tell(first[0], PutMessageStatus.PUT_OK)

    def expire(self, now: float) -> float:
        """Call back all whose time is over at `now`; returns the time of the next one.

        A callback whose messages are safe by then is answered with PUT_OK, however late this thread looks.
        """
        self._looked_at = (
            NEVER  # before the look: a callback that is added during it asks for another one
        )
        coming = NEVER
        for waiter in list(self._waiting):
            end_offset, _, _, until = waiter
            if until <= now:
                safe = end_offset <= self.reached_offset
                self._tell(waiter, PutMessageStatus.PUT_OK if safe else self._late)
            else:
                coming = min(coming, until)
        self._looked_at = min(coming, self._looked_at)
        return coming

    def end(self) -> None:
        """Call back all, those whose messages are safe with PUT_OK, the others with UNKNOWN_ERROR, and all later ones at once."""
        self.over = True
        self.answer()
        for waiter in list(self._waiting):
            self._tell(waiter, PutMessageStatus.UNKNOWN_ERROR)

    def forget(self) -> None:
        """Drop all waiters without calling them: in a forked child the parent calls them."""
        self.over = True
        self._waiting.clear()

    def _made(self, end_offset: int, callback: Callback, until: float) -> _Waiter:
        return end_offset, next(self._numbers), Once(callback), until

    def _list(self, waiter: _Waiter) -> None:
        insort(self._waiting, waiter)
        if self.over:  # after it is listed: `end` answers all that came before it
            self.end()

    def _tell(self, waiter: _Waiter, status: PutMessageStatus) -> None:
        """Call one back, unless it was called, and strike it off the list; in this order, so that no interrupt loses it."""
        callbacks.call(self._note_error, self._name, waiter[2], status)
        self._strike(waiter)

    def _strike(self, waiter: _Waiter) -> None:
        with suppress(ValueError):  # another thread has struck it off
            self._waiting.remove(waiter)
