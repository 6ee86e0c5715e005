"""SYNC_FLUSH: puts wait in groups, and one sync serves all of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqcore.errors import StoreClosedError
from rmqcore.services.reput import Reput
from rmqcore.services.service import Service
from rmqcore.services.wakeups import Wakeups
from rmqcore.vocabulary.status import PutMessageStatus

if TYPE_CHECKING:
    from rmqcore.engine.store.store import MessageStore

GATHER = 0.01  # seconds that a message without a waiting put (WAIT=false) waits for others to be flushed with, as Java


class GroupCommit(Service):
    """Flushes the CommitLog for waiting puts: one sync serves all puts that wait when it begins.

    A failed sync fails the store, and every put that waits then or comes later: the pages of a failed sync may be lost
    although the next sync "succeeds". Only messages below an offset that was flushed before still get PUT_OK.

    Parameters
    ----------
    store : MessageStore
    wakeups : Wakeups
        Rings for messages without a waiting put: they are flushed too, and only then dispatched.
    reput : Reput
        Woken after each flush, which makes messages visible to consumers.

    Notes
    -----
    Source: RocketMQ 5.5.0 CommitLog.GroupCommitService, FlushDiskWatcher.
    """

    name = "group-commit"

    def __init__(self, store: MessageStore, wakeups: Wakeups, reput: Reput) -> None:
        super().__init__(store)
        self._wakeups = wakeups
        self._reput = reput
        self._queue = store.flush_waiters

    def wait(self, end_offset: int, timeout_ms: int) -> PutMessageStatus:
        """Wait until the CommitLog is on disk up to `end_offset`, the end of a message that is written.

        Returns
        -------
        PutMessageStatus
            PUT_OK; or FLUSH_DISK_TIMEOUT, if it is unknown whether the message is on disk.

        Raises
        ------
        StoreFailedError
            A sync failed; whether the message is on disk is unknown.
        StoreClosedError
            The store was closed or dropped during the wait; whether the message is on disk is unknown.
        """
        queue = self._queue
        if queue.wait(end_offset, timeout_ms / 1000, self.wake):
            return PutMessageStatus.PUT_OK
        store = self._store()
        if store is not None:
            store.raise_if_failed()
        if queue.over:
            raise StoreClosedError(
                f"the store was closed before the log was flushed up to {end_offset}"
            )
        return PutMessageStatus.FLUSH_DISK_TIMEOUT

    def step(self, store: MessageStore) -> float | None:
        """Serve one group."""
        if len(self._queue):
            self._flush(store)
            return 0
        # No put waits, but messages without a waiting put may exist. The hook is set before the log is checked.
        self._wakeups.arm(store, self)
        if store.max_phy_offset == store.flushed_phy_offset:
            if store.reput_from_offset < store.flushed_phy_offset:
                self._reput.wake()  # another caller has flushed the bytes for which this service was woken
            return None
        if not self.bell.wait(GATHER):
            self._flush(store)
        return 0

    def finish(self, store: MessageStore) -> None:
        """Flush the rest, and call back the puts that still wait for it."""
        self._flush(store)

    def ended(self) -> None:
        """Call back all waiting puts: no thread serves them any more."""
        self._queue.end()

    def _flush(self, store: MessageStore) -> None:
        # Serves all puts that wait now: each message was written before its put began to wait.
        store.flush(0)
        self._reput.wake()
        self._queue.answer()
