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
        Paths, relative to the store's directory where they lie in it, in the order of deletion: files of the CommitLog, the
        queues and the index.
    freed_bytes : int
        What these files occupied on disk. A file that is still mapped by a reader gives its bytes back when the reader lets go.
    reason : str or None
        ``time`` (an hour of `delete_when`), ``disk`` (`disk_max_used_space_ratio`), ``forced``
        (`disk_space_clean_forcibly_ratio`: also files whose time was not over), ``manual``; None when no file of the CommitLog
        was deleted.
    min_phy_offset : int
        Where the CommitLog begins now.
    log_ratio, queues_ratio : float
        Used part of the disks, 0 to 1, as the round saw it; -1 where a disk cannot be asked.
    kept : str or None
        Why deleting ended before the rules said so.
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
