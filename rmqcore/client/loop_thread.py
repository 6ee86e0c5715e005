"""An event loop in a thread of its own, for callers that have none."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from rmqcore.errors import ClientClosedError

Result = TypeVar("Result")


class LoopThread:
    """Runs coroutines for threads that wait for them. Safe to use from several threads.

    Parameters
    ----------
    name : str
        Of the thread.
    """

    def __init__(self, name: str) -> None:
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._guard = threading.Lock()
        self._stopped = False
        self._thread.start()

    def run(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Run what `work` makes, and wait for it; where the waiting is interrupted it is cancelled.

        Raises
        ------
        ClientClosedError
            The thread was stopped, or this is another process than the one that it was started in.
        """
        if os.getpid() != self._pid:
            raise ClientClosedError(
                "this client belongs to the process that this one was forked from"
            )
        with self._guard:
            if self._stopped:
                raise ClientClosedError("this client was closed")
            done = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            return done.result()
        except CancelledError:
            raise ClientClosedError("this client was closed") from None
        except BaseException:
            done.cancel()
            raise

    def stop(self, last: Callable[[], object]) -> None:
        """Call something in the thread, then end all that runs there, and the thread. A second call does nothing."""
        if os.getpid() != self._pid:
            return
        with self._guard:
            if self._stopped:
                return
            self._stopped = True
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

    async def _cancel_all(self) -> None:
        tasks = asyncio.all_tasks(self._loop) - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # connections that were closed let go of their sockets
