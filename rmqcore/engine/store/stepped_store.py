"""The repeated steps of a store's threads, as methods: without threads a program calls them itself."""

from __future__ import annotations

from collections.abc import Callable

from rmqcore._native.threads.bell import Bell
from rmqcore.engine.clean.cleaner import Pause
from rmqcore.engine.clean.report import CleanReport
from rmqcore.engine.index.index_service import IndexService
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.engine.store.offset_waiters import OffsetWaiters
from rmqcore.engine.store.store_clean import StoreClean
from rmqcore.engine.store.store_dispatch import StoreDispatch
from rmqcore.engine.store.store_flush import StoreFlush
from rmqcore.engine.store.store_scrub import StoreScrub
from rmqcore.engine.store.store_state import StoreState


class SteppedStore:
    """The steps of a MessageStore (`rmqcore.services.steps`). Each is one finite piece of work, safe to call from any thread."""

    _dispatch: StoreDispatch
    _flush: StoreFlush
    _scrub: StoreScrub
    _clean: StoreClean
    _state: StoreState
    _log: CommitLog
    _index: IndexService

    def dispatch_once(self) -> int:
        """Put one window of the log into queues and index; answer its bytes, 0 when there is nothing (yet).

        Raises
        ------
        DiskFullError, TooManyFilesError
            There is no disk space for entries, or no file descriptor; the next call tries again. Until then puts are answered
            SERVICE_NOT_AVAILABLE.
        StoreFailedError
            A write failed, now or earlier.
        CorruptMessageError
            A record of the log fails its check; nothing behind it is dispatched.
        """
        return self._dispatch.once()

    def dispatch_until(self, bell: Bell, *, follow: bool) -> bool:
        """Dispatch the new records, with `follow` also those that arrive; return True to be called again at once.

        Concurrent puts do not wait for the GIL. It ends when the bell rings, when nothing has come for some milliseconds
        (False), or after a tenth of a second.

        Parameters
        ----------
        bell : Bell
        follow : bool
            Not under SYNC_FLUSH, where each flush makes a new end.

        Raises
        ------
        DiskFullError, TooManyFilesError, StoreFailedError, CorruptMessageError
            As `dispatch_once`.
        """
        return self._dispatch.until(bell, follow)

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
        return self._flush.flush_log(least_pages)

    @property
    def flush_waiters(self) -> OffsetWaiters:
        """Callbacks that wait for the disk; `flush` notes there how far it came, and the thread that repeats it answers them."""
        return self._state.flush_waiters

    @property
    def replica_waiters(self) -> OffsetWaiters:
        """Callbacks that wait for followers; `replicated` answers them."""
        return self._state.replica_waiters

    def flush_consume_queues(self, least_pages: int = 0) -> None:
        """Bring the queues' entries to disk; with 0 the checkpoint learns how far they are."""
        self._flush.flush_queues(least_pages)

    def write_checkpoint(self) -> None:
        """Bring the checkpoint to disk."""
        self._flush.write_checkpoint()

    def prepare_space(self) -> bool:
        """Allocate and populate one step ahead of the writer; answer whether more is wanted now.

        Raises
        ------
        DiskFullError, TooManyFilesError
            There is no disk space or no file descriptor; puts use the space already allocated, and the next call tries again.
        StoreFailedError
            The disk refuses for another reason, now or earlier.
        """
        return self._flush.prepare_space()

    def scrub_once(self) -> int:
        """Compare a piece of log, queues and index; answer its bytes, 0 at the end of a round. `stats` tells of problems."""
        return self._scrub.once()

    def on_append(self, ring: Callable[[], object]) -> None:
        """Call `ring` once, after the next append."""
        self._log.on_append(ring)

    def on_low_space(self, ring: Callable[[], object]) -> None:
        """Call `ring` once, when `prepare_space` has something to do."""
        self._log.on_low_space(ring)
        self._index.on_low_space(ring)

    def clean_once(
        self,
        *,
        now_ms: int | None = None,
        disk_ratio: float | None = None,
        pause: Pause | None = None,
    ) -> CleanReport:
        """Make one round of cleaning: delete what Java's rules say, and see whether the disk is too full for puts.

        Files of the CommitLog are deleted from the oldest on, `delete_file_batch_max` at most: at an hour of `delete_when`, or
        where a disk is used by more than `disk_max_used_space_ratio`, those that were not changed for `file_reserved_time`; where
        it is used by more than `disk_space_clean_forcibly_ratio`, all but the newest. Then queue and index files that have no
        message any more. Above `disk_space_warning_level_ratio` puts are answered SERVICE_NOT_AVAILABLE, until a round finds the
        disk below `disk_space_clean_forcibly_ratio`.

        Parameters
        ----------
        now_ms : int, optional
            Stands in for the clock: milliseconds since the epoch. A file's age is counted from its mtime.
        disk_ratio : float, optional
            Stands in for the used part of all disks, 0 to 1.
        pause : callable, optional
            ``pause(milliseconds)`` is called between two files, instead of a sleep; True ends the round.

        Returns
        -------
        CleanReport

        Raises
        ------
        ValueError
            `disk_ratio` is not between 0 and 1.
        StoreFailedError
            The directories are not in their places any more, or files cannot be deleted.

        Notes
        -----
        Views that the program holds stay valid; their disk space is freed when they are dropped. What is not yet on disk, or
        not yet in the queues, is not deleted; Java deletes it.

        Source: RocketMQ 5.5.0 DefaultMessageStore.CleanCommitLogService, ConsumeQueueStore.CleanConsumeQueueService,
        IndexService#deleteExpiredFile.
        """
        return self._clean.once(now_ms, disk_ratio, pause)

    def clean_expired_consume_queues(self) -> list[tuple[str, int]]:
        """Delete the queues whose messages have all left the log, as mqadmin cleanExpiredCQ does; answer topics and queue ids.

        The store never does this by itself: the queue may belong to a deleted topic, or to one that gets one message per month.
        The next message of a deleted queue gets queue offset 0. Topics that RocketMQ itself uses are left alone.

        Raises
        ------
        StoreFailedError
            A file cannot be deleted, now or earlier.

        Notes
        -----
        Source: RocketMQ 5.5.0 DefaultMessageStore#cleanExpiredConsumerQueue, ConsumeQueueStore#cleanExpired.
        """
        return self._clean.expired_queues()

    def execute_delete_files_manually(self) -> None:
        """Delete expired files at any hour in the next 20 cleaning rounds, as mqadmin deleteExpiredCommitLog does.

        Notes
        -----
        Source: RocketMQ 5.5.0 DefaultMessageStore#executeDeleteFilesManually.
        """
        self._clean.by_hand()
