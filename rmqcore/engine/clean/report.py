"""Report of a cleaning round."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from rmqcore.shown.report import Report

CleanReason = Literal["time", "disk", "forced", "manual"]


@dataclass(frozen=True, slots=True)
class CleanReport(Report):
    """Files deleted by a cleaning round, and why.

    Attributes
    ----------
    deleted : tuple of str
        Paths, relative to the store's directory where they lie in it, in the order of deletion: files of the CommitLog,
        the queues and the index.
    freed_bytes : int
        Bytes that these files occupied on disk. The disk frees those of a mapped file when its last reader releases it.
    reason : str or None
        ``time`` (an hour of `delete_when`), ``disk`` (`disk_max_used_space_ratio`), ``forced``
        (`disk_space_clean_forcibly_ratio`: also files that had not expired), ``manual``; None if no file of the
        CommitLog was deleted.
    min_phy_offset : int
        CommitLog offset at which the log starts after the round.
    log_ratio, queues_ratio : float
        Used part of the disks, 0 to 1, as the round saw it; -1 if a disk does not report it.
    kept : str or None
        Why deleting ended early.
    """

    deleted: tuple[str, ...]
    freed_bytes: int
    reason: CleanReason | None
    min_phy_offset: int
    log_ratio: float
    queues_ratio: float
    kept: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes as plain values, for JSON."""
        return {**asdict(self), "deleted": list(self.deleted)}
