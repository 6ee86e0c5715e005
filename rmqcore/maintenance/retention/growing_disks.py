"""Disks that fill as a log grows, and their use as the cleaning rules see it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rmqcore.config import MessageStoreConfig
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.used_space import DiskSpace, disk_space
from rmqcore.engine.clean.disks import length_of_files, store_part, use_of_percents
from rmqcore.engine.clean.rules import DiskUse
from rmqcore.maintenance.retention.report import DiskFacts

FOREVER = float("inf")
SPREAD, ELSEWHERE = -1, -2
"""Numbers in place of a disk: for future files, on all disks that get new files; for files on other disks."""


@dataclass
class GrowingDisk:
    """A disk; other files on it are taken as constant.

    Attributes
    ----------
    path : Path
    space : DiskSpace or None
        Its current space; None if the disk does not report it.
    log_part, beside_part : float
        Its part of the log's growth, and of the growth of queues and index: 0 to 1.
    """

    path: Path
    space: DiskSpace | None
    log_part: float
    beside_part: float
    added: float = 0.0

    @property
    def entire(self) -> int:
        """Bytes that can be used in all."""
        return 0 if self.space is None else self.space.used_bytes + self.space.free_bytes

    @property
    def used(self) -> int:
        """Used bytes, now in the forecast."""
        return (
            0 if self.space is None else min(self.entire, self.space.used_bytes + int(self.added))
        )

    @property
    def percent(self) -> int:
        """Disk usage as the rules see it, in percent: the larger of the log's emptiest disk and the queues' disk."""
        return -1 if self.space is None else DiskSpace(self.used, self.entire - self.used).percent

    def growth(self, beside: float) -> float:
        """Bytes for each byte of the log."""
        return self.log_part + self.beside_part * beside

    def room_until_next(self) -> float:
        """Bytes until its next percentage, or until it is full."""
        if self.space is None or self.used >= self.entire:
            return FOREVER
        return min(self.entire * max(self.percent, 0) // 100 + 1, self.entire) - self.used


@dataclass
class SharedPart:
    """The part of a disk that a store may use which shares it with others: `length` is that of all its files."""

    part: int
    length: int


class GrowingDisks:
    """All disks of a store.

    Parameters
    ----------
    disks : sequence of GrowingDisk
    queues : int
        Which of them has the queues.
    beside : float
        Bytes of queues and index for each byte of the log.
    shared : SharedPart, optional
    """

    def __init__(
        self,
        disks: Sequence[GrowingDisk],
        queues: int,
        beside: float,
        shared: SharedPart | None = None,
    ) -> None:
        self.disks = disks
        self.beside = beside
        self.shared = shared
        self._queues = queues
        self._logs = [disk for disk in disks if disk.log_part > 0]

    def use(self) -> DiskUse:
        """Disk usage as the rules see it."""
        share = None if self.shared is None else self.shared.length / self.shared.part
        percents = [disk.percent for disk in self._logs]
        return use_of_percents(percents, self.disks[self._queues].percent, share)

    @property
    def percent(self) -> int:
        """Disk usage as the rules see it, in percent: the larger of the log's emptiest disk and the queues' disk."""
        return max(min(disk.percent for disk in self._logs), self.disks[self._queues].percent)

    @property
    def full(self) -> bool:
        """True if a growing disk has no free bytes."""
        return any(
            disk.space is not None and disk.used >= disk.entire and disk.growth(self.beside) > 0
            for disk in self.disks
        )

    def grow(self, log_bytes: float) -> None:
        """Add a number of bytes to the log."""
        for disk in self.disks:
            disk.added += log_bytes * disk.growth(self.beside)

    def free(self, device: int, log_bytes: float) -> None:
        """Remove a file of the log from a disk (its number, or `SPREAD`), with its share of queues and index."""
        for number, disk in enumerate(self.disks):
            own = disk.log_part if device == SPREAD else float(number == device)
            disk.added -= log_bytes * (own + disk.beside_part * self.beside)

    def log_bytes_until_next(self) -> float:
        """Bytes of log until the percentage of one of the disks changes."""
        rooms = (
            disk.room_until_next() / disk.growth(self.beside)
            for disk in self.disks
            if disk.growth(self.beside) > 0
        )
        return min(rooms, default=FOREVER)


def growing_disks(paths: StorePaths, config: MessageStoreConfig, beside: float) -> GrowingDisks:
    """Return the disks of a store; queues and index that do not exist yet will lie in its root."""
    folders = [folder if folder.is_dir() else paths.root for folder in paths.new_file_folders]
    queues = paths.consumequeue if paths.consumequeue.is_dir() else paths.root
    by_device: dict[int, GrowingDisk] = {}
    for folder in (*folders, queues):
        device = os.stat(folder).st_dev
        if device not in by_device:
            by_device[device] = GrowingDisk(folder, disk_space(folder), 0.0, 0.0)
    for folder in folders:
        by_device[os.stat(folder).st_dev].log_part += 1 / len(folders)
    by_device[os.stat(queues).st_dev].beside_part = 1.0
    shared = None
    if config.replicas_per_disk_partition > 1:
        part = store_part(folders[0], config.replicas_per_disk_partition)
        shared = SharedPart(max(part, 1), length_of_files(paths))
    place = list(by_device).index(os.stat(queues).st_dev)
    return GrowingDisks(list(by_device.values()), place, beside, shared)


def disk_facts(disks: GrowingDisks) -> tuple[DiskFacts, ...]:
    """The disks as they are now."""
    found = []
    for disk in disks.disks:
        holds = [
            name
            for name, part in (("log", disk.log_part), ("queues, index", disk.beside_part))
            if part
        ]
        space = disk.space
        found.append(
            DiskFacts(
                str(disk.path),
                ", ".join(holds),
                -1 if space is None else space.used_bytes,
                -1 if space is None else space.free_bytes,
                -1 if space is None else space.percent,
            )
        )
    return tuple(found)
