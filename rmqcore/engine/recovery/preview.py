"""Preview of the changes that an open would make to a store, without its lock and by reading only."""

from __future__ import annotations

from rmqcore.config import MessageStoreConfig
from rmqcore.disk.abort import AbortFile
from rmqcore.disk.checkpoint import CheckpointFile
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.store_kinds import name_logs_beside, refuse_to_write
from rmqcore.engine.index.index_service import IndexService
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.engine.queues.consume_queues import ConsumeQueues
from rmqcore.engine.recovery.index.heal import IndexReport, plan_index
from rmqcore.engine.recovery.plan import RecoveryPlan, plan_recovery, refuse_missing_end
from rmqcore.engine.recovery.thoroughness import NORMAL, RecoverMode
from rmqcore.errors import CommitLogMissingError


def preview_recovery(
    paths: StorePaths, config: MessageStoreConfig, mode: RecoverMode = NORMAL
) -> tuple[RecoveryPlan, IndexReport]:
    """Plan the recovery of a store without its lock, only by reading.

    While another process writes the store, the plan holds for one moment: an open after a kill at that moment.

    Returns
    -------
    (RecoveryPlan, IndexReport)
        Plan for log and queues, and report about the index.

    Raises
    ------
    StoreFormatError
        The files' sizes differ from the configured size. StoreKindError: an open refuses the store.
    CommitLogMissingError
        Queues have messages, but the CommitLog has no file; or as `refuse_missing_end`.
    OSError
        A file cannot be read.
    """
    refuse_to_write(paths)
    clean_exit = not AbortFile(paths.abort).exists
    trusted = mode.trusts(clean_exit=clean_exit)
    checkpoint = CheckpointFile(paths.checkpoint).values
    commitlog = CommitLog(paths, config, on_failure=lambda _: None)
    commitlog.load()
    queues = ConsumeQueues(paths, config)
    index = IndexService(paths, config, on_full=lambda _: None)
    try:
        queues.load(clean_exit=trusted)
        queues.recover()
        if clean_exit:
            refuse_missing_end(commitlog, queues, checkpoint, config)
        plan = plan_recovery(
            commitlog,
            queues,
            checkpoint,
            config,
            clean_exit=trusted,
            compared_bytes=mode.compared_bytes(config),
            progress=mode.progress,
            foresee=True,
        )
        chosen = index.choose(
            clean=clean_exit, index_msg_timestamp_ms=checkpoint.index_msg_timestamp_ms
        )
        if not index.writing:
            return plan, IndexReport(files=len(chosen.files), removed_files=tuple(chosen.rest))
        how = mode.index(config, clean_exit=clean_exit and not plan.distrust)
        end = plan.end_phy_offset
        return plan, plan_index(chosen, commitlog, config, end, how, mode.progress)
    except CommitLogMissingError as error:
        name_logs_beside(error, paths)
        raise
    finally:
        queues.close()
        commitlog.release()
