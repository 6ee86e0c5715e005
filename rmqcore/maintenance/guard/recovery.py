"""Entries that a recovery removes: those of messages behind the log's end, and those by which consumers reach messages."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import groupby

import numpy as np

from rmqcore.disk.misnamed import Misnamed
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.recovery.plan import RecoveryPlan
from rmqcore.maintenance.guard.knowledge import (
    Losses,
    QueueLoss,
    check_drop,
    each_entries,
    plausible,
)
from rmqcore.offline.log.log_files import list_log_files, mapped_file_size
from rmqcore.offline.queues.queues import QueueFiles


def recovery_losses(paths: StorePaths, plan: RecoveryPlan) -> Losses:
    """Count the entries that a plan removes from queues.

    A plan with `destroys_queues` loses what its operator asked to lose, by the setting ``recover_without_commit_log``.

    Raises
    ------
    OSError
        A file cannot be read.
    """
    losses = Losses(displaced=plan.aside.displaced)
    if plan.destroys_queues:
        return losses
    files = list_log_files(paths)
    size = mapped_file_size(files) if files else 0
    for topic, queue_id in plan.truncated_queues:
        queue = QueueFiles(topic, queue_id, paths.queue(topic, queue_id))
        losses.add(_beyond(queue, plan.end_phy_offset, size))
    if not plan.findings.keeps_misnamed:
        go = [one for one in plan.findings.misnamed if one.at_the_end]
        for (topic, queue_id), found in groupby(go, key=_queue_of):
            offsets = [one.queue_offset for one in found]
            losses.add(QueueLoss(topic, queue_id, len(offsets), offsets[-1] + 1, offsets[0], 0))
    return losses


def approved(
    paths: StorePaths, drop: int | None, *, agreed: bool = False
) -> Callable[[RecoveryPlan], object]:
    """Return what an open calls with its plan, to end there if it would lose more than the operator agreed to.

    Parameters
    ----------
    paths : StorePaths
    drop : int or None
        As of `check_drop`.
    agreed : bool
        The operator has seen the plan and agreed to it.
    """

    def check(plan: RecoveryPlan) -> None:
        if not agreed:
            check_drop(recovery_losses(paths, plan), os.fspath(paths.root), drop)

    return check


def _queue_of(entry: Misnamed) -> tuple[str, int]:
    return entry.topic, entry.queue_id


def _beyond(queue: QueueFiles, log_end: int, log_file_size: int) -> QueueLoss:
    """The entries of a queue that lead to messages at or behind the end of the log."""
    count = end = known = 0
    for first, entries in each_entries(queue):
        fits = plausible(entries, log_file_size)
        beyond = fits & (entries["phy_offset"] + entries["msg_size"].astype(np.int64) > log_end)
        count += int(np.count_nonzero(beyond))
        numbers, kept = np.flatnonzero(fits), np.flatnonzero(fits & ~beyond)
        end = first + int(numbers[-1]) + 1 if len(numbers) else end
        known = first + int(kept[-1]) + 1 if len(kept) else known
    return QueueLoss(queue.topic, queue.queue_id, count, end, known, 0)
