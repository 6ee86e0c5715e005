"""All threads of one store: started together, and stopped in the order in which their work depends on each other."""

from __future__ import annotations

import weakref
from _thread import start_new_thread
from typing import TYPE_CHECKING

from rmqcore._native.threads.bell import Bell
from rmqcore._native.threads.mutex import Mutex
from rmqcore.services.allocate import Allocate
from rmqcore.services.clean import Clean
from rmqcore.services.deadlines import Deadlines
from rmqcore.services.exit import close_at_exit
from rmqcore.services.flush import FlushCommitLog
from rmqcore.services.flush_consume_queue import FlushConsumeQueue
from rmqcore.services.group_commit import GroupCommit
from rmqcore.services.reput import Reput
from rmqcore.services.scrub import Scrub
from rmqcore.services.service import LOOK_AGAIN, Service
from rmqcore.services.wakeups import Wakeups
from rmqcore.vocabulary.status import PutMessageStatus

if TYPE_CHECKING:
    from rmqcore.engine.store.store import MessageStore


class Services:
    """The threads of one open store.

    The store keeps this object and waits through it; the threads hold the store only during a step.

    Parameters
    ----------
    store : MessageStore
        Open, recovered, writable.
    """

    def __init__(self, store: MessageStore) -> None:
        wakeups = Wakeups()
        self._store = weakref.ref(store)
        self._reput = Reput(store, wakeups)
        self._group_commit: GroupCommit | None = None
        self._flush: Service
        self._deadlines = Deadlines(store)
        if store.config.syncs_puts:
            self._flush = self._group_commit = GroupCommit(store, wakeups, self._reput)
            allocate = Allocate(store)
        else:
            self._flush = timed = FlushCommitLog(store, wakeups)
            allocate = Allocate(store, timed)
        # In the order of stopping. Without puts no new file is needed. Then the log goes to disk, then all of it
        # (SYNC_FLUSH: the part on disk) is dispatched, then queues and checkpoint go to disk.
        self._clean = Clean(store)
        self._all: tuple[Service, ...] = (
            *((Scrub(store),) if store.config.scrub_enable else ()),
            self._clean,
            allocate,
            self._flush,
            self._deadlines,
            self._reput,
            FlushConsumeQueue(store),
        )
        self._stopped = self._launched = False
        self._launching = Mutex()
        self._launch_error: BaseException | None = None
        self._launch_bell = Bell()

    def start(self) -> None:
        """Start all threads or no thread: when one cannot be started, the threads before it are stopped again."""
        close_at_exit(self._store)
        try:
            # By a thread of their own, since signal handlers run only in the main thread.
            start_new_thread(self._launch, ())
            while not self._launched:
                self._launch_bell.wait(LOOK_AGAIN)
            self._raise_launch_error()
        except BaseException:
            self.stop()
            raise

    def _raise_launch_error(self) -> None:
        if self._launch_error is not None:
            raise self._launch_error

    def _launch(self) -> None:
        try:
            self._launching.run(self._start_all)
        except BaseException as error:  # noqa: BLE001 the caller of the launch raises it again
            self._launch_error = error
        finally:
            self._launched = True
            self._launch_bell.ring()

    def _start_all(self) -> None:
        for service in self._all:
            if self._stopped:
                return
            service.start()

    def stop(self) -> None:
        """Ask every thread to finish its work and end, and wait for all of them.

        Call it after the last put. May be repeated: after a Ctrl-C during the call, the next call stops the other
        threads.
        """
        self._stopped = True
        # A running launch ends first; a later one starts no thread.
        self._launching.run(lambda: None)
        for service in self._all:
            service.stop()

    @property
    def running(self) -> bool:
        """True if any thread is alive."""
        return any(service.running for service in self._all)

    def clean(self) -> None:
        """Begin a round of cleaning now."""
        self._clean.wake()

    def wait_flushed(self, end_offset: int, timeout_ms: int) -> PutMessageStatus:
        """Wait for the disk under SYNC_FLUSH (`GroupCommit.wait`); PUT_OK at once under ASYNC_FLUSH."""
        if self._group_commit is None:
            return PutMessageStatus.PUT_OK
        return self._group_commit.wait(end_offset, timeout_ms)

    def flush_soon(self) -> None:
        """Flush now: a callback waits for it."""
        self._flush.wake()

    def look_soon(self) -> None:
        """Answer the callbacks now whose time is over, or all if the store has failed."""
        self._deadlines.wake()

    def dispatch_soon(self) -> None:
        """Wake the dispatch thread now; a running session ends."""
        self._reput.wake()

    def wait_dispatched(self, end_offset: int, timeout: float | None = None) -> bool:
        """Wait until messages below `end_offset` are in queues and index (`Reput.wait`); seconds."""
        return self._reput.wait(end_offset, timeout)
