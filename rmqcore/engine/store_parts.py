"""Opening a store: lock, load, recover, and the parts put together; and the way back."""

from __future__ import annotations

from collections.abc import Callable

from rmqcore.config import MessageStoreConfig
from rmqcore.engine.abort import AbortFile
from rmqcore.engine.checkpoint import CheckpointFile
from rmqcore.engine.commitlog import CommitLog
from rmqcore.engine.consume_queues import ConsumeQueues
from rmqcore.engine.dispatch import Dispatcher
from rmqcore.engine.files import make_directory
from rmqcore.engine.index_service import IndexService
from rmqcore.engine.lock import StoreLock
from rmqcore.engine.paths import StorePaths
from rmqcore.engine.recovery import recover
from rmqcore.engine.recovery_report import RecoveryReport
from rmqcore.engine.swap import finish_swaps
from rmqcore.errors import NotAStoreError


class StoreParts:
    """The parts of one open store. The lock is taken first and let go of last.

    Parameters
    ----------
    paths : StorePaths
    config : MessageStoreConfig
    create : bool
    clock : callable, optional
    on_failure : callable
        Told an OSError after which nothing may be written.

    Notes
    -----
    Source: RocketMQ 5.5.0 DefaultMessageStore#load, #start (which takes the lock only after recovery), #shutdown.
    """

    recovery: RecoveryReport

    def __init__(
        self,
        paths: StorePaths,
        config: MessageStoreConfig,
        *,
        create: bool,
        clock: Callable[[], int] | None,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self.paths = paths
        self.config = config
        if create:
            make_directory(paths.root)
            make_directory(paths.commitlog)
        elif not paths.commitlog.is_dir():
            raise NotAStoreError(f"{paths.root}: there is no {paths.commitlog}")
        self.lock = StoreLock(paths.lock).acquire()
        try:
            self._open(clock, on_failure)
        except BaseException:
            self.lock.release()
            raise

    def _open(
        self, clock: Callable[[], int] | None, on_failure: Callable[[BaseException], None]
    ) -> None:
        self.abort = AbortFile(self.paths.abort)
        self.checkpoint = CheckpointFile(self.paths.checkpoint)
        self.commitlog = CommitLog(self.paths, self.config, clock=clock, on_failure=on_failure)
        self.queues = ConsumeQueues(self.paths, self.config)
        self.index = IndexService(self.paths, self.config, on_full=self._index_file_full)
        clean_exit = not self.abort.exists
        finish_swaps(self.paths)
        self.commitlog.load()
        self.queues.load()
        self.index.check()
        self.queues.recover(synced=clean_exit)
        self.recovery = recover(
            self.paths,
            self.config,
            self.commitlog,
            self.queues,
            self.checkpoint,
            clean_exit=clean_exit,
        )
        # From here on an open that does not come to its end is one more crash: what the index loses now is put again then.
        self.abort.create()
        end_offset = self.recovery.end_phy_offset
        self.index.load(
            clean=clean_exit, index_msg_timestamp_ms=self.checkpoint.values.index_msg_timestamp_ms
        )
        self.index.trim(end_offset)
        # The index may have been ahead of a log that lost its end: no value of the checkpoint may be.
        indexed_ms = self.index.last_update()[0]
        if self.checkpoint.values.index_msg_timestamp_ms > indexed_ms:
            self.checkpoint.update(index_msg_timestamp_ms=indexed_ms)
            self.checkpoint.flush()
        self.commitlog.begin(end_offset)
        self.dispatcher = Dispatcher(self.commitlog, self.queues, self.index, self.config)
        self.dispatcher.cq_from = end_offset
        resume = self.index.resume_offset
        self.dispatcher.index_from = (
            end_offset if resume is None else max(resume, self.commitlog.min_offset)
        )

    def _index_file_full(self, end_timestamp_ms: int) -> None:
        self.checkpoint.update(index_msg_timestamp_ms=end_timestamp_ms)
        self.checkpoint.flush()

    def note_log_flushed(self) -> None:
        """Let the checkpoint say how far the log is on disk."""
        if self.commitlog.flushed_timestamp_ms:
            self.checkpoint.update(physic_msg_timestamp_ms=self.commitlog.flushed_timestamp_ms)

    def flush_queues(self, least_pages: int) -> None:
        """Bring queue entries to disk; with 0 pages all of them, which the checkpoint then says."""
        dispatcher = self.dispatcher
        phy_offset, timestamp_ms = dispatcher.last_phy_offset, dispatcher.last_store_timestamp_ms
        if least_pages == 0:
            # A recovery begins where the checkpoint says that queues were complete, and looks at nothing before it. Were the log
            # not on disk up to there, a power cut could leave a hole in it that nobody finds. Java leaves this out.
            self.commitlog.flush()
        self.queues.flush(least_pages)
        if least_pages == 0:
            self.index.flush_full()
        if least_pages == 0 and phy_offset >= 0:
            self.checkpoint.update(
                logics_msg_timestamp_ms=timestamp_ms, logics_physical_offset=phy_offset
            )

    def finish(self) -> None:
        """Bring everything to disk and say that the exit is clean; the log is flushed and dispatched."""
        self.flush_queues(0)
        self.index.flush()
        if self.config.message_index_enable and self.config.index_file_write_enable:
            # An index folder says that everything in the log was looked at, also when nothing had a key.
            make_directory(self.paths.index)
        self.commitlog.close()
        self.checkpoint.flush()
        self.abort.remove()

    def release(self) -> None:
        """Let go of files and lock, whatever happened before."""
        try:
            self.index.close()
            self.queues.close()
        finally:
            self.commitlog.files.replace(())
            self.lock.release()
