"""One round of cleaning: files of the CommitLog, then the queue and index files of deleted messages."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rmqcore._native.files.mapped_file import MappedFile
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.durable import delete_file
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.clean.report import CleanReason, CleanReport
from rmqcore.engine.clean.rules import CleanRules, DiskUse, Trigger
from rmqcore.engine.index.index_service import IndexService
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.engine.queues.consume_queues import ConsumeQueues
from rmqcore.errors import is_of_the_system

Pause = Callable[[int], bool]
"""``pause(milliseconds)``: waits, and returns True to end the round early."""


class Cleaner:
    """Deletes expired files; one round at a time.

    A file of the CommitLog is deleted in three steps: it leaves the list, so that no thread opens it; its name is
    deleted; and the directory is synced before the next file. So after a crash at any point the log starts later and
    has no hole. Readers that hold views keep the bytes.

    Parameters
    ----------
    paths : StorePaths
    config : MessageStoreConfig
    log : CommitLog
    queues : ConsumeQueues
    index : IndexService
    check_in_place : callable
        Raises OSError if the directories are no longer those that the store has locked.
    flush_queues : callable
        Called before the first file of a round is deleted: queues that lose entries in a power cut get them from the
        log.

    Notes
    -----
    Source: RocketMQ 5.5.0 MappedFileQueue#deleteExpiredFileByTime, ConsumeQueueStore.CleanConsumeQueueService.
    """

    def __init__(
        self,
        paths: StorePaths,
        config: MessageStoreConfig,
        log: CommitLog,
        queues: ConsumeQueues,
        index: IndexService,
        *,
        check_in_place: Callable[[], None],
        flush_queues: Callable[[], None],
    ) -> None:
        self.rules = CleanRules(config)
        self._root = paths.root
        self._log = log
        self._queues = queues
        self._index = index
        self._check_in_place = check_in_place
        self._flush_queues = flush_queues
        self._log_pause = config.delete_commit_log_files_interval
        self._queue_pause = config.delete_consume_queue_files_interval
        self._leaving: MappedFile | None = None  # left the list; its name may still exist
        self._cleaned_up_to = 0  # the start of the log at the last cleaning of queues and index
        self._deleted: dict[Path, int] = {}
        self._kept: str | None = None
        self._forced = self._ended = False
        # Result of the last deletion; a round may finish the deletion that the round before started.
        self._why: CleanReason | None = None

    def round(
        self, now_ms: int, use: DiskUse, trigger: Trigger, done_up_to: int, pause: Pause
    ) -> CleanReport:
        """Delete the files that the trigger selects, then queue and index files whose messages the log no longer holds.

        Parameters
        ----------
        now_ms : int
            Milliseconds since the epoch.
        use : DiskUse
        trigger : Trigger
        done_up_to : int
            CommitLog offset: files behind it stay, because they are not on disk or not dispatched.
        pause : callable

        Raises
        ------
        OSError
            The store's directories have been moved or replaced.
        """
        self._deleted = {}
        self._kept = None
        self._forced = False
        if self._finish_leaving() and trigger.pulled:
            self._clean_log(now_ms, trigger, done_up_to, pause)
        in_log = len(self._deleted)
        self._clean_queues_and_index(pause)
        return CleanReport(
            deleted=tuple(self._name(path) for path in self._deleted),
            freed_bytes=sum(self._deleted.values()),
            reason=self._why if in_log else None,
            min_phy_offset=self._log.min_offset,
            log_ratio=use.log,
            queues_ratio=use.queues,
            kept=self._kept,
        )

    def _clean_log(self, now_ms: int, trigger: Trigger, done_up_to: int, pause: Pause) -> None:
        """Delete expired files, or any with `at_once`, oldest first. The newest file with records stays."""
        newest = self._log.max_offset - 1
        for number, file in enumerate(self._log.files.files[: self.rules.batch]):
            end = file.file_from_offset + file.file_size
            due = self.rules.due(
                end, newest, trigger, partial(self.rules.expired, file.path, now_ms)
            )
            if due is None:
                return
            if end > done_up_to:
                self._kept = (
                    f"{file.path}: its messages are not yet on disk, or not yet in the queues"
                )
                return
            if number and pause(self._log_pause):
                return
            if number == 0:
                self._flush_queues()
            self._forced |= due == "forced"
            self._why = trigger.reason(forced=self._forced)
            self._leaving = file
            if not self._finish_leaving():
                return

    def _finish_leaving(self) -> bool:
        """Delete the file that has left the list; return True if no such file is left."""
        file = self._leaving
        if file is None:
            return True
        self._log.leave_out(file)
        path = Path(file.path)
        self._check_in_place()
        try:
            occupied = delete_file(path)
        except OSError as error:
            # The next round retries this file first: deleting a file behind it would leave a hole in the log.
            self._keep(error)
            return False
        self._deleted[path] = occupied
        self._leaving = None
        return True

    def _clean_queues_and_index(self, pause: Pause) -> None:
        min_phy_offset = self._log.min_offset
        if min_phy_offset <= self._cleaned_up_to:
            return
        self._check_in_place()
        self._ended = False
        before = self._kept
        self._deleted |= self._queues.delete_expired(
            min_phy_offset, pause=partial(self._pause_queues, pause), on_error=self._keep
        )
        if self._ended:
            return  # the next round continues
        try:
            self._deleted |= self._index.delete_expired(min_phy_offset)
        except OSError as error:
            self._keep(error)
        if self._kept == before:
            self._cleaned_up_to = min_phy_offset

    def _keep(self, error: OSError) -> None:
        """Note that a file stays, for the next round to retry; raise if the directories were moved or replaced."""
        if not is_of_the_system(error):
            raise error
        self._check_in_place()
        self._kept = f"{error.filename}: {error.strerror}"

    def _pause_queues(self, pause: Pause) -> bool:
        self._ended = pause(self._queue_pause)
        self._check_in_place()  # before the next file is deleted by its name
        return self._ended

    def _name(self, path: Path) -> str:
        return os.fspath(path.relative_to(self._root) if path.is_relative_to(self._root) else path)
