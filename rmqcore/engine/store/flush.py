"""Sync of log, queues, index and checkpoint, in the order of docs/durability.md.

Each function calls the parts once. The first OSError fails the store, unless the step lacked a resource that may
return: disk space before a write, or a descriptor before any change.
"""

from __future__ import annotations

from rmqcore._native.threads.mutex import Mutex
from rmqcore.disk.durable import make_directory
from rmqcore.engine.store.dispatch import Dispatch
from rmqcore.engine.store.offset_calls import call_when_reached
from rmqcore.engine.store.offset_waiters import Callback
from rmqcore.engine.store.parts import StoreParts
from rmqcore.engine.store.state import StoreState


class Flush:
    """Sync log, queues, index and checkpoint, one close or flush of queues at a time."""

    def __init__(self, parts: StoreParts, state: StoreState, dispatch: Dispatch) -> None:
        self._parts = parts
        self._log = parts.log
        self._state = state
        self._dispatch = dispatch
        # A close must not run between queues and checkpoint: this call would then write older values than the close
        # did.
        self._lock = Mutex(state.calls)
        self._space_lock = Mutex(state.calls)

    def prepare_space(self) -> bool:
        """Make one step of room for log and index; return True if more is wanted now."""
        self._state.raise_if_closed()  # a forked child must not wait for a lock of a thread that it does not have
        return self._space_lock.run(self._prepare_space)

    def _prepare_space(self) -> bool:
        self._state.raise_unless_writable()
        try:
            more = self._log.prepare_space()
            return self._parts.index.allocate_ahead() or more
        except OSError as error:
            # Puts continue in the room that is left.
            self._state.repeat_or_fail_by(error, pause=False)

    def flush_log(self, least_pages: int = 0) -> int:
        """Sync the log; return the CommitLog offset up to which it is on disk. Without threads, answer the waiters."""
        state = self._state
        try:
            state.raise_unless_writable()
            flushed = self._log.flush(least_pages)
            state.flush_waiters.reached(flushed)
        except OSError as error:
            state.fail_by(error)
        finally:
            if state.waiters is None:
                state.serve_waiters()
        return flushed

    def on_flushed(self, end_offset: int, callback: Callback, timeout_ms: int) -> None:
        """Call `callback` when the log is on disk up to an offset, or when its sync has failed or timed out."""
        state, waiters = self._state, self._state.flush_waiters
        waiters.reached(self._log.flushed_offset)
        waits = call_when_reached(self._log, state, waiters, end_offset, callback, timeout_ms)
        if waits and state.waiters is not None:
            state.waiters.flush_soon()

    def flush_queues(self, least_pages: int) -> None:
        """Sync queue files with at least this number of dirty pages; with 0 sync all, and record that in the checkpoint."""
        try:
            self._state.raise_if_closed()  # a forked child must not wait for a lock of a thread that it does not have
            self._lock.run(self._flush_queues, least_pages)
        except OSError as error:
            self._state.fail_by(error)

    def _flush_queues(self, least_pages: int) -> None:
        self._state.raise_unless_writable()
        self._parts.locks.check_root()
        if least_pages:
            self._parts.queues.flush(least_pages)
        else:
            self._flush_dispatched()

    def _flush_dispatched(self) -> None:
        parts, done = self._parts, self._parts.dispatcher.done
        # Read before the syncs, which do not cover entries dispatched while they run.
        phy_offset, timestamp_ms = done.last_phy_offset, done.last_store_timestamp_ms
        # A recovery starts where the checkpoint names the queues as complete, and reads no record before that. If the
        # log were not on disk up to there, a power cut could leave a hole in it that no recovery finds. Java leaves
        # this out.
        parts.log.flush()
        parts.queues.flush(0)
        parts.index.flush_full()
        if phy_offset >= 0:
            parts.checkpoint.update(
                logics_msg_timestamp_ms=timestamp_ms, logics_physical_offset=phy_offset
            )

    def write_checkpoint(self) -> None:
        """Write the checkpoint, with the store timestamp up to which the log is on disk now, and sync it."""
        try:
            self._state.raise_if_closed()  # a forked child must not wait for a lock of a thread that it does not have
            self._lock.run(self._write_checkpoint)
        except OSError as error:
            # The next call writes the values again, so it does not depend on this call's sync.
            shortage = self._state.shortage(error)
            if shortage is None:
                raise
            raise shortage from error

    def _write_checkpoint(self) -> None:
        self._state.raise_if_closed()
        self._parts.locks.check_root()
        timestamp_ms = self._log.flushed_timestamp_ms
        if timestamp_ms:
            self._parts.checkpoint.update(physic_msg_timestamp_ms=timestamp_ms)
        self._parts.checkpoint.flush()

    def finish(self) -> None:
        """Sync all parts, then remove the abort file: the steps of a clean exit. The caller has ended all puts.

        Each step can be repeated: after an interrupt the next close starts again at the first one.
        """
        try:
            self._lock.run(self._finish)
        except OSError as error:
            self._state.fail_by(error)

    def _finish(self) -> None:
        parts = self._parts
        self._state.flush_waiters.reached(parts.log.flush())
        # If another store is now in this directory, its files and its abort file must not be changed.
        parts.locks.check_log()
        self._dispatch.finish()
        self._flush_dispatched()
        parts.index.flush()
        if parts.config.message_index_enable and parts.config.index_file_write_enable:
            # An index folder means that the whole log was indexed, even if no message had a key.
            make_directory(parts.paths.index)
        parts.log.close()
        self._write_checkpoint()
        parts.abort.remove()
