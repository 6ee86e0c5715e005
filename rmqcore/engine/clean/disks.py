"""How full the disks of a store are."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from rmqcore.config import MessageStoreConfig
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.used_space import used_percent
from rmqcore.engine.clean.rules import DiskUse


def disk_use(paths: StorePaths, config: MessageStoreConfig, ratio: float | None = None) -> DiskUse:
    """Ask the disks.

    Parameters
    ----------
    paths : StorePaths
    config : MessageStoreConfig
    ratio : float, optional
        What every disk is to answer.

    Notes
    -----
    Source: RocketMQ 5.5.0 CleanCommitLogService#isSpaceToDelete, DefaultMessageStore#getMajorFileSize.
    """
    emptiest = min(paths.new_file_folders, key=used_percent)
    return DiskUse(
        log=_used(emptiest) if ratio is None else ratio,
        queues=_used(paths.consumequeue) if ratio is None else ratio,
        share=_share(paths, emptiest, config.replicas_per_disk_partition),
    )


def _used(folder: Path) -> float:
    percent = used_percent(folder)
    return percent / 100 if percent >= 0 else -1.0


def _share(paths: StorePaths, folder: Path, stores: int) -> float | None:
    """Bytes of the store by its part of a disk that several stores share; None where it has the disk for itself."""
    if stores <= 1:
        return None
    disk = os.statvfs(folder)
    part = disk.f_blocks * disk.f_frsize // stores
    return _bytes_below((*paths.commitlogs, paths.consumequeue, paths.index)) / part


def _bytes_below(folders: Iterable[Path]) -> int:
    """Lengths of all files, as Java counts them: also of what is sparse."""
    total = 0
    for folder in folders:
        for place, _, names in os.walk(folder):
            total += sum(_length(os.path.join(place, name)) for name in names)
    return total


def _length(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:
        return 0  # deleted meanwhile
