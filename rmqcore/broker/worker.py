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
MOST_WAITING_BYTES = 64 << 20
"""Bytes that the bodies of work may keep while it waits, where a caller says how long its body is; more are refused."""
_T = TypeVar("_T")


class WorkerBusyError(ValueError):
    """Too much work waits already."""


class Worker:
    """Threads that each do one piece of work after the other. Its methods are called by the loop's thread only.

    Parameters
    ----------
    loop : Loop
    name : str
        Name of the threads.
    threads : int
    most_waiting : int or None
        Most pieces of work that may wait; None if the callers have a bound of their own.
    makes_objects : bool
        The work creates and drops many objects: the garbage collector is off while it runs (`uncollected`).
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
        self._waiting_bodies = self._waiting_bytes = 0
        self._closed = False

    @property
    def waiting(self) -> int:
        """Return how many pieces of work wait or run."""
        return self._waiting

    def run(
        self,
        work: Callable[[], _T],
        then: Callable[[Future[_T]], object],
        *,
        body_bytes: int = 0,
    ) -> None:
        """Do `work` in a thread, and later call `then` with its future in the loop's thread.

        Parameters
        ----------
        work, then : callable
        body_bytes : int
            Length of the body that waits with the work, whose connection is not read until then. The bound applies to
            the bytes of all bodies, not to their number: a refused client would send its body again at once.

        Raises
        ------
        WorkerBusyError
            Too much work waits already.
        """
        if body_bytes:
            if self._waiting_bytes + body_bytes > MOST_WAITING_BYTES:
                raise WorkerBusyError(
                    f"{self._waiting_bytes:,} bytes of requests are already waiting for a thread, "
                    f"the limit is {MOST_WAITING_BYTES:,}"
                )
        elif self._most_waiting is not None and self._waiting_pieces >= self._most_waiting:
            raise WorkerBusyError(f"{self._most_waiting} requests are already waiting for the disk")
        self._waiting += 1
        self._waiting_bodies += body_bytes > 0
        self._waiting_bytes += body_bytes
        done = (
            self._threads.submit(_uncollected, work)
            if self._makes_objects
            else self._threads.submit(work)
        )
        done.add_done_callback(
            lambda ended: self._loop.call_soon_threadsafe(
                partial(self._done, ended, then, body_bytes)
            )
        )

    @property
    def _waiting_pieces(self) -> int:
        return self._waiting - self._waiting_bodies

    def _done(
        self, ended: Future[_T], then: Callable[[Future[_T]], object], body_bytes: int
    ) -> None:
        self._waiting -= 1
        self._waiting_bodies -= body_bytes > 0
        self._waiting_bytes -= body_bytes
        if not (self._closed or ended.cancelled()):
            then(ended)

    def close(self) -> None:
        """Wait for the running work without calling `then`, and drop the waiting work. May be repeated."""
        self._closed = True
        self._threads.shutdown(wait=True, cancel_futures=True)


def _uncollected(work: Callable[[], _T]) -> _T:
    with uncollected():
        return work()
