"""What all methods of a store share: its parts, and whether it is open, failed or closed."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import NoReturn, Protocol

from rmqcore._native.get import GetLimits
from rmqcore.config import MessageStoreConfig
from rmqcore.engine.paths import StorePaths
from rmqcore.engine.store_parts import StoreParts
from rmqcore.errors import StoreClosedError, StoreFailedError
from rmqcore.status import PutMessageStatus


class Waiters(Protocol):
    """Who makes puts and readers wait: the threads of an open store (`rmqcore.services`)."""

    def wait_flushed(self, end_offset: int, timeout_ms: int) -> PutMessageStatus:
        """Wait until the CommitLog is on disk up to an offset."""

    def wait_dispatched(self, end_offset: int, timeout: float | None = None) -> bool:
        """Wait until messages below an offset are in queues and index."""

    def stop(self) -> None:
        """End all threads."""


_stores: weakref.WeakSet[StoreState] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for store in list(_stores):
        store._forbid_in_child()  # noqa: SLF001
    _stores.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)


class StoreState:
    """The parts of an open store.

    Parameters
    ----------
    paths : StorePaths
    config : MessageStoreConfig
    create : bool
        Make the directory when it is not there.
    clock : callable, optional
        Answers milliseconds since the epoch; called once a put inside the append lock.
    """

    def __init__(
        self,
        paths: StorePaths,
        config: MessageStoreConfig,
        *,
        create: bool = True,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self.paths = paths
        self.config = config
        self._failure: BaseException | None = None
        self._closed: str | None = None
        self._failure_lock = threading.Lock()
        self._waiters: Waiters | None = None
        self._errors: dict[str, str] = {}
        self._sync = config.flush_disk_type == "SYNC_FLUSH"
        self._parts = StoreParts(paths, config, create=create, clock=clock, on_failure=self.fail)
        self._log = self._parts.commitlog
        self._queues = self._parts.queues
        self._index = self._parts.index
        self._dispatcher = self._parts.dispatcher
        self._appender = self._log.appender
        # For the calls that are made a million times a second.
        self._files = self._log.files
        self._levels = self._log.delay_levels
        self._get_limits = GetLimits(config)
        self.recovery = self._parts.recovery
        self._pid = os.getpid()
        _stores.add(self)

    def attach(self, waiters: Waiters) -> None:
        """Let threads do the steps from now on; `close` stops them."""
        self._waiters = waiters

    # ---- failed, closed

    def fail(self, error: BaseException) -> None:
        """Refuse writes from now on; reads go on. The first failure is kept."""
        with self._failure_lock:
            if self._failure is not None:
                return
            self._failure = error
        self._appender.stop(self.raise_if_failed_or_closed)

    def note_error(self, service: str, error: BaseException) -> None:
        """Show an error that costs no data in `stats()`; writes go on."""
        self._errors[service] = f"{type(error).__name__}: {error}"

    @property
    def failed(self) -> bool:
        """Whether a write, a sync or an allocation failed since the store was opened."""
        return self._failure is not None

    def raise_if_failed(self) -> None:
        """Raise StoreFailedError when the store has failed."""
        if self._failure is not None:
            raise StoreFailedError(
                f"{self.paths.root}: {self._failure}; nothing is written any more"
            ) from self._failure

    def raise_if_closed(self) -> None:
        """Raise StoreClosedError when the store is closed, or belongs to the parent of this process."""
        if self._closed is not None:
            raise StoreClosedError(f"{self.paths.root}: {self._closed}")

    def _forbid_in_child(self) -> None:
        """In a forked child: answer with StoreClosedError and touch no file, lock or descriptor of the parent.

        Any lock may be held by a thread that does not exist here, so none is taken.
        """
        self._closed = self._closed or f"it is open in process {self._pid}, of which this is a fork"
        self._appender.forbid(self.raise_if_failed_or_closed)

    def raise_if_failed_or_closed(self) -> NoReturn:
        """Say why nothing is appended any more."""
        self.raise_if_closed()
        self.raise_if_failed()
        raise StoreClosedError(f"{self.paths.root}: the store is being closed")
