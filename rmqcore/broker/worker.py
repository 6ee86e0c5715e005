"""Work that may wait for a disk, away from the loop's thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from rmqcore.broker.channel import Loop

MOST_WAITING = 64
"""Pieces of work that may wait; more are refused, so that no client fills the memory with them."""
_T = TypeVar("_T")


class WorkerBusyError(ValueError):
    """Too much work waits already."""


class Worker:
    """One thread that does one piece of work after the other. Its methods are called by the loop's thread only.

    Parameters
    ----------
    loop : Loop
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rmqcore-admin")
        self._waiting = 0

    def run(self, work: Callable[[], _T], then: Callable[[Future[_T]], object]) -> None:
        """Do `work`, and call `then` with what became of it, later, in the loop's thread.

        Raises
        ------
        WorkerBusyError
            Too much work waits already.
        """
        if self._waiting >= MOST_WAITING:
            raise WorkerBusyError(f"{MOST_WAITING} requests wait for the disk already")
        self._waiting += 1
        done = self._thread.submit(work)
        done.add_done_callback(
            lambda ended: self._loop.call_soon_threadsafe(partial(self._done, ended, then))
        )

    def _done(self, ended: Future[_T], then: Callable[[Future[_T]], object]) -> None:
        self._waiting -= 1
        if not ended.cancelled():
            then(ended)

    def close(self) -> None:
        """Wait for the work that was begun; what waits is not done any more. May be repeated."""
        self._thread.shutdown(wait=True, cancel_futures=True)
