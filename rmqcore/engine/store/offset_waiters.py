"""Callers that wait until the log is safe up to an offset, on disk or at followers, each with callback and timeout."""

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
"""End of its message, a unique number, its callback, and the time of its timeout. The first two differ for any two."""


class OffsetWaiters:
    """Puts and programs that wait until the log is safe up to an offset. Each callback is called once.

    The thread that has the answer calls the callback, and holds no lock of the store. After a callback that raises, the
    others still get their answers.

    Parameters
    ----------
    name : str
        Name of the store's method that adds callbacks: `note_error` receives it.
    late : PutMessageStatus
        The answer to a callback whose timeout has passed.
    note_error : callable
        Receives the exception of a callback, with `name`.

    Attributes
    ----------
    reached_offset : int
        Log offset up to which the log is known to be safe.
    over : bool
        True if no thread makes the log safe any more.

    Notes
    -----
    Thread safety: all methods may run at the same time, also in a signal handler. Each change of the list, which is
    sorted by offset, is a single step that no interrupt can split; the next thread that looks answers a callback that
    is still listed. The cost of an answer does not depend on the number of later callbacks.
    """

    def __init__(self, name: str, late: PutMessageStatus, note_error: NoteError) -> None:
        self._name = name
        self._late = late
        self._note_error = note_error
        self._waiting: list[_Waiter] = []
        self._numbers = count()
        self._looked_at = NEVER  # time of the next look of the thread that watches timeouts
        self.reached_offset = 0
        self.over = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, end_offset: int, callback: Callback, until: float = NEVER) -> bool:
        """Call `callback` with PUT_OK when the log is safe up to an offset, or with `late` at a time of `monotonic`.

        Returns
        -------
        bool
            True if the thread that watches timeouts must look earlier than planned.
        """
        self._list(self._made(end_offset, callback, until))
        sooner = until < self._looked_at
        if sooner:
            self._looked_at = until
        return sooner

    def wait(self, end_offset: int, seconds: float, begin: Callable[[], object]) -> bool:
        """Wait in this thread until the log is safe up to an offset, all callers are answered, or the timeout passes.

        Parameters
        ----------
        end_offset : int
        seconds : float
            0 or less: do not wait.
        begin : callable
            Called once, after this thread is listed and before it waits.

        Returns
        -------
        bool
            True if the log is safe up to that offset.
        """
        if self.reached_offset >= end_offset:
            return True
        # One lock for each waiting thread, held until its answer: each thread wakes up once, instead of all at a
        # condition.
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
        """Call the callbacks whose messages are safe."""
        reached_offset = self.reached_offset
        while (first := self._waiting[:1]) and first[0][0] <= reached_offset:
            self._tell(first[0], PutMessageStatus.PUT_OK)

    def expire(self, now: float) -> float:
        """Call the callbacks whose timeout has passed at `now`; return the time of the next timeout.

        A callback whose messages are safe receives PUT_OK, even if this thread looks late.
        """
        self._looked_at = (
            NEVER  # before the look: a callback added during the look requires another one
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
        """Call all callbacks, with PUT_OK if their messages are safe, else UNKNOWN_ERROR; later ones when added."""
        self.over = True
        self.answer()
        for waiter in list(self._waiting):
            self._tell(waiter, PutMessageStatus.UNKNOWN_ERROR)

    def forget(self) -> None:
        """Drop all waiters without calling them: in a forked child, since the parent calls them."""
        self.over = True
        self._waiting.clear()

    def _made(self, end_offset: int, callback: Callback, until: float) -> _Waiter:
        return end_offset, next(self._numbers), Once(callback), until

    def _list(self, waiter: _Waiter) -> None:
        insort(self._waiting, waiter)
        if self.over:  # after it is listed: `end` answers those listed before
            self.end()

    def _tell(self, waiter: _Waiter, status: PutMessageStatus) -> None:
        """Call a callback, unless it was called, then remove it from the list: in this order no interrupt loses it."""
        callbacks.call(self._note_error, self._name, waiter[2], status)
        self._strike(waiter)

    def _strike(self, waiter: _Waiter) -> None:
        with suppress(ValueError):  # another thread has removed it
            self._waiting.remove(waiter)
