"""One thread that repeats one step of a store."""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from rmqcore._native.threads.bell import Bell
from rmqcore.errors import ShortageError

if TYPE_CHECKING:
    from rmqcore.engine.store.store import MessageStore

_stepping: set[Service] = set()
TRY_AGAIN = 1.0  # seconds after a step that lacked room or descriptors
LOOK_AGAIN = 0.1  # seconds: another thread that waits for the same end may consume the ring


def any_step_runs() -> bool:
    """Return True if a thread of any store runs a step now, which keeps a dropped store alive until the step ends."""
    return bool(_stepping)


class Service(ABC):
    """One thread that repeats one step of a store until it is stopped, the store is dropped or a step fails.

    The thread waits at its bell between the steps, so an idle store costs a few wake-ups per second. It holds the store
    only during a step: the threads of a store that is dropped without `close()` end too. An exception of a step ends
    the thread and fails the store, because the store cannot keep its promises if one of the steps is missing. A step
    that lacks disk space or file descriptors is repeated until it succeeds; `stats()` shows the error until then.

    Notes
    -----
    Thread safety: all methods may be called from any thread. Source: RocketMQ 5.5.0 ServiceThread.
    """

    name: ClassVar[str]
    """Name of the service in thread names and errors."""

    bell: Bell
    """Begins the next step now."""

    def __init__(self, store: MessageStore) -> None:
        self.bell = Bell()
        self._stopping = False
        self._over = self._told = False
        self._pause: float | None = None  # seconds to wait after the last step
        self._end = Bell()
        self._store = weakref.ref(store, self._store_gone)
        # Not a daemon: the end of the interpreter stops a daemon thread anywhere, even in the middle of a sync.
        self._thread = threading.Thread(target=self._run, name=f"rmqcore-{self.name}", daemon=False)

    @abstractmethod
    def step(self, store: MessageStore) -> float | None:
        """Do one step; return the seconds to wait before the next one, None to wait until `wake`."""

    def finish(self, store: MessageStore) -> None:  # noqa: B027 a service may have no work left
        """Do the remaining work; the thread calls it last when it is stopped."""

    def ended(self) -> None:  # noqa: B027 likewise
        """Wake all callers that wait for the service; the thread calls it at its end, for any reason."""

    def start(self) -> None:
        """Start the thread. Not for the main thread, where an exception of a signal handler could cut it short."""
        self._thread.start()

    def wake(self) -> None:
        """Begin the next step now."""
        self.bell.ring()

    def request_stop(self) -> None:
        """Ask the thread to finish its work and end, without waiting for it."""
        self._stopping = True
        self.bell.ring()

    def stop(self) -> None:
        """Ask the thread to finish its work and end, and wait for it. May be repeated, also after a Ctrl-C during the wait."""
        self.request_stop()
        if self._thread is threading.current_thread():
            return
        if self._thread.ident is not None:
            # Not by `join` alone: after an exception of a signal handler, Python 3.11 and 3.12 report a running thread
            # as ended.
            while not self._over:
                self._end.wait(LOOK_AGAIN)
            self._thread.join()

    @property
    def running(self) -> bool:
        """True if the thread is alive."""
        return self._thread.is_alive()

    def tell(self, store: MessageStore, error: BaseException) -> None:
        """Show an error that costs no data in `stats()`, until the next step without an error."""
        store.note_error(self.name, error)
        self._told = True

    def _store_gone(self, _: weakref.ref[MessageStore]) -> None:
        self.request_stop()

    def _run(self) -> None:
        try:
            while True:
                # Cleared before the step: the step sees all earlier changes, and later ones ring again.
                self.bell.clear()
                if self._stopping:
                    break
                if not self._work():
                    return
            self._last_work()
        finally:
            self.ended()
            self._over = True
            self._end.ring()

    def _work(self) -> bool:
        """Do one step and wait after it; return whether to continue."""
        _stepping.add(self)  # before the thread holds the store
        try:
            going_on = self._step_once()
        finally:
            _stepping.discard(self)
        if going_on and (self._pause is None or self._pause > 0):
            self.bell.wait(self._pause)
        return going_on

    def _step_once(self) -> bool:
        """Do one step; return whether to continue. The thread holds the store only during this call."""
        store = self._store()
        if store is None:
            return False
        try:
            told, self._told = self._told, False
            self._pause = self.step(store)
            if told and not self._told:
                store.note_error(self.name, None)
        except ShortageError as error:
            self.tell(store, error)
            self._pause = TRY_AGAIN
        except BaseException as error:  # noqa: BLE001 a thread that ends silently would break what the store promises
            store.fail(error)
            return False
        return True

    def _last_work(self) -> None:
        store = self._store()
        if store is None:
            return
        try:
            self.finish(store)
        except ShortageError as error:
            self.tell(
                store, error
            )  # the caller of `close` tries once more, and a second error is a failure
        except BaseException as error:  # noqa: BLE001 as above
            store.fail(error)


# A forked child has none of these threads.
os.register_at_fork(after_in_child=_stepping.clear)
