"""All threads of one store: started together, stopped in the order in which their work depends on each other."""

from __future__ import annotations

import weakref

from rmqcore.services.allocate import Allocate
from rmqcore.services.exit import close_at_exit
from rmqcore.services.flush import FlushCommitLog
from rmqcore.services.flush_consume_queue import FlushConsumeQueue
from rmqcore.services.group_commit import GroupCommit
from rmqcore.services.reput import Reput
from rmqcore.services.service import Service
from rmqcore.services.steps import StoreSteps
from rmqcore.services.wakeups import Wakeups
from rmqcore.status import PutMessageStatus


class Services:
    """The threads of one open store.

    The store keeps this object and asks it to wait; the threads hold the store only while they work for it.

    Parameters
    ----------
    store : StoreSteps
        Open, recovered, writable.
    """

    def __init__(self, store: StoreSteps) -> None:
        wakeups = Wakeups()
        self._store = weakref.ref(store)
        self._reput = Reput(store, wakeups)
        self._group_commit: GroupCommit | None = None
        flush: Service
        if store.config.flush_disk_type == "SYNC_FLUSH":
            flush = self._group_commit = GroupCommit(store, wakeups, self._reput)
        else:
            flush = FlushCommitLog(store, wakeups)
        # In the order of stopping. No new file once nothing is put. Then the log is on disk, then everything of it (SYNC_FLUSH:
        # everything that is on disk) is dispatched, then queues and checkpoint go to disk.
        self._all: tuple[Service, ...] = (
            Allocate(store),
            flush,
            self._reput,
            FlushConsumeQueue(store),
        )

    def start(self) -> None:
        """Start all threads, or none: when one cannot be started those that were are stopped again."""
        close_at_exit(self._store)
        try:
            for service in self._all:
                service.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Let every thread finish its work and end; returns when all have.

        Call it when nothing is put any more. May be repeated: a Ctrl-C in the middle leaves the rest to the next call.
        """
        for service in self._all:
            service.stop()

    @property
    def running(self) -> bool:
        """Whether any thread is alive."""
        return any(service.running for service in self._all)

    def wait_flushed(self, end_offset: int, timeout_ms: int) -> PutMessageStatus:
        """Wait for the disk under SYNC_FLUSH (`GroupCommit.wait`); PUT_OK at once under ASYNC_FLUSH."""
        if self._group_commit is None:
            return PutMessageStatus.PUT_OK
        return self._group_commit.wait(end_offset, timeout_ms)

    def wait_dispatched(self, end_offset: int, timeout: float | None = None) -> bool:
        """Wait until messages below `end_offset` are in queues and index (`Reput.wait`); seconds."""
        return self._reput.wait(end_offset, timeout)
