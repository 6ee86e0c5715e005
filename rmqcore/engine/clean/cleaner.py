"""One round of cleaning: files of the CommitLog, then what queues and index have of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rmqcore._native.put.mapped_file import MappedFile
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
"""``pause(milliseconds)``: waits, and answers whether the round is to end early."""


class Cleaner:
    """Deletes what is expired; one round at a time.

    A file of the CommitLog goes in three steps: it leaves the list, so that nobody opens it any more; its name goes; and that is
    on disk before the next file's turn. So a crash at any point leaves a log that begins later, and never one with a hole.
    Readers that hold views keep the bytes.

    Parameters
    ----------
    paths : StorePaths
    config : MessageStoreConfig
    log : CommitLog
    queues : ConsumeQueues
    index : IndexService
    check_in_place : callable
        Raises OSError where the directories are no longer those that the store has locked.
    flush_queues : callable
        Called before the first file of a round goes: queues that lost entries in a power cut get them from the log.

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
        self._leaving: MappedFile | None = None  # left the list; its name may still be there
        self._cleaned_up_to = 0  # where the log began when queues and index were last looked at
        self._deleted: dict[Path, int] = {}
        self._kept: str | None = None
        self._forced = self._ended = False
        # Of the last deletion; a round may end it for the round before.
        self._why: CleanReason | None = None

    def round(
        self, now_ms: int, use: DiskUse, trigger: Trigger, done_up_to: int, pause: Pause
    ) -> CleanReport:
        """Delete what the trigger says, and what queues and index have of a log that begins later than it did.

        Parameters
        ----------
        now_ms : int
            Milliseconds since the epoch.
        use : DiskUse
        trigger : Trigger
        done_up_to : int
            CommitLog offset: what lies behind it stays, because it is not on disk or not dispatched.
        pause : callable

        Raises
        ------
        OSError
            The directories are not in their places any more.
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
        """Delete expired files, or with `at_once` any, from the oldest on. The newest that holds anything stays."""
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
        """Delete the file that has left the list; answer whether there is none any more."""
        file = self._leaving
        if file is None:
            return True
        self._log.leave_out(file)
        path = Path(file.path)
        self._check_in_place()
        try:
            occupied = delete_file(path)
        except OSError as error:
            # The next round tries again, and deletes nothing behind it before: the log must not have a hole.
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
            return  # the next round goes on
        try:
            self._deleted |= self._index.delete_expired(min_phy_offset)
        except OSError as error:
            self._keep(error)
        if self._kept == before:
            self._cleaned_up_to = min_phy_offset

    def _keep(self, error: OSError) -> None:
        """Note that a file stays: the next round tries again. But if the file lies in another store by now, that is the error."""
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
