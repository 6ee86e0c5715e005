"""Offset up to which enough followers hold the log, and the puts and callbacks that wait for it."""

from __future__ import annotations

from rmqcore._native.threads.mutex import Mutex
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.engine.store.offset_calls import call_when_reached, inside_log
from rmqcore.engine.store.offset_waiters import Callback
from rmqcore.engine.store.state import StoreState
from rmqcore.errors.arguments import check_ints
from rmqcore.vocabulary.status import PutMessageStatus


class Followers:
    """Note the offset that followers have reached, and wait for them."""

    def __init__(self, log: CommitLog, state: StoreState) -> None:
        self._log = log
        self._state = state
        self._lock = Mutex(state.calls)  # two threads that report must not move the offset back

    def replicated(self, phy_offset: int) -> None:
        """Note the offset up to which enough followers hold the log, and answer the callbacks that waited for it."""
        check_ints(phy_offset=phy_offset)
        self._state.raise_if_closed()
        waiters = self._state.replica_waiters
        self._lock.run(waiters.reached, inside_log(self._log, "phy_offset", phy_offset))
        if self._state.waiters is None:
            self._state.serve_waiters()
        else:
            waiters.answer()

    def on_replicated(self, end_offset: int, callback: Callback, timeout_ms: int) -> None:
        """Call `callback` when enough followers hold the log up to an offset, or when the wait has failed."""
        state = self._state
        call_when_reached(self._log, state, state.replica_waiters, end_offset, callback, timeout_ms)

    def wait(self, end_offset: int, seconds: float) -> PutMessageStatus:
        """Wait in this thread for followers.

        Returns
        -------
        PutMessageStatus
            PUT_OK, or FLUSH_SLAVE_TIMEOUT: too few followers reported the offset before the timeout or the close.

        Raises
        ------
        StoreFailedError
            The store has failed: the message may or may not be on disk.
        """
        if self._state.replica_waiters.wait(end_offset, seconds, bool):
            return PutMessageStatus.PUT_OK
        self._state.raise_if_failed()
        return PutMessageStatus.FLUSH_SLAVE_TIMEOUT
