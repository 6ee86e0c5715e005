"""SYNC_FLUSH: puts wait in groups, and one sync serves all of a group."""

from __future__ import annotations

import threading

from rmqcore.errors import StoreClosedError
from rmqcore.services.reput import Reput
from rmqcore.services.service import Service
from rmqcore.services.steps import StoreSteps
from rmqcore.services.wakeups import Wakeups
from rmqcore.status import PutMessageStatus

GATHER = 0.01  # seconds that messages nobody waits for (WAIT=false) wait for company, as in Java


class GroupCommit(Service):
    """Flushes the CommitLog for the puts that wait, as many as there are with each sync.

    A sync that fails fails the store, and everyone who waits then or comes later: the pages of a failed sync may be gone although
    the next one "succeeds". Only messages below an offset that was flushed before are still answered with PUT_OK.

    Parameters
    ----------
    store : StoreSteps
    wakeups : Wakeups
        Rings for messages that nobody waits for; they are flushed too, and only then dispatched.
    reput : Reput
        Woken after each flush: messages become visible to consumers then.

    Notes
    -----
    Source: RocketMQ 5.5.0 CommitLog.GroupCommitService, FlushDiskWatcher.
    """

    name = "group-commit"

    def __init__(self, store: StoreSteps, wakeups: Wakeups, reput: Reput) -> None:
        super().__init__(store)
        self._wakeups = wakeups
        self._reput = reput
        self._mutex = threading.Lock()
        # A lock a waiter, held until its group is served: one wake-up each, and no herd at a condition.
        self._waiters: list[threading.Lock] = []
        self._flushed = store.flushed_phy_offset
        self._over = False

    def wait(self, end_offset: int, timeout_ms: int) -> PutMessageStatus:
        """Wait until the CommitLog is on disk up to `end_offset`, the end of a message that is written.

        Returns
        -------
        PutMessageStatus
            PUT_OK, or FLUSH_DISK_TIMEOUT: not known, the message may or may not be on disk.

        Raises
        ------
        StoreFailedError
            A sync failed; the message may or may not be on disk.
        StoreClosedError
            The store was closed or dropped meanwhile, likewise.
        """
        waiter = threading.Lock()
        waiter.acquire()
        with self._mutex:
            if self._flushed >= end_offset:
                return PutMessageStatus.PUT_OK
            if not self._over:
                self._waiters.append(waiter)
        if not self._over:
            self.wake()
            waiter.acquire(timeout=max(timeout_ms, 0) / 1000)
        if self._flushed >= end_offset:
            return PutMessageStatus.PUT_OK
        store = self._store()
        if store is not None:
            store.raise_if_failed()
        if self._over:
            raise StoreClosedError(f"closed before the log was flushed up to {end_offset}")
        return PutMessageStatus.FLUSH_DISK_TIMEOUT

    def step(self, store: StoreSteps) -> float | None:
        """Serve one group."""
        if self._serve(store):
            return 0
        # Nobody waits, and something may be there that nobody waits for. The hook first, the look after it.
        self._wakeups.arm(store, self)
        if store.max_phy_offset == store.flushed_phy_offset:
            return None
        if not self._event.wait(GATHER):
            self._flush(store)
        return 0

    def finish(self, store: StoreSteps) -> None:
        """Serve whoever is left, and flush the rest."""
        if not self._serve(store):
            self._flush(store)

    def ended(self) -> None:
        """Nobody waits for a thread that is gone."""
        with self._mutex:
            self._over = True
            group, self._waiters = self._waiters, []
        for waiter in group:
            waiter.release()

    def _serve(self, store: StoreSteps) -> bool:
        with self._mutex:
            group, self._waiters = self._waiters, []
        if not group:
            return False
        try:
            # All of the group was written before it asked, so whatever one flush takes has it.
            self._flush(store)
        except BaseException as error:
            store.fail(error)  # before the waiters look
            raise
        finally:
            for waiter in group:
                waiter.release()
        return True

    def _flush(self, store: StoreSteps) -> None:
        self._flushed = store.flush(0)
        self._reput.wake()
