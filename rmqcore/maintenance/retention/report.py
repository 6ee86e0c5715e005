"""Report of a retention forecast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rmqcore.engine.clean.report import CleanReason
from rmqcore.shown.report import Report


@dataclass(frozen=True, slots=True)
class FileForecast:
    """A file of the CommitLog, and when it goes.

    Attributes
    ----------
    path : str
    file_from_offset : int
        CommitLog offset of its first byte.
    size, disk_bytes : int
        Its length, and what it occupies.
    first_store_timestamp_ms, last_store_timestamp_ms : int or None
        Of its first and last record; None where it has none.
    mtime_ms : int
        When it was last changed: the rules count from there.
    goes_at_ms : int or None
        None where it stays as long as was looked ahead.
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
        As the rules take it: Java has bounds for each.
    reached_at_ms : int or None
        The time of the forecast where it is reached already; None where it is not within what was looked at.
    never : bool
        Never at this rate: the rules delete as much as is written.
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
        Messages that are there.
    first_unread_phy_offset : int or None
        Where the first of them lies.
    loses : int
        How many of them go within the horizon.
    loses_from_ms : int or None
        When the first of them goes.
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
    """The log and its disk at a moment to come."""

    time_ms: int
    log_bytes: int
    used_percent: int


@dataclass(frozen=True)
class Forecast(Report):
    """Forecast for one set of settings.

    Attributes
    ----------
    settings : dict
        What decides on deletions, by Java's names.
    files : tuple of FileForecast
        Those that are there, oldest first.
    levels : tuple of LevelForecast
    settles_at_bytes : int or None
        The most that the log has once as much is deleted as is written; None where it grows as long as was looked ahead.
    refuses_puts_from_ms : int or None
        When the disk is so full that puts are refused.
    groups : tuple of UnreadForecast
        Queues of groups that have lost messages or have not read all, those that lose first in front; 10,000 at most.
    timeline : tuple of TimePoint
        Up to the horizon.
    looked_to_ms : int
        The horizon, or a time before it where the log grows so fast that the forecast ends earlier.
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
    """How fast the log grows.

    Attributes
    ----------
    bytes_per_second : float
        Of the log: what the forecast takes.
    source : str
        Where it is from, as a sentence.
    last_hour, last_day : float or None
        The same by the store times of the last hour and day before the newest message; None where the log does not reach so far
        back.
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
    """A disk of the store; -1 for a disk that cannot be asked."""

    path: str
    holds: str
    used_bytes: int
    free_bytes: int
    used_percent: int


@dataclass(frozen=True)
class RetentionReport(Report):
    """Which files are deleted when and why, at a write rate.

    Attributes
    ----------
    path : str
    now_ms, horizon_ms : int
        From when to when files and groups were looked at.
    min_phy_offset, max_phy_offset : int
        Where the log begins and ends.
    log_bytes : int
        What the log occupies.
    rate : WriteRate
    disks : tuple of DiskFacts
    present : Forecast
        With the settings as they are.
    what_if : Forecast or None
        With those that were asked for.
    notes : tuple of str
        What may not be as the forecast takes it: times in the future, ratios out of order, a disk that cannot be asked.
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
