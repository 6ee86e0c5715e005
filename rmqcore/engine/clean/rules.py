"""Java's rules for deleting CommitLog files: which files, at which hour, at which use of the disks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from rmqcore.config import MessageStoreConfig
from rmqcore.config.fields import parse_hours
from rmqcore.engine.clean.report import CleanReason
from rmqcore.vocabulary.units import HOUR_MS

MANUAL_ROUNDS = 20


@dataclass(frozen=True)
class DiskUse:
    """Used space of a store's disks.

    Attributes
    ----------
    log : float
        Used part, 0 to 1, of the emptiest disk that has a CommitLog directory; -1 if no disk reports it.
    queues : float
        The same for the disk of the queues.
    share : float or None
        Bytes of the store divided by the bytes that it may use, if several stores share a disk
        (`replicas_per_disk_partition`).
    """

    log: float
    queues: float
    share: float | None = None


@dataclass(frozen=True)
class Trigger:
    """Why files may be deleted now, and which.

    Attributes
    ----------
    time, disk, manual : bool
        The hour is one of `delete_when`; a disk is too full; a caller or an operator asked for it.
    at_once : bool
        A disk is above `disk_space_clean_forcibly_ratio`: files are deleted before they expire.
    full : str or None
        The disk that is above the warning level: puts are refused from now on.
    roomy : bool
        Puts are accepted again. Between the two levels neither holds, and the last decision stays.
    """

    time: bool
    disk: bool
    manual: bool
    at_once: bool
    full: str | None
    roomy: bool

    @property
    def pulled(self) -> bool:
        """True if files may be deleted in this round."""
        return self.time or self.disk or self.manual

    def reason(self, *, forced: bool) -> CleanReason:
        """Return why a round deletes; `forced`: also files that have not expired."""
        if forced:
            return "forced"
        if self.time:
            return "time"
        return "disk" if self.disk else "manual"


class CleanRules:
    """Cleaning rules of a configuration; ratios outside Java's bounds are set to the nearest bound.

    Notes
    -----
    Source: RocketMQ 5.5.0 DefaultMessageStore.CleanCommitLogService, MessageStoreConfig#getDiskMaxUsedSpaceRatio.
    """

    def __init__(self, config: MessageStoreConfig) -> None:
        self.hours = parse_hours(config.delete_when)
        self.reserved_ms = config.file_reserved_time * HOUR_MS
        self.warning = _within(config.disk_space_warning_level_ratio, 35, 90)
        self.forced = _within(config.disk_space_clean_forcibly_ratio, 30, 85)
        self.most_used = _within(config.disk_max_used_space_ratio, 10, 95)
        self.most_share = config.logical_disk_space_clean_forcibly_threshold
        self.may_force = config.clean_file_forcibly_enable
        self.batch = config.delete_file_batch_max

    def look(self, now_ms: int, use: DiskUse, *, manual: bool = False) -> Trigger:
        """Return why files may be deleted now, and which.

        Parameters
        ----------
        now_ms : int
            Milliseconds since the epoch; the hour is that of the local time zone.
        use : DiskUse
        manual : bool
            A caller or an operator asked for it.
        """
        full = self._above_warning(use)
        forced = use.log > self.forced or use.queues > self.forced
        disk = forced or self._above_most(use)
        if not forced and use.share is not None:
            forced = use.share > self.most_share
            disk = disk or forced
        return Trigger(
            time=self.is_hour(now_ms),
            disk=disk,
            manual=manual,
            at_once=forced and self.may_force,
            full=full,
            # As in Java: the queues' disk counts only if the log's is below its second level, and then resets that
            # decision first.
            roomy=full is None and use.log <= self.forced,
        )

    def is_hour(self, now_ms: int) -> bool:
        """Return whether a moment is in an hour of `delete_when`, local time."""
        return time.localtime(now_ms / 1000).tm_hour in self.hours

    def _above_warning(self, use: DiskUse) -> str | None:
        for what, ratio in (("CommitLog", use.log), ("queues", use.queues)):
            if ratio > self.warning:
                return (
                    f"the disk of the {what} is {ratio:.0%} full, more than {self.warning:.0%} "
                    "(disk_space_warning_level_ratio)"
                )
            if ratio > self.forced:
                break
        return None

    def _above_most(self, use: DiskUse) -> bool:
        if use.share is not None:
            return use.share > self.most_used
        # A disk that does not report its use counts as too full: expired files are deleted at any hour.
        return any(ratio < 0 or ratio > self.most_used for ratio in (use.log, use.queues))

    def expired(self, path: str, now_ms: int) -> bool:
        """Return whether a file has expired, by its mtime; a file that others deleted counts as expired, as in Java."""
        try:
            mtime_ms = os.stat(path).st_mtime_ns // 1_000_000
        except FileNotFoundError:
            return True
        return self.is_over(mtime_ms, now_ms)

    def is_over(self, mtime_ms: int, now_ms: int) -> bool:
        """Return whether a file last changed at `mtime_ms` has expired."""
        return now_ms >= mtime_ms + self.reserved_ms

    @staticmethod
    def due(
        end_offset: int, newest: int, trigger: Trigger, expired: Callable[[], bool]
    ) -> Literal["expired", "forced"] | None:
        """Return why a file is deleted; None if the file and all files behind it stay.

        Parameters
        ----------
        end_offset : int
            CommitLog offset behind the file.
        newest : int
            CommitLog offset of the last written byte: its file stays.
        trigger : Trigger
            A pulled trigger.
        expired : callable
            Returns whether the file has expired.
        """
        if end_offset > newest:
            return None
        if expired():
            return "expired"
        return "forced" if trigger.at_once else None


def _within(percent: int, least: int, most: int) -> float:
    return min(max(percent, least), most) / 100
