"""Report of a retention forecast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rmqcore.engine.clean.report import CleanReason
from rmqcore.shown.report import Report


@dataclass(frozen=True, slots=True)
class FileForecast:
    """A file of the CommitLog, and the time of its deletion.

    Attributes
    ----------
    path : str
    file_from_offset : int
        CommitLog offset of its first byte.
    size, disk_bytes : int
        Its length, and the bytes that it occupies.
    first_store_timestamp_ms, last_store_timestamp_ms : int or None
        Store times of its first and last record; None without records.
    mtime_ms : int
        Time of its last change, from which the rules count.
    goes_at_ms : int or None
        Time of its deletion; None if it stays up to the end of the forecast.
    reason : str or None
        ``time``, ``disk`` or ``forced``; see `CleanReport`.
    """

    path: str
    file_from_offset: int
    size: int
    disk_bytes: int
    first_store_timestamp_ms: int | None
    last_store_timestamp_ms: int | None
    mtime_ms: int
    goes_at_ms: int | None = None
    reason: CleanReason | None = None


@dataclass(frozen=True, slots=True)
class LevelForecast:
    """Time when a disk of the store will be fuller than a level.

    Attributes
    ----------
    name : str
        The setting, by Java's name, or ``full``.
    percent : int
        The level that the rules use, within Java's bounds.
    reached_at_ms : int or None
        The forecast's start if it is reached already; None if it is not reached within the forecast.
    never : bool
        True if it is never reached at this rate: the rules delete as much as is written.
    """

    name: str
    percent: int
    reached_at_ms: int | None
    never: bool


@dataclass(frozen=True, slots=True)
class UnreadForecast:
    """Unread messages of a consumer group in a queue, and when they are deleted if the group reads nothing.

    Attributes
    ----------
    group, topic : str
    queue_id : int
    queue_offset : int
        Of the first message that the group has not consumed.
    min_offset, max_offset : int
        Of the queue.
    lost : int
        Messages below the queue's first one that the group had not read.
    unread : int
        Messages that still exist.
    first_unread_phy_offset : int or None
        CommitLog offset of the first of them.
    loses : int
        Number of them that are deleted within the horizon.
    loses_from_ms : int or None
        Time of the first of these deletions.
    """

    group: str
    topic: str
    queue_id: int
    queue_offset: int
    min_offset: int
    max_offset: int
    lost: int
    unread: int
    first_unread_phy_offset: int | None
    loses: int
    loses_from_ms: int | None


@dataclass(frozen=True, slots=True)
class TimePoint:
    """The log and its disk at a future time."""

    time_ms: int
    log_bytes: int
    used_percent: int


@dataclass(frozen=True)
class Forecast(Report):
    """Forecast for one set of settings.

    Attributes
    ----------
    settings : dict
        Settings that decide on deletions, by Java's names.
    files : tuple of FileForecast
        The existing files, oldest first.
    levels : tuple of LevelForecast
    settles_at_bytes : int or None
        The largest log after deletions equal writes; None if it grows up to the end of the forecast.
    refuses_puts_from_ms : int or None
        Time at which the disk is so full that puts are refused.
    groups : tuple of UnreadForecast
        Queues of groups that have lost messages or have not read all, those that lose first in front; 10,000 at most.
    timeline : tuple of TimePoint
        Up to the horizon.
    looked_to_ms : int
        The horizon, or an earlier time if the log grows so fast that the forecast ends before it.
    """

    settings: Mapping[str, Any]
    files: tuple[FileForecast, ...]
    levels: tuple[LevelForecast, ...]
    settles_at_bytes: int | None
    refuses_puts_from_ms: int | None
    groups: tuple[UnreadForecast, ...]
    timeline: tuple[TimePoint, ...]
    looked_to_ms: int

    @property
    def deleted(self) -> tuple[FileForecast, ...]:
        """The files that go within the horizon."""
        return tuple(file for file in self.files if file.goes_at_ms is not None)


@dataclass(frozen=True, slots=True)
class WriteRate:
    """Growth of the log.

    Attributes
    ----------
    bytes_per_second : float
        Growth that the forecast uses.
    source : str
        Source of this rate, as a sentence.
    last_hour, last_day : float or None
        The same by the store times of the last hour and day before the newest message; None where the log does not
        reach so far back.
    beside : float
        Bytes of queues and index for each byte of the log.
    """

    bytes_per_second: float
    source: str
    last_hour: float | None
    last_day: float | None
    beside: float


@dataclass(frozen=True, slots=True)
class DiskFacts:
    """A disk of the store; -1 for a disk that does not report its use."""

    path: str
    holds: str
    used_bytes: int
    free_bytes: int
    used_percent: int


@dataclass(frozen=True)
class RetentionReport(Report):
    """Times and reasons of file deletions, at a write rate.

    Attributes
    ----------
    path : str
    now_ms, horizon_ms : int
        Start and end of the forecast for files and groups.
    min_phy_offset, max_phy_offset : int
        Start and end of the log.
    log_bytes : int
        Bytes that the log occupies.
    rate : WriteRate
    disks : tuple of DiskFacts
    present : Forecast
        Forecast with the current settings.
    what_if : Forecast or None
        Forecast with the other settings; None without any.
    notes : tuple of str
        Doubts about the forecast's basis: times in the future, ratios out of order, a disk that does not report its
        use.
    """

    path: str
    now_ms: int
    horizon_ms: int
    min_phy_offset: int
    max_phy_offset: int
    log_bytes: int
    rate: WriteRate
    disks: tuple[DiskFacts, ...]
    present: Forecast
    what_if: Forecast | None
    notes: tuple[str, ...] = field(default=())
