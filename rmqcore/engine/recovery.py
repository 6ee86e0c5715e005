"""Recovery: a store's log, queues and checkpoint brought to one consistent state when it is opened.

`plan_recovery` (recovery_plan.py) finds by reading what has to be done; `apply_recovery` does it, in this order:

1. Queue entries of messages behind the end of the log are taken away. Java does that second; but a queue whose last entry is
   damage would refuse the messages that it is given.
2. Records from the start of the scan on, or behind the last one that the queues know, are given to the queues again.
3. Log and queues are synced.
4. The checkpoint is set to what is now on disk, and synced.
5. What is behind the end of the log is copied or moved to ``cut/``, the tail of the last file is overwritten with zeros, later
   files are gone.
6. In memory: minimum offsets of the queues, and the queue offset of each one's next message.

Killed between any two of these, the next open comes to the same end: records that were sound stay so; queues ignore what they
have; the checkpoint names the last sound record, so no file behind it is chosen to begin with; and step 5 goes on where it was.

Source: RocketMQ 5.5.0 DefaultMessageStore#recover, CommitLog#recoverNormally, #recoverAbnormally,
ConsumeQueueStore#recoverOffsetTable.
"""

from __future__ import annotations

import os
import time
from typing import Any, Protocol

from rmqcore.config import MessageStoreConfig
from rmqcore.engine.abort import AbortFile
from rmqcore.engine.checkpoint import CheckpointFile
from rmqcore.engine.commitlog import CommitLog
from rmqcore.engine.consume_queues import ConsumeQueues
from rmqcore.engine.dispatch import Dispatcher, QueueSink
from rmqcore.engine.files import find_mapped_files
from rmqcore.engine.paths import StorePaths
from rmqcore.engine.recovery_cut import take_out
from rmqcore.engine.recovery_plan import Queues, RecoveryPlan, plan_recovery
from rmqcore.engine.recovery_report import RecoveryReport, report_of
from rmqcore.engine.recovery_scan import Progress
from rmqcore.engine.recovery_sync import sync_log, sync_queues

__all__ = [
    "RecoveryPlan",
    "RecoveryReport",
    "apply_recovery",
    "plan_recovery",
    "preview_recovery",
    "recover",
]


class RecoveredQueues(Queues, QueueSink, Protocol):
    """What a recovery needs of ConsumeQueues."""

    def truncate(self, phy_offset: int) -> int:
        """Take entries away of messages at or behind an offset; how many there were."""

    def destroy_all(self) -> None:
        """Delete all queues."""

    def correct_min_offsets(self, min_phy_offset: int) -> None:
        """Find each queue's first entry whose message is still in the log."""

    def flush(self, least_pages: int = 0) -> bool:
        """Sync what was written; whether that was everything in the file system."""


def recover(
    paths: StorePaths,
    config: MessageStoreConfig,
    commitlog: CommitLog,
    queues: RecoveredQueues,
    checkpoint: CheckpointFile,
    *,
    clean_exit: bool,
    progress: Progress | None = None,
) -> RecoveryReport:
    """Plan and apply; the store's lock is held.

    Parameters
    ----------
    commitlog : CommitLog
        Loaded; afterwards its `begin` may be called with the report's ``end_phy_offset``.
    queues : ConsumeQueues
        Loaded and recovered.
    clean_exit : bool
        There is no abort file.

    Raises
    ------
    CommitLogMissingError
        There are queues with messages and no CommitLog file at all.
    OSError
        A file cannot be read or written; opening again goes on where this ended.
    """
    plan = plan_recovery(
        commitlog, queues, checkpoint.values, config, clean_exit=clean_exit, progress=progress
    )
    return apply_recovery(plan, paths, config, commitlog, queues, checkpoint)


def preview_recovery(
    paths: StorePaths, config: MessageStoreConfig, progress: Progress | None = None
) -> RecoveryPlan:
    """Plan the recovery of a store that nobody needs to own: without its lock, reading only.

    While another process writes the store the answer is of a moment, and means what a kill at that moment would bring.

    Raises
    ------
    StoreFormatError
        Files of another size than configured.
    CommitLogMissingError
        There are queues with messages and no CommitLog file at all.
    OSError
        A file cannot be read.
    """
    commitlog = CommitLog(paths, config, on_failure=lambda _: None)
    commitlog.load()
    queues = ConsumeQueues(paths, config)
    try:
        queues.load()
        queues.recover()
        return plan_recovery(
            commitlog,
            queues,
            CheckpointFile(paths.checkpoint).values,
            config,
            clean_exit=not AbortFile(paths.abort).exists,
            progress=progress,
        )
    finally:
        queues.close()


