"""How full the disk of a directory is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """Space on a disk. Blocks reserved for the superuser count neither as used nor as free, as in ``df``.

    Attributes
    ----------
    used_bytes, free_bytes : int
    """

    used_bytes: int
    free_bytes: int

    @property
    def percent(self) -> int:
        """Return the used part in percent, rounded up; -1 for a disk of size 0.

        Notes
        -----
        Source: RocketMQ 5.5.0 UtilAll#getDiskPartitionSpaceUsedPercent.
        """
        entire = self.used_bytes + self.free_bytes
        return -(-self.used_bytes * 100 // entire) if entire else -1


def disk_space(directory: Path) -> DiskSpace | None:
    """Return the space on the disk of a directory; None if the directory is missing or the disk does not answer."""
    try:
        found = os.statvfs(directory)
    except OSError:
        return None
    used = found.f_blocks - found.f_bfree
    return DiskSpace(used * found.f_frsize, found.f_bavail * found.f_frsize)


def used_percent(directory: Path) -> int:
    """Return the used part of a directory's disk in percent (`DiskSpace.percent`); -1 if the directory does not exist."""
    space = disk_space(directory)
    return -1 if space is None else space.percent


def free_bytes(path: str | os.PathLike[str]) -> int:
    """Return the free bytes on the disk of a path, which need not exist; -1 if the file system does not report them."""
    place = Path(path).absolute()
    while not place.is_dir() and place != place.parent:
        place = place.parent
    space = disk_space(place)
    return -1 if space is None else space.free_bytes
