"""Used space of a store's disks."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from rmqcore.config import MessageStoreConfig
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.used_space import used_percent
from rmqcore.engine.clean.rules import DiskUse


def disk_use(paths: StorePaths, config: MessageStoreConfig, ratio: float | None = None) -> DiskUse:
    """Return how full the disks of a store are.

    Parameters
    ----------
    paths : StorePaths
    config : MessageStoreConfig
    ratio : float, optional
        Used part that replaces the answer of every disk.

    Notes
    -----
    Source: RocketMQ 5.5.0 CleanCommitLogService#isSpaceToDelete, DefaultMessageStore#getMajorFileSize.
    """
    percents = {folder: used_percent(folder) for folder in paths.new_file_folders}
    emptiest = min(percents, key=percents.__getitem__)
    share = None
    if config.replicas_per_disk_partition > 1:
        share = length_of_files(paths) / store_part(emptiest, config.replicas_per_disk_partition)
    if ratio is not None:
        return DiskUse(ratio, ratio, share)
    return use_of_percents(percents.values(), used_percent(paths.consumequeue), share)


def use_of_percents(logs: Iterable[int], queues: int, share: float | None = None) -> DiskUse:
    """Return the disk use that the rules see for these percentages; -1: the disk does not report its use."""
    log = min(logs)
    return DiskUse(
        log=log / 100 if log >= 0 else -1.0,
        queues=queues / 100 if queues >= 0 else -1.0,
        share=share,
    )


def store_part(folder: Path, stores: int) -> int:
    """Return the bytes of a disk that each of several stores may use."""
    disk = os.statvfs(folder)
    return disk.f_blocks * disk.f_frsize // stores


def length_of_files(paths: StorePaths) -> int:
    """Return the sum of the lengths of all log, queue and index files; holes count too, as in Java."""
    total = 0
    for folder in (*paths.commitlogs, paths.consumequeue, paths.index):
        for place, _, names in os.walk(folder):
            total += sum(_length(os.path.join(place, name)) for name in names)
    return total


def _length(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:
        return 0  # deleted after it was listed
