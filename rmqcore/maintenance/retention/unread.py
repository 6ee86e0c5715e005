"""Unread messages of consumer groups, and when they are deleted."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from rmqcore.disk.consumer_offsets import ConsumerOffsets
from rmqcore.disk.paths import StorePaths
from rmqcore.maintenance.retention.report import FileForecast, UnreadForecast
from rmqcore.offline.queues.group_position import GroupPosition
from rmqcore.offline.queues.queues import max_offset, min_offset, queue_names, queue_of

MOST_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Position:
    """A group's position in an existing queue; `phy_offset` returns the CommitLog offset in an entry of the queue."""

    group: str
    topic: str
    queue_id: int
    at: GroupPosition
    phy_offset: Callable[[int], int]


def positions(
    paths: StorePaths, offsets: ConsumerOffsets, log_min: int, log_end: int
) -> Iterator[Position]:
    """Yield the positions of all groups in existing queues, by topic and queue."""
    by_queue: dict[tuple[str, int], list[tuple[str, int]]] = defaultdict(list)
    for group, queues in offsets.groups.items():
        for queue, queue_offset in queues.items():
            by_queue[queue].append((group, queue_offset))
    if not by_queue:
        return
    for topic, queue_id in queue_names(paths):
        groups = by_queue.get((topic, queue_id))
        if groups is None:
            continue
        files = queue_of(paths, topic, queue_id, leave_out_links=True)
        end = max_offset(files, log_end)
        start = min_offset(files, log_min, end)
        for group, queue_offset in groups:
            at = GroupPosition(queue_offset, start, end)
            yield Position(group, topic, queue_id, at, files.phy_offset)


def unread_forecast(
    positions: Iterable[Position], files: tuple[FileForecast, ...]
) -> tuple[UnreadForecast, ...]:
    """Forecast the messages deleted unread for each position with these files; the earliest losses come first."""
    going = [file for file in files if file.goes_at_ms is not None]
    kept_from = going[-1].file_from_offset + going[-1].size if going else 0
    found = [
        _forecast(position, files, kept_from)
        for position in positions
        if position.at.lost or position.at.unread
    ]
    found.sort(key=_urgency)
    return tuple(found[:MOST_ROWS])


def _urgency(one: UnreadForecast) -> tuple[bool, int, int, int, int]:
    goes_ms = one.loses_from_ms
    return goes_ms is None, goes_ms or 0, -one.loses, -one.lost, -one.unread


def _forecast(
    position: Position, files: tuple[FileForecast, ...], kept_from: int
) -> UnreadForecast:
    at = position.at
    first = at.first_unread
    phy_offset = position.phy_offset(first) if at.unread else None
    file = None if phy_offset is None else _file_of(files, phy_offset)
    loses = 0
    if file is not None and file.goes_at_ms is not None:
        entries = range(first, at.max_offset)
        loses = bisect_right(entries, kept_from - 1, key=position.phy_offset)
    return UnreadForecast(
        position.group,
        position.topic,
        position.queue_id,
        at.queue_offset,
        at.min_offset,
        at.max_offset,
        at.lost,
        at.unread,
        phy_offset,
        loses,
        None if file is None else file.goes_at_ms,
    )


def _file_of(files: tuple[FileForecast, ...], phy_offset: int) -> FileForecast | None:
    at = bisect_right(files, phy_offset, key=lambda file: file.file_from_offset) - 1
    return (
        files[at] if at >= 0 and phy_offset < files[at].file_from_offset + files[at].size else None
    )
