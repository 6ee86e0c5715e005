"""An event loop in a thread of its own, for callers that have none."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from rmqcore.errors import ClientClosedError, ClientError

Result = TypeVar("Result")


class LoopThread:
    """Runs coroutines for threads that wait for them. Safe to use from several threads.

    Parameters
    ----------
    name : str
        Name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        # Not a lock that calls hold: an exception of a signal handler right after an acquire would leave it locked.
        self._stopping = threading.Lock()
        self._ended = False
        self._waited_for: set[Future[Any]] = set()
        self._thread.start()

    @property
    def is_ours(self) -> bool:
        """Return True if the thread runs in this process, not in the parent of a fork."""
        return os.getpid() == self._pid

    def run(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Run the coroutine that `work` returns, and wait for it; an interrupted wait cancels it.

        Raises
        ------
        ClientClosedError
            The thread was stopped, or was started in another process.
        ClientError
            The caller is the thread itself, which calls `on_event`, and would wait for itself for ever.
        """
        if threading.current_thread() is self._thread:
            raise ClientError(
                "this is the thread of the client's own event loop, in which on_event is called: it would wait for itself"
            )
        if not self.is_ours:
            raise ClientClosedError(
                "this client belongs to the parent process: create another client after a fork"
            )
        done = None
        try:
            done = self._begin(work())
            self._waited_for.add(done)
            if self._ended:
                done.cancel()
            return done.result()
        except CancelledError:
            raise _closed() from None
        except BaseException:
            if done is not None:
                done.cancel()
            raise
        finally:
            if done is not None:
                self._waited_for.discard(done)

    def _begin(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        if not self._stopping.locked():
            try:
                return asyncio.run_coroutine_threadsafe(work, self._loop)
            except RuntimeError:
                if not self._loop.is_closed():
                    raise
        work.close()
        raise _closed()

    def stop(self, last: Callable[[], object]) -> None:
        """Call `last` in the thread, then cancel its tasks and end it. A second call does nothing."""
        if not self.is_ours:
            return
        if not self._stopping.acquire(blocking=False):
            return
        self._loop.call_soon_threadsafe(last)
        self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._cancel_all())
            self._loop.close()
            self._ended = True
            # Calls that started too late to be cancelled with the others.
            for done in list(self._waited_for):
                done.cancel()

    async def _cancel_all(self) -> None:
        tasks = asyncio.all_tasks(self._loop) - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # lets closed connections close their sockets


def _closed() -> ClientClosedError:
    return ClientClosedError("this client was closed")