def apply_recovery(
    plan: RecoveryPlan,
    paths: StorePaths,
    config: MessageStoreConfig,
    commitlog: CommitLog,
    queues: RecoveredQueues,
    checkpoint: CheckpointFile,
) -> RecoveryReport:
    """Do what a plan says; see the module's description for the order and what a crash leaves."""
    began = time.perf_counter()
    if plan.destroys_queues:
        queues.destroy_all()
    end = plan.end_phy_offset
    truncated = redispatched = 0
    if plan.scan is not None:
        truncated = queues.truncate(end)
        redispatched = _dispatch_again(plan, config, commitlog, queues, everything=truncated > 0)
        # Java looks through all queues once the newest entry reaches the end, which it may do only now.
        late = queues.truncate(end) if redispatched else 0
        if late:
            truncated += late
            _dispatch_again(plan, config, commitlog, queues, everything=True)
    _sync(plan, paths, commitlog, queues)
    _set_checkpoint(plan, checkpoint)
    cut_folder = paths.root / "cut"
    cut_files = take_out(plan.cut, cut_folder)
    _drop_files(paths, config, commitlog, plan)
    queues.correct_min_offsets(plan.min_phy_offset)
    known = queues.queues()
    for topic, queue_id in known:
        commitlog.set_next_queue_offset(topic, queue_id, queues.find(topic, queue_id).max_offset)
    return report_of(
        plan,
        cut_path=os.fspath(cut_folder) if cut_files else None,
        cut_files=cut_files,
        redispatched_records=redispatched,
        truncated_entries=truncated,
        queues=len(known),
        apply_seconds=time.perf_counter() - began,
    )


def _dispatch_again(
    plan: RecoveryPlan,
    config: MessageStoreConfig,
    commitlog: CommitLog,
    queues: Any,
    *,
    everything: bool,
) -> int:
    """Give records to the queues again; answers how many of them have entries.

    `everything`: all that was scanned. Entries were taken away, and a queue may lack more than those: taken from a damaged entry
    on, it lacks the sound ones behind that.
    """
    assert plan.scan is not None
    count = plan.scanned_entries if everything else plan.redispatch_count
    if count:
        dispatcher = Dispatcher(commitlog, queues, None, config)
        dispatcher.cq_from = plan.scan.start_phy_offset if everything else plan.redispatch_from
        while dispatcher.dispatch_once(plan.end_phy_offset):
            pass
    return count


def _sync(
    plan: RecoveryPlan, paths: StorePaths, commitlog: CommitLog, queues: RecoveredQueues
) -> None:
    everything = queues.flush(0)
    if plan.clean_exit or plan.scan is None:
        return
    begin = plan.scan.start_phy_offset
    sync_log(commitlog.files.files, begin, plan.end_phy_offset)
    if not everything:
        sync_queues(paths, queues.queues(), begin)


def _set_checkpoint(plan: RecoveryPlan, checkpoint: CheckpointFile) -> None:
    """Say what is on disk now; never more, also when the file said more before."""
    before = checkpoint.values
    values = {
        "confirm_phy_offset": plan.confirm_phy_offset,
        "master_flushed_offset": min(before.master_flushed_offset, plan.end_phy_offset),
    }
    if plan.scan is not None and plan.scan.records:
        values["logics_physical_offset"] = plan.scan.last_phy_offset
        values["logics_msg_timestamp_ms"] = plan.scan.last_store_timestamp_ms
        values["physic_msg_timestamp_ms"] = plan.scan.last_store_timestamp_ms
    else:
        last = max(0, plan.end_phy_offset - 1)
        values["logics_physical_offset"] = min(before.logics_physical_offset, last)
    checkpoint.update(**values)
    if checkpoint.values != before:
        checkpoint.flush()


def _drop_files(
    paths: StorePaths, config: MessageStoreConfig, commitlog: CommitLog, plan: RecoveryPlan
) -> None:
    """Forget the files behind the end, and delete a last one of no bytes, which Java ignores and deletes too."""
    gone = {*plan.cut.unused, *(part.path for part in plan.cut.later)}
    commitlog.files.replace(file for file in commitlog.files.files if file.path not in gone)
    for path in find_mapped_files(paths.commitlog, config.mapped_file_size_commit_log)[1]:
        path.unlink(missing_ok=True)
