"""Dispatch in the background: adds the messages of the CommitLog to queues and index."""

from __future__ import annotations

from _thread import LockType, allocate_lock
from threading import TIMEOUT_MAX
from typing import TYPE_CHECKING

from rmqcore.services.service import Service
from rmqcore.services.wakeups import Wakeups

if TYPE_CHECKING:
    from rmqcore.engine.store.store import MessageStore


class Reput(Service):
    """Dispatches while messages arrive, then sleeps until an append (SYNC_FLUSH: a flush) wakes it.

    A step follows the log and polls it every millisecond, without Python. It ends when the bell rings: when a caller
    waits for an offset, or the service is stopped. While a caller waits, a step ends at the present end of the log.

    Under SYNC_FLUSH the store's step ends at the flushed offset: no consumer sees a message that a power cut may lose.

    Notes
    -----
    Source: RocketMQ 5.5.0 DefaultMessageStore.ReputMessageService, which polls every millisecond for ever.
    """

    name = "reput"

    def __init__(self, store: MessageStore, wakeups: Wakeups) -> None:
        super().__init__(store)
        self._wakeups = wakeups
        self._sync = store.config.syncs_puts
        # The offset that each caller of `wait` waits for, by the caller's lock. Each access is a single operation,
        # which no interrupt can split.
        self._waiters: dict[LockType, int] = {}
        self._over = False

    def wait(self, end_offset: int, timeout: float | None = None) -> bool:
        """Wait until all messages below `end_offset` are dispatched; False on a timeout or if the store is closed.

        Raises
        ------
        StoreFailedError
            The store has failed, and the missing messages will not be dispatched.
        """
        waiter = allocate_lock()
        waiter.acquire()
        self._waiters[waiter] = end_offset
        try:
            if not self._over and not self._reached(
                end_offset
            ):  # checked after the entry: no caller is missed
                self.wake()
                seconds = -1 if timeout is None else min(max(timeout, 0), TIMEOUT_MAX)
                waiter.acquire(timeout=seconds)
        finally:
            self._waiters.pop(waiter, None)
        reached = self._reached(end_offset)
        store = self._store()
        if not reached and self._over and store is not None:
            store.raise_if_failed()
        return reached

    def step(self, store: MessageStore) -> float | None:
        """Dispatch the messages of the log, and those that arrive during the step."""
        going_on = store.dispatch_until(self.bell, follow=not self._waiters)
        self._answer_waiters()
        if going_on:
            return 0
        if not self._sync:
            self._wakeups.arm(store, self)
            # Messages may have been appended before the hook was in place.
            if self._dispatch(store):
                return 0
        return None

    def finish(self, store: MessageStore) -> None:
        """Dispatch the rest: a clean close leaves no message without its entries."""
        while self._dispatch(store):
            pass

    def ended(self) -> None:
        """Wake all callers of `wait`: no thread dispatches any more."""
        self._over = True
        self._answer()

    def _dispatch(self, store: MessageStore) -> int:
        done = store.dispatch_once()
        self._answer_waiters()
        return done

    def _answer_waiters(self) -> None:
        if self._waiters:
            self._answer()

    def _answer(self) -> None:
        """Wake the callers whose messages are dispatched, at the end all; called only by the service's thread."""
        for waiter, end_offset in list(self._waiters.items()):
            if self._over or self._reached(end_offset):
                self._waiters.pop(waiter, None)
                waiter.release()

    def _reached(self, end_offset: int) -> bool:
        store = self._store()
        return store is not None and store.reput_from_offset >= end_offset
