"""Recovery: brings a store's log, queues and checkpoint to one consistent state when the store is opened.

`plan_recovery` (plan.py) finds the work to do by reading; `apply_recovery` does it, in this order:

1. Missing or wrong queue entries are written, each at the place that its record's QUEUEOFFSET names (`heal`). Java
   appends the records from some file on to the ends of their queues: behind missing entries that is the wrong place.
2. Each queue ends behind its last record: entries behind it are removed, and the bytes behind the ends are zeroed.
   Places before it for which the log has no record get fillers. If no queue exists, and the log has each queue's
   records in order from its first one, the queues are made during the scan (`QueueMaker`) or by dispatch, instead of 1
   and 2.
3. Log and queues are synced.
4. The checkpoint is set to the offsets and times that are on disk now, and synced.
5. Bytes behind the end of the log are copied or moved to ``cut/``; then the tail of the last file is overwritten with
   zeros, and later files are deleted.
6. In memory: the minimum offset of each queue, and the queue offset of its next message.

After a kill between any two of these, the next open reaches the same state: sound records stay sound; correct entries
are not written again; the checkpoint names the last sound record, so the scan does not start in a file behind it; and
step 5 continues where it stopped.

Source: RocketMQ 5.5.0 DefaultMessageStore#recover, CommitLog#recoverNormally, #recoverAbnormally,
ConsumeQueueStore#recoverOffsetTable.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np

from rmqcore._native.queues.consume_queue import ConsumeQueue
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.checkpoint import CheckpointFile
from rmqcore.disk.inside.files import unlink
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.dispatch.dispatcher import Dispatcher
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.engine.log.mapped_files import find_mapped_files
from rmqcore.engine.queues.consume_queues import ConsumeQueues
from rmqcore.engine.recovery import heal
from rmqcore.engine.recovery.aside import Aside
from rmqcore.engine.recovery.cut import take_out
from rmqcore.engine.recovery.file_scan import LostBytes
from rmqcore.engine.recovery.plan import RecoveryPlan, heal_by_plan, plan_recovery
from rmqcore.engine.recovery.queue_maker import QueueMaker
from rmqcore.engine.recovery.report import RecoveryReport, report_of
from rmqcore.engine.recovery.scan import Progress
from rmqcore.engine.recovery.sync import sync_log, sync_queues
from rmqcore.errors import StoreFormatError

__all__ = [
    "RecoveryPlan",
    "RecoveryReport",
    "apply_recovery",
    "plan_recovery",
    "recover",
]


def recover(
    paths: StorePaths,
    config: MessageStoreConfig,
    commitlog: CommitLog,
    queues: ConsumeQueues,
    checkpoint: CheckpointFile,
    *,
    clean_exit: bool,
    compared_bytes: int | None = None,
    progress: Progress | None = None,
    approve: Callable[[RecoveryPlan], object] | None = None,
    ends_at: int | None = None,
) -> RecoveryReport:
    """Plan a recovery and apply the plan; the store's lock is held.

    Parameters
    ----------
    commitlog : CommitLog
        Loaded. After the recovery its `begin` may be called with the report's ``end_phy_offset``.
    queues : ConsumeQueues
        Loaded and recovered.
    clean_exit : bool
        True if the store had no abort file.
    compared_bytes : int, optional
        As for `plan_recovery`.
    approve : callable, optional
        Called with the plan, which names the messages that no queue will hold. An exception that it raises ends the
        recovery before the first change.
    ends_at : int, optional
        As for `plan_recovery`.

    Raises
    ------
    CommitLogMissingError
        Queues have messages, but the CommitLog has no file.
    OSError
        A file cannot be read or written; the next open continues where this one stopped.
    """
    maker = QueueMaker(queues)
    plan = plan_recovery(
        commitlog,
        queues,
        checkpoint.values,
        config,
        clean_exit=clean_exit,
        compared_bytes=compared_bytes,
        progress=progress,
        maker=None if approve else maker,
        foresee=approve is not None,
        ends_at=ends_at,
    )
    if approve is not None:
        approve(plan)
    return apply_recovery(plan, paths, config, commitlog, queues, checkpoint, made=maker.made)


def apply_recovery(
    plan: RecoveryPlan,
    paths: StorePaths,
    config: MessageStoreConfig,
    commitlog: CommitLog,
    queues: ConsumeQueues,
    checkpoint: CheckpointFile,
    *,
    made: bool = False,
) -> RecoveryReport:
    """Carry out a plan, in the order of the module's docstring, which also names the state after a crash.

    `made`: the queues were made while the log was scanned.
    """
    began = time.perf_counter()
    if plan.destroys_queues:
        queues.destroy_all()
    healed, (truncated, filled), aside = heal.HealResult(), (0, 0), Aside()
    if plan.queues_by_dispatch:
        healed = _dispatch(plan, config, commitlog, queues, made=made)
    elif plan.scan is not None:
        healed = heal_by_plan(plan.findings, commitlog, queues, config, plan.end_phy_offset, aside)
        truncated, filled = _settle(plan, healed, commitlog, queues)
    _sync(plan, paths, commitlog, queues)
    _set_checkpoint(plan, checkpoint)
    cut_files = take_out(plan.cut, paths.cut)
    _drop_files(paths, config, commitlog, plan)
    queues.correct_min_offsets(plan.min_phy_offset)
    known = queues.queues()
    for topic, queue_id in known:
        queue = queues.find(topic, queue_id)
        assert queue is not None
        commitlog.set_next_queue_offset(topic, queue_id, queue.max_offset)
    return report_of(
        plan,
        cut_path=os.fspath(paths.cut) if cut_files else None,
        cut_files=cut_files,
        healed=healed,
        filled_entries=filled,
        truncated_entries=truncated,
        aside=aside.in_no_queue(queues),
        queues=len(known),
        apply_seconds=time.perf_counter() - began,
    )


def _dispatch(
    plan: RecoveryPlan,
    config: MessageStoreConfig,
    commitlog: CommitLog,
    queues: ConsumeQueues,
    *,
    made: bool,
) -> heal.HealResult:
    """Make all queues from the log, in half of the time that healing takes (a tenth with thousands of queues)."""
    if not made:
        _dispatch_log(Dispatcher(commitlog, queues, None, config), commitlog, plan.end_phy_offset)
    result = heal.HealResult()
    for place in queues.queues():
        queue = queues.find(*place)
        assert queue is not None
        result.queues[place] = queue.max_offset
    result.healed_entries = sum(result.queues.values())
    return result


def _dispatch_log(dispatcher: Dispatcher, commitlog: CommitLog, end_phy_offset: int) -> None:
    while dispatcher.dispatch_once(end_phy_offset):
        pass
    if dispatcher.cq_from < end_phy_offset:
        raise StoreFormatError(
            f"{commitlog.folders[0]}: the log ends at {dispatcher.cq_from}, expected records up to "
            f"{end_phy_offset}: files were removed during the open"
        )


def _settle(
    plan: RecoveryPlan,
    healed: heal.HealResult,
    commitlog: CommitLog,
    queues: ConsumeQueues,
) -> tuple[int, int]:
    """End the queues where the log ends them; return the numbers of entries removed and of fillers written.

    An entry whose record is lost stays, as in Java: its queue offset is used, and must not go to another message.
    """
    found, log_end = plan.findings, plan.end_phy_offset
    starts = [file.file_from_offset for file in commitlog.files.files]
    lost = LostBytes(starts, commitlog.file_size, found.damage)

    stay = {(one.topic, one.queue_id, one.queue_offset) for one in found.staying}

    def fits(queue: ConsumeQueue, queue_offset: int, entry: np.void) -> bool:
        if (queue.topic, queue.queue_id, queue_offset) in stay:
            return True
        if lost.held(entry, starts[0], log_end):
            return True
        return heal.names_queue(commitlog, log_end, queues, queue, queue_offset, entry)

    fill = {**healed.lowest, **dict.fromkeys(found.file_ends, 0)}
    return queues.settle(found.ends, fill, found.compared_from, starts[0], log_end, fits)


def _sync(
    plan: RecoveryPlan, paths: StorePaths, commitlog: CommitLog, queues: ConsumeQueues
) -> None:
    everything = queues.flush(0)
    queues.sync_places()
    if (plan.clean_exit and not plan.distrust) or plan.scan is None:
        return
    begin = plan.scan.start_phy_offset
    sync_log(commitlog.files.files, begin, plan.end_phy_offset)
    if not everything:
        sync_queues(paths, queues.queues(), begin)


def _set_checkpoint(plan: RecoveryPlan, checkpoint: CheckpointFile) -> None:
    """Set the checkpoint to the state on disk: never to more, even if it named more before."""
    before = checkpoint.values
    values = {
        "confirm_phy_offset": plan.confirm_phy_offset,
        "master_flushed_offset": max(0, min(before.master_flushed_offset, plan.end_phy_offset)),
    }
    if plan.scan is not None and plan.scan.records:
        values["logics_physical_offset"] = plan.scan.last_phy_offset
        values["logics_msg_timestamp_ms"] = plan.scan.last_store_timestamp_ms
        values["physic_msg_timestamp_ms"] = plan.scan.last_store_timestamp_ms
    else:
        last = max(0, plan.end_phy_offset - 1)
        values["logics_physical_offset"] = max(0, min(before.logics_physical_offset, last))
    checkpoint.update(**values)
    if checkpoint.values != before:
        checkpoint.flush()


def _drop_files(
    paths: StorePaths, config: MessageStoreConfig, commitlog: CommitLog, plan: RecoveryPlan
) -> None:
    """Forget the files behind the end of the log, and delete an empty last file, as Java does."""
    gone = {*plan.cut.unused, *(part.path for part in plan.cut.later)}
    commitlog.files.replace(file for file in commitlog.files.files if file.path not in gone)
    for path in find_mapped_files(paths.commitlogs, config.mapped_file_size_commit_log)[1]:
        unlink(path, missing_ok=True)
