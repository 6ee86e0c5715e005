"""Report of a backup."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rmqcore.offline.log.damage import DamageRange
from rmqcore.shown.report import Report

CLEAN, CRASHED = "clean", "unclean, as after a crash"


@dataclass
class Way:
    """Files that got into the copy in one way.

    Attributes
    ----------
    files : int
    bytes : int
        Lengths of the files, or of the parts of them, that were handled; holes count too.
    """

    files: int = 0
    bytes: int = 0

    def add(self, count: int) -> None:
        """Count a file of `count` bytes."""
        self.files += 1
        self.bytes += count


@dataclass(frozen=True)
class BackupReport(Report):
    """Files copied by a backup, and the result of its checks.

    Attributes
    ----------
    path, dest : str
        The store and its copy.
    watermark_phy_offset : int
        The copy has every record of the log before this CommitLog offset.
    watermark_store_timestamp_ms : int or None
        Store time of the last of these records; None if this run met no new one.
    min_phy_offset : int
        CommitLog offset at which the copy's log starts.
    linked, cloned, copied, unchanged : Way
        Files that have a second name now, share their blocks, were written, and were there already. A file that grew
        counts as copied with the bytes that are new.
    deleted : int
        Number of files deleted from the copy, because the store no longer has them.
    deleted_meanwhile : list of str
        Files that the store's cleaner deleted before the copy. The copy has no older files either.
    torn : list of str
        Configuration files that are not whole in the store.
    skipped : list of str
        Links, FIFOs and devices in the store: they are not copied.
    unreadable : list of str
        Places that could not be read: they are zeros in the copy.
    missing : list of DamageRange
        Messages behind the end of the log that queues, index or checkpoint know: the log of the store lacks them. After
        an unclean exit that alone is not damage: a power cut leaves it.
    state : str
        ``clean``, or ``unclean, as after a crash``: an open will recover the copy.
    state_reason : str
        Why the copy is unclean, as after a crash.
    fsck : dict or None
        What fsck found in the copy: ``exit_code``, ``records``, ``totals``, and ``in_source``, whether the store has
        all errors that the copy has. None where it was not checked.
    seconds : float
    """

    path: str
    dest: str
    watermark_phy_offset: int
    watermark_store_timestamp_ms: int | None
    min_phy_offset: int
    linked: Way
    cloned: Way
    copied: Way
    unchanged: Way
    deleted: int
    deleted_meanwhile: list[str]
    torn: list[str]
    skipped: list[str]
    unreadable: list[str]
    missing: list[DamageRange]
    state: str
    state_reason: str
    fsck: dict[str, Any] | None
    seconds: float
    exit_code: int = field(default=0)
