"""Dispatch: what is in the CommitLog comes into queues and index."""

from __future__ import annotations

import threading

from rmqcore.services.service import Service
from rmqcore.services.steps import StoreSteps
from rmqcore.services.wakeups import Wakeups


class Reput(Service):
    """Dispatches as long as there is something, then sleeps until an append (SYNC_FLUSH: a flush) wakes it.

    Under SYNC_FLUSH the store's step ends at the flushed offset: no consumer sees a message that a power cut may still take.

    Notes
    -----
    Source: RocketMQ 5.5.0 DefaultMessageStore.ReputMessageService, which polls every millisecond instead.
    """

    name = "reput"

    def __init__(self, store: StoreSteps, wakeups: Wakeups) -> None:
        super().__init__(store)
        self._wakeups = wakeups
        self._sync = store.config.flush_disk_type == "SYNC_FLUSH"
        self._condition = threading.Condition(threading.Lock())
        self._waiting = 0
        self._over = False

    def wait(self, end_offset: int, timeout: float | None = None) -> bool:
        """Wait until everything below `end_offset` is dispatched; False after `timeout` seconds, or when the store is closed.

        Raises
        ------
        StoreFailedError
            The store has failed, and what is missing will not be dispatched.
        """
        with self._condition:
            self._waiting += 1
            try:
                self.wake()
                self._condition.wait_for(lambda: self._over or self._reached(end_offset), timeout)
            finally:
                self._waiting -= 1
        reached = self._reached(end_offset)
        store = self._store()
        if not reached and self._over and store is not None:
            store.raise_if_failed()
        return reached

    def step(self, store: StoreSteps) -> float | None:
        """Dispatch one window."""
        if self._dispatch(store):
            return 0
        if not self._sync:
            self._wakeups.arm(store, self)
            # What was appended before the hook was in place.
            if self._dispatch(store):
                return 0
        return None

    def finish(self, store: StoreSteps) -> None:
        """Dispatch the rest: a clean close leaves nothing behind."""
        while self._dispatch(store):
            pass

    def ended(self) -> None:
        """Nobody waits for a thread that is gone."""
        with self._condition:
            self._over = True
            self._condition.notify_all()

    def _dispatch(self, store: StoreSteps) -> int:
        done = store.dispatch_once()
        if self._waiting:
            with self._condition:
                self._condition.notify_all()
        return done

    def _reached(self, end_offset: int) -> bool:
        store = self._store()
        return store is not None and store.reput_from_offset >= end_offset
