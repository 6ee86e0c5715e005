"""Work that may wait for a disk, away from the loop's thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from rmqcore.broker.channel import Loop
from rmqcore.broker.long_work import uncollected

MOST_WAITING = 64
"""Pieces of work that may wait; more are refused, so that no client fills the memory with them."""
_T = TypeVar("_T")


class WorkerBusyError(ValueError):
    """Too much work waits already."""


class Worker:
    """Some threads, of which each does one piece of work after the other. Its methods are called by the loop's thread only.

    Parameters
    ----------
    loop : Loop
    name : str
        Of the threads.
    threads : int
    most_waiting : int or None
        How much work may wait; None: whoever asks has a bound already.
    makes_objects : bool
        The work makes and drops many objects: the garbage collector rests while it is done (`uncollected`).
    """

    def __init__(
        self,
        loop: Loop,
        name: str = "rmqcore-admin",
        *,
        threads: int = 1,
        most_waiting: int | None = MOST_WAITING,
        makes_objects: bool = False,
    ) -> None:
        self._loop = loop
        self._makes_objects = makes_objects
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._most_waiting = most_waiting
        self._waiting = 0
        self._closed = False

    @property
    def waiting(self) -> int:
        """How much work waits or is being done."""
        return self._waiting

    def run(self, work: Callable[[], _T], then: Callable[[Future[_T]], object]) -> None:
        """Do `work`, and call `then` with what became of it, later, in the loop's thread.

        Raises
        ------
        WorkerBusyError
            Too much work waits already.
        """
        if self._most_waiting is not None and self._waiting >= self._most_waiting:
            raise WorkerBusyError(f"{self._most_waiting} requests are already waiting for the disk")
        self._waiting += 1
        done = (
            self._threads.submit(_uncollected, work)
            if self._makes_objects
            else self._threads.submit(work)
        )
        done.add_done_callback(
            lambda ended: self._loop.call_soon_threadsafe(partial(self._done, ended, then))
        )

    def _done(self, ended: Future[_T], then: Callable[[Future[_T]], object]) -> None:
        self._waiting -= 1
        if not (self._closed or ended.cancelled()):
            then(ended)

    def close(self) -> None:
        """Wait for the work that was begun, and tell nobody of it; what waits is not done any more. May be repeated."""
        self._closed = True
        self._threads.shutdown(wait=True, cancel_futures=True)


def _uncollected(work: Callable[[], _T]) -> _T:
    with uncollected():
        return work()
