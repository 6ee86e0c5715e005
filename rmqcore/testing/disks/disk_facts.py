"""Facts about the disk below a directory: its file system, the time of a sync, and doubts about a proof there."""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs"})
SYNCS = 15
UNLIKELY_S = 20e-6
"""Seconds: a sync of new data is never faster on a disk."""


@dataclass(frozen=True)
class DiskFacts:
    """File system, mount point and sync time of a disk.

    Attributes
    ----------
    path, file_system, mount_point : str
        The last two are "unknown" if the system does not report them.
    sync_seconds : float
        The median of some writes of 4 KiB with a sync each.
    notes : tuple of str
        Why a proof is not valid for this disk; empty if it is.
    """

    path: str
    file_system: str
    mount_point: str
    sync_seconds: float
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes by name."""
        return asdict(self)

    def __str__(self) -> str:
        sync = (
            f"{self.sync_seconds * 1e6:.0f} us"
            if self.sync_seconds < 1e-3
            else f"{self.sync_seconds * 1e3:.1f} ms"
        )
        lines = [f"{self.path}: {self.file_system} ({self.mount_point}), a sync takes {sync}"]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def disk_facts(folder: Path) -> DiskFacts:
    """Return facts about the disk below an existing folder; a file is created there for a moment."""
    mount_point, file_system = _mount_of(folder)
    seconds = _sync_seconds(folder)
    notes = []
    if file_system in MEMORY:
        notes.append(f"{file_system} is memory: this run proves nothing about a disk")
    if "eatmydata" in os.environ.get("LD_PRELOAD", ""):
        notes.append(
            "libeatmydata is preloaded, which leaves syncs out: this run proves nothing about a disk"
        )
    elif seconds < UNLIKELY_S and file_system not in MEMORY:
        notes.append(
            "a sync returns faster than a disk can answer: something below may leave syncs out"
        )
    return DiskFacts(str(folder), file_system, mount_point, seconds, tuple(notes))


def _mount_of(folder: Path) -> tuple[str, str]:
    """Return the longest mount point above a folder, and its file system."""
    mounts = Path("/proc/self/mounts")
    if not mounts.exists():
        return "unknown", "unknown"
    place, best = folder.resolve(), ("unknown", "unknown")
    for line in mounts.read_text().splitlines():
        _, point, kind, *_ = line.split(" ")
        point = point.replace("\\040", " ")
        if place.is_relative_to(point) and (best[0] == "unknown" or len(point) >= len(best[0])):
            best = point, kind
    return best


def _sync_seconds(folder: Path) -> float:
    path = folder / "sync-time"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        taken = []
        for number in range(SYNCS):
            os.pwrite(fd, bytes([number + 1]) * 4096, 4096 * number)
            began = time.perf_counter()
            os.fsync(fd)
            taken.append(time.perf_counter() - began)
    finally:
        os.close(fd)
        path.unlink()
    return statistics.median(taken)
