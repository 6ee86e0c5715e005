"""Who waits for the disk: an offset of the log, a callback, and the time after which the callback gets no answer but that."""

from __future__ import annotations

import math
from collections.abc import Callable

from rmqcore._native.threads.once import Once
from rmqcore.engine.store import callbacks
from rmqcore.engine.store.callbacks import NoteError
from rmqcore.status import PutMessageStatus

Callback = Callable[[PutMessageStatus], object]
NEVER = math.inf


class FlushWaiters:
    """Puts and programs that wait until the log is on disk up to an offset. Each callback is called once.

    It is called in the thread that has the answer, which holds no lock of the store. A callback that raises keeps no other from
    its answer.

    Parameters
    ----------
    note_error : callable
        Told the exception of a callback, with the name of who met it.

    Attributes
    ----------
    flushed : int
        Log offset up to which it is known here that the log is on disk.
    over : bool
        Nobody flushes any more.

    Notes
    -----
    Thread safety: all methods may be called at once, also by a signal handler. Only single steps are made with the list: no
    interrupt halves them, and whoever is still in it is answered by the next thread that looks.
    """

    def __init__(self, note_error: NoteError) -> None:
        self._note_error = note_error
        self._waiting: dict[Once, tuple[int, float]] = {}
        self._looked_at = NEVER  # when the thread that watches the time looks next
        self.flushed = 0
        self.over = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, end_offset: int, callback: Callback, until: float = NEVER) -> bool:
        """Call `callback` with PUT_OK when the log is on disk up to an offset, with FLUSH_DISK_TIMEOUT at a time of `monotonic`.

        Answers whether whoever watches the time has to look earlier than it was going to.
        """
        self._waiting[Once(callback)] = end_offset, until
        if self.over:  # after it is listed: `end` answers whoever came before it
            self.end()
        sooner = until < self._looked_at
        if sooner:
            self._looked_at = until
        return sooner

    def reached(self, flushed: int) -> None:
        """Note that the log is on disk up to an offset."""
        self.flushed = max(self.flushed, flushed)

    def answer(self) -> None:
        """Answer all whose messages are on disk."""
        flushed = self.flushed
        for once, (end_offset, _) in list(self._waiting.items()):
            if end_offset <= flushed:
                self._tell(once, PutMessageStatus.PUT_OK)

    def expire(self, now: float) -> float:
        """Answer all whose time is over at `now`; give the time at which the next one's will be."""
        self._looked_at = NEVER  # before the look: who comes during it asks for another one
        coming = NEVER
        for once, (_, until) in list(self._waiting.items()):
            if until <= now:
                self._tell(once, PutMessageStatus.FLUSH_DISK_TIMEOUT)
            else:
                coming = min(coming, until)
        self._looked_at = min(coming, self._looked_at)
        return coming

    def end(self) -> None:
        """Answer all: with PUT_OK whose messages are on disk, the others with UNKNOWN_ERROR. Nobody flushes any more."""
        self.over = True
        self.answer()
        for once in list(self._waiting):
            self._tell(once, PutMessageStatus.UNKNOWN_ERROR)

    def forget(self) -> None:
        """Let go of all without an answer: in a forked child the parent answers them."""
        self.over = True
        self._waiting.clear()

    def _tell(self, once: Once, status: PutMessageStatus) -> None:
        """Give one its answer, unless it has one, and strike it off the list; in this order, so that no interrupt loses it."""
        callbacks.call(self._note_error, "on_flushed", once, status)
        self._waiting.pop(once, None)
