"""The parts of an open store: made, loaded and recovered in the order of an open, and released at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from rmqcore.config import MessageStoreConfig
from rmqcore.disk.abort import AbortFile
from rmqcore.disk.checkpoint import CheckpointFile
from rmqcore.disk.locks.store_locks import StoreLocks
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.store_kinds import name_logs_beside, refuse_to_write, unwritten_topics
from rmqcore.disk.swap import finish_swaps
from rmqcore.engine.clean.before_open import clean_before_open, no_room_to_open
from rmqcore.engine.dispatch.dispatcher import Dispatcher
from rmqcore.engine.index.index_service import IndexService
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.engine.log.missing_disk import check_no_disk_is_missing
from rmqcore.engine.queues.consume_queues import ConsumeQueues
from rmqcore.engine.recovery.index.heal import heal_index
from rmqcore.engine.recovery.plan import refuse_missing_end
from rmqcore.engine.recovery.recovery import recover
from rmqcore.engine.recovery.report import RecoveryReport
from rmqcore.engine.recovery.thoroughness import RecoverMode
from rmqcore.engine.store.state import StoreState
from rmqcore.errors import CommitLogMissingError, NotAStoreError, is_no_room

Settle = Callable[[StorePaths, MessageStoreConfig], MessageStoreConfig]


def as_given(_paths: StorePaths, config: MessageStoreConfig) -> MessageStoreConfig:
    """Return the configuration unchanged, without regard to the sizes of the files."""
    return config


class StoreParts:
    """The parts of one open store. The locks are acquired before any file is touched, and released last.

    Parameters
    ----------
    paths : StorePaths
    config : MessageStoreConfig
    state : StoreState
        Receives an OSError after which writes must stop, and records which threads are inside a step of the log.
    create : bool
        Make the directory if it is missing.
    clock : callable, optional
        Returns milliseconds since the epoch; called once per put, inside the append lock.
    mode : RecoverMode
        Amount of the store to compare with the log.
    settle : callable
        Returns the configuration for the existing files; called when the locks keep other processes from changing them.

    Attributes
    ----------
    config : MessageStoreConfig
    locks : StoreLocks
    abort : AbortFile
    checkpoint : CheckpointFile
    log : CommitLog
    queues : ConsumeQueues
    index : IndexService
    dispatcher : Dispatcher
    recovery : RecoveryReport
        Report of the bytes that this open scanned, cut and dispatched again.

    Notes
    -----
    Source: RocketMQ 5.5.0 DefaultMessageStore#load, #start (which takes the lock only after recovery), #shutdown.
    """

    recovery: RecoveryReport

    def __init__(
        self,
        paths: StorePaths,
        config: MessageStoreConfig,
        state: StoreState,
        create: bool,
        clock: Callable[[], int] | None,
        mode: RecoverMode,
        settle: Settle = as_given,
    ) -> None:
        self.paths = paths
        self._settle = settle
        self.config = config
        if not create and not (paths.root.is_dir() and any(map(Path.is_dir, paths.commitlogs))):
            raise NotAStoreError(f"{paths.root}: there is no {paths.commitlog}")
        self.calls = state.calls
        self._loaded: bool  # log, queues and index are loaded, and the queues know their ends
        self.locks = StoreLocks(paths)
        try:
            self.locks.acquire(create=create)
            self._open_with_room(clock, state.pause_or_fail, self._watched(mode))
        except BaseException as error:
            if isinstance(error, CommitLogMissingError):
                name_logs_beside(error, paths)
            self.locks.undo()
            raise

    def _open_with_room(
        self,
        clock: Callable[[], int] | None,
        on_failure: Callable[[OSError], None],
        mode: RecoverMode,
    ) -> None:
        """Open; on a full disk, delete expired files and open again: without an open store no round would clean."""
        while True:
            self._loaded = False
            try:
                self._open(clock, on_failure, mode)
            except OSError as error:
                if not is_no_room(error) or not self._loaded:
                    raise
                done_up_to = self.queues.max_phy_offset
                # Sync queues before their log is deleted: a queue that a power cut takes is made again from the log,
                # without it from 0.
                self.queues.flush(0)
                self._let_go()
                if not clean_before_open(self.paths, self.config, done_up_to):
                    raise no_room_to_open(error, self.paths) from error
            else:
                return

    def _open(
        self,
        clock: Callable[[], int] | None,
        on_failure: Callable[[OSError], None],
        mode: RecoverMode,
    ) -> None:
        refuse_to_write(self.paths)
        self.abort = AbortFile(self.paths.abort)
        self.checkpoint = CheckpointFile(self.paths.checkpoint)
        finish_swaps(self.paths)
        self.config = self._settle(self.paths, self.config)
        self.log = CommitLog(
            self.paths,
            self.config,
            clock=clock,
            on_failure=on_failure,
            calls=self.calls,
            check_in_place=self.locks.check_log,
        )
        self.queues = ConsumeQueues(self.paths, self.config)
        self.index = IndexService(
            self.paths, self.config, on_full=partial(_save_index_end, self.checkpoint)
        )
        if mode.ends_at is not None:
            self.abort.create()  # each open counts as one after a crash until this one has cut the log and returned
        clean_exit = not self.abort.exists
        self.log.load()
        check_no_disk_is_missing(
            self.locks.made_commitlogs,
            self.log.files.files,
            self.checkpoint.values,
            self.config,
        )
        trusted = mode.trusts(clean_exit=clean_exit)
        self.queues.load(clean_exit=trusted)
        for topic in unwritten_topics(self.paths):
            self.log.close_topic(topic)
        self.index.check()
        self.queues.recover(synced=clean_exit)
        if clean_exit:
            refuse_missing_end(self.log, self.queues, self.checkpoint.values, self.config)
        self._loaded = True
        self.recovery = recover(
            self.paths,
            self.config,
            self.log,
            self.queues,
            self.checkpoint,
            clean_exit=trusted,
            compared_bytes=mode.compared_bytes(self.config),
            progress=mode.progress,
            approve=mode.approve,
            ends_at=mode.ends_at,
        )
        self.locks.check_process()
        # From here on an open that fails counts as a crash: the next open indexes again the files that this one drops.
        self.abort.create()
        self._load_index(mode, clean_exit=clean_exit)
        self.locks.check_process()
        self._begin()

    def _watched(self, mode: RecoverMode) -> RecoverMode:
        """Return the mode with a `progress` that may fork: the open ends in the child process."""
        told = mode.progress
        if told is None:
            return mode

        def progress(done: int, most: int) -> None:
            told(done, most)
            self.locks.check_process()

        return replace(mode, progress=progress)

    def _load_index(self, mode: RecoverMode, *, clean_exit: bool) -> None:
        """Open the index files that count, and correct the checkpoint by them."""
        found = heal_index(
            self.index,
            self.log,
            self.config,
            self.recovery.end_phy_offset,
            mode.index(self.config, clean_exit=clean_exit and not self.recovery.distrust),
            clean_exit=clean_exit,
            index_msg_timestamp_ms=self.checkpoint.values.index_msg_timestamp_ms,
            progress=mode.progress,
        )
        self.recovery = replace(self.recovery, index=found)
        # The index may have been ahead of a log that lost its end. The checkpoint must not stay ahead of the index, and
        # a time that no clock shows is damage: then no index file is known to be on disk.
        saved_ms = self.checkpoint.values.index_msg_timestamp_ms
        right_ms = max(0, min(saved_ms, self.index.last_update()[0]))
        if saved_ms != right_ms:
            _save_index_end(self.checkpoint, right_ms)

    def _begin(self) -> None:
        """Accept appends at the end of the log, and dispatch from the ends of queues and index."""
        end_offset = self.recovery.end_phy_offset
        self.log.begin(end_offset)
        self.dispatcher = Dispatcher(self.log, self.queues, self.index, self.config)
        self.dispatcher.cq_from = end_offset
        resume = self.index.resume_offset
        self.dispatcher.index_from = (
            end_offset if resume is None else max(resume, self.log.min_offset)
        )

    def release(self) -> None:
        """Close files and release the lock in any state, without a write."""
        try:
            self._let_go()
        finally:
            self.locks.release()

    def _let_go(self) -> None:
        try:
            self.index.release()
            self.queues.close()
        finally:
            self.log.release()


def _save_index_end(checkpoint: CheckpointFile, end_timestamp_ms: int) -> None:
    """Note in the checkpoint that full index files are on disk up to a store timestamp."""
    checkpoint.update(index_msg_timestamp_ms=end_timestamp_ms)
    checkpoint.flush()
