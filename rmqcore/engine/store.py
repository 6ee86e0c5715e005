"""MessageStore: the parts of a store as one machine without threads; every step is a method call."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from rmqcore.config import MessageStoreConfig
from rmqcore.engine.paths import StorePaths
from rmqcore.engine.store_get import StoreGet
from rmqcore.engine.store_put import StorePut


class MessageStore(StorePut, StoreGet):
    """A store that is open for writing. Made by `rmqcore.open`.

    Parameters
    ----------
    paths : StorePaths
    config : MessageStoreConfig
    create : bool
        Make the directory when it is not there.
    clock : callable, optional
        Answers milliseconds since the epoch; called once a put inside the append lock.

    Attributes
    ----------
    config : MessageStoreConfig
    recovery : RecoveryReport
        What this open scanned, cut and dispatched again.

    Raises
    ------
    StoreLockedError
        Another process writes the store, or this one has it open.
    NotAStoreError
        Nothing is there and `create` is false.
    StoreFormatError
        Files of another size than configured.
    OSError
        The directory cannot be read or written.

    Notes
    -----
    Thread safety: all methods may be called from any thread. After a fork a store is unusable in the child.

    Source: RocketMQ 5.5.0 DefaultMessageStore.
    """

    def __init__(
        self,
        paths: StorePaths,
        config: MessageStoreConfig,
        *,
        create: bool = True,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._dispatch_lock = threading.Lock()
        self._close_lock = threading.Lock()
        super().__init__(paths, config, create=create, clock=clock)

    # ---- where it is

    @property
    def min_phy_offset(self) -> int:
        """CommitLog offset of the first byte that is there."""
        return self._log.min_offset

    @property
    def max_phy_offset(self) -> int:
        """CommitLog offset after the last record."""
        return self._log.max_offset

    @property
    def flushed_phy_offset(self) -> int:
        """CommitLog offset up to which everything is on disk; moves only after a sync that succeeded."""
        return self._log.flushed_offset

    @property
    def confirm_offset(self) -> int:
        """CommitLog offset up to which consumers may see messages: with SYNC_FLUSH only what is on disk."""
        return self._log.flushed_offset if self._sync else self._log.max_offset

    @property
    def reput_from_offset(self) -> int:
        """CommitLog offset up to which messages are in queues and index."""
        return self._dispatcher.reput_from_offset

    @property
    def dispatch_behind_bytes(self) -> int:
        """CommitLog bytes that consumers may see and that are not yet in queues and index."""
        return max(0, self.confirm_offset - self._dispatcher.reput_from_offset)

    # ---- steps

    def dispatch_once(self) -> int:
        """Put one window of the log into queues and index; answer its bytes, 0 when there is nothing (yet).

        Raises
        ------
        StoreFailedError
            A write failed, now or earlier.
        CorruptMessageError
            A record of the log fails its check; nothing behind it is dispatched.
        """
        self.raise_if_closed()
        self.raise_if_failed()
        return self._dispatch()

    def _dispatch(self) -> int:
        with self._dispatch_lock:
            try:
                return self._dispatcher.dispatch_once(self.confirm_offset)
            except OSError as error:
                self.fail(error)
                self.raise_if_failed()
                raise

    def flush(self, least_pages: int = 0) -> int:
        """Bring the CommitLog to disk; answer `flushed_phy_offset`.

        Parameters
        ----------
        least_pages : int
            Do nothing while fewer pages of 4096 bytes wait; 0 takes any.

        Raises
        ------
        StoreFailedError
            The sync failed, or the store has failed before: what is on disk is not known.
        """
        flushed = self.flush_commitlog(least_pages)
        self._parts.note_log_flushed()
        return flushed

    def flush_consume_queues(self, least_pages: int = 0) -> None:
        """Bring the queues' entries to disk; with 0 the checkpoint learns how far they are."""
        self.raise_if_closed()
        self.raise_if_failed()
        try:
            self._parts.flush_queues(least_pages)
        except OSError as error:
            self.fail(error)
            self.raise_if_failed()
            raise

    def write_checkpoint(self) -> None:
        """Bring the checkpoint to disk."""
        self.raise_if_closed()
        self._parts.checkpoint.flush()

    def prepare_space(self) -> bool:
        """Allocate and populate one step ahead of the writer; answer whether more is wanted now."""
        self.raise_if_closed()
        self.raise_if_failed()
        more = self._log.prepare_space()
        return self._index.allocate_ahead() or more

    def on_append(self, ring: Callable[[], object]) -> None:
        """Call `ring` once, after the next append."""
        self._appender.arm_append(ring)

    def on_low_space(self, ring: Callable[[], object]) -> None:
        """Call `ring` once, when `prepare_space` has something to do."""
        self._log.on_low_space(ring)

    def wait_dispatched(self, timeout: float | None = None) -> bool:
        """Wait until all messages that consumers may see are in queues and index.

        Without threads (``services=False``) the steps are made here.

        Parameters
        ----------
        timeout : float, optional
            Seconds.

        Returns
        -------
        bool
            Whether they are.
        """
        self.raise_if_closed()
        end_offset = self.confirm_offset
        if self._waiters is not None:
            return self._waiters.wait_dispatched(end_offset, timeout)
        until = None if timeout is None else time.monotonic() + timeout
        while self._dispatcher.reput_from_offset < end_offset:
            if until is not None and time.monotonic() > until:
                return False
            self.dispatch_once()
        return True

    def stats(self) -> dict[str, Any]:
        """Give the offsets, whether the store has failed, and what went wrong in the background."""
        return {
            "min_phy_offset": self.min_phy_offset,
            "max_phy_offset": self.max_phy_offset,
            "flushed_phy_offset": self.flushed_phy_offset,
            "confirm_offset": self.confirm_offset,
            "dispatch_behind_bytes": self.dispatch_behind_bytes,
            "queues": len(self._queues.queues()),
            "index_files": len(self._index.files),
            "failed": None if self._failure is None else str(self._failure),
            "errors": dict(self._errors),
        }

    # ---- closing

    def close(self) -> None:
        """Write everything, say that the exit is clean, and let go of the directory. May be repeated.

        Messages that are not yet dispatched are. Views that somebody holds stay good. After a failure nothing is written: the
        next open recovers.

        Raises
        ------
        StoreFailedError
            Something could not be written now; the directory is let go of all the same.
        """
        if self._closed is not None:
            return
        with self._close_lock:
            if self._closed is not None:
                return
            self._appender.stop(self.raise_if_failed_or_closed)
            if self._waiters is not None:
                self._waiters.stop()  # a Ctrl-C in here leaves threads, and so the store open: close it again
            try:
                if self._failure is None:
                    self._finish()
            finally:
                self._closed = f"closed in process {os.getpid()}"
                self._parts.release()

    def _finish(self) -> None:
        """The last steps of a clean exit, in this order: log, queues and index, checkpoint, abort file."""
        try:
            self._log.flush()
            self._parts.note_log_flushed()
            while self._dispatcher.reput_from_offset < self._log.max_offset:
                self._dispatcher.dispatch_once(self._log.max_offset)
            self._parts.finish()
        except OSError as error:
            self.fail(error)
            self.raise_if_failed()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = self._closed or ("failed" if self.failed else "open")
        return f"<MessageStore {str(self.paths.root)!r}, {state}>"
