"""Dispatch in the background: messages of the CommitLog get into queues and index."""

from __future__ import annotations

from _thread import LockType, allocate_lock
from threading import TIMEOUT_MAX
from typing import TYPE_CHECKING

from rmqcore.services.service import Service
from rmqcore.services.wakeups import Wakeups

if TYPE_CHECKING:
    from rmqcore.engine.store.store import MessageStore


class Reput(Service):
    """Dispatches as long as messages come, then sleeps until an append (SYNC_FLUSH: a flush) wakes it.

    A step goes along with the log and looks for more every millisecond, without Python. It ends when the bell rings: when
    somebody waits for a place, or the service is stopped. While somebody waits it goes no further than what is there.

    Under SYNC_FLUSH the store's step ends at the flushed offset: no consumer sees a message that a power cut may still take.

    Notes
    -----
    Source: RocketMQ 5.5.0 DefaultMessageStore.ReputMessageService, which polls every millisecond for ever.
    """

    name = "reput"

    def __init__(self, store: MessageStore, wakeups: Wakeups) -> None:
        super().__init__(store)
        self._wakeups = wakeups
        self._sync = store.config.syncs_puts
        # What each caller of `wait` waits for, by the lock that it waits at. Only single steps are made with it: no interrupt
        # halves them.
        self._waiters: dict[LockType, int] = {}
        self._over = False

    def wait(self, end_offset: int, timeout: float | None = None) -> bool:
        """Wait until everything below `end_offset` is dispatched; False after `timeout` seconds, or when the store is closed.

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
            ):  # after it is listed: nobody is passed over
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
        """Dispatch what is there and what comes."""
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
        """Wake those whose messages are dispatched, at the end all; only the service's own thread does."""
        for waiter, end_offset in list(self._waiters.items()):
            if self._over or self._reached(end_offset):
                self._waiters.pop(waiter, None)
                waiter.release()

    def _reached(self, end_offset: int) -> bool:
        store = self._store()
        return store is not None and store.reput_from_offset >= end_offset
