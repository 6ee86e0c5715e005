"""One thread that repeats one step of a store."""

from __future__ import annotations

import threading
import weakref
from abc import ABC, abstractmethod
from typing import ClassVar

from rmqcore.services.steps import StoreSteps


class Service(ABC):
    """One thread that repeats one step of a store until it is stopped, the store is gone or a step fails.

    The thread waits on an event between the steps, so an idle store costs a few wake-ups a second, and it holds the store only
    during a step: a store that is dropped without `close()` takes its threads with it. An exception of a step ends the thread and
    fails the store, because none of the steps can be left out without breaking what the store promises.

    Notes
    -----
    Thread safety: all methods may be called from any thread. Source: RocketMQ 5.5.0 ServiceThread.
    """

    name: ClassVar[str]
    """What the service is called in thread names and errors."""

    def __init__(self, store: StoreSteps) -> None:
        self._event = threading.Event()
        self._stopping = False
        self._store = weakref.ref(store, self._store_gone)
        # No daemon: a daemon thread is cut off anywhere at the interpreter's end, in the middle of a sync too.
        self._thread = threading.Thread(target=self._run, name=f"rmqcore-{self.name}", daemon=False)

    @abstractmethod
    def step(self, store: StoreSteps) -> float | None:
        """Do one step; answers the seconds to wait before the next one, None to wait until woken."""

    def finish(self, store: StoreSteps) -> None:  # noqa: B027 a service may have nothing to finish
        """Leave nothing undone: the last thing the thread does when it is stopped."""

    def ended(self) -> None:  # noqa: B027 likewise
        """Let go of whoever waits for the service; the thread ends here whatever the reason."""

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Begin the next step now."""
        self._event.set()

    def request_stop(self) -> None:
        """Let the thread finish and end, without waiting for it."""
        self._stopping = True
        self._event.set()

    def stop(self) -> None:
        """Let the thread finish and end; returns when it has. May be repeated, also after a Ctrl-C in the middle of it."""
        self.request_stop()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join()

    @property
    def running(self) -> bool:
        """Whether the thread is alive."""
        return self._thread.is_alive()

    def _store_gone(self, _: weakref.ref[StoreSteps]) -> None:
        self.request_stop()

    def _run(self) -> None:
        try:
            while not self._stopping:
                # Cleared before the step: whatever happens from here on is seen by it or rings again.
                self._event.clear()
                if not self._work():
                    return
            self._last_work()
        finally:
            self.ended()

    def _work(self) -> bool:
        """One step and the wait after it; answers whether to go on. The store is held in here alone."""
        store = self._store()
        if store is None:
            return False
        try:
            seconds = self.step(store)
        except BaseException as error:  # noqa: BLE001 a thread that dies silently would leave the promise unkept
            store.fail(error)
            return False
        del store
        if seconds is None or seconds > 0:
            self._event.wait(seconds)
        return True

    def _last_work(self) -> None:
        store = self._store()
        if store is None:
            return
        try:
            self.finish(store)
        except BaseException as error:  # noqa: BLE001 as above
            store.fail(error)
