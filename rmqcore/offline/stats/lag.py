"""How far consumer groups are behind: their offsets beside the ends of the queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from rmqcore.disk.consumer_offsets import ConsumerOffsets
from rmqcore.disk.paths import StorePaths
from rmqcore.errors import StoreError
from rmqcore.offline.log.log_files import LogFile
from rmqcore.offline.log.window import record_at
from rmqcore.offline.queues.group_position import GroupPosition
from rmqcore.offline.queues.queue_reader import QueueFiles
from rmqcore.offline.queues.queues import max_offset, min_offset, queue_of
from rmqcore.offline.stats.report import ConsumerLag

MOST_OFFSETS = 200_000
"""Offsets of groups that are looked at: each asks for a queue's files."""
QUICK_SIZE = 1 << 16


@dataclass(frozen=True, slots=True)
class _QueueLag:
    lag: int
    lost: int
    first_unread_ms: int | None
    beyond: bool


class LagReader:
    """Finds the lag of groups in a store, and remembers between calls where its queues end.

    Parameters
    ----------
    paths : StorePaths
    """

    def __init__(self, paths: StorePaths) -> None:
        self._paths = paths
        self._queues: dict[tuple[str, int], QueueFiles | None] = {}

    def lags(
        self,
        offsets: ConsumerOffsets,
        files: list[LogFile],
        newest_ms: int | None,
        log_end: int | None = None,
        wanted: Callable[[str, int], bool] = lambda topic, queue_id: True,
    ) -> list[ConsumerLag]:
        """Return the lag by group and topic, of the first 200,000 offsets.

        Parameters
        ----------
        offsets : ConsumerOffsets
            Read before the log was: a group that reads on meanwhile is not ahead of the queues.
        files : list of LogFile
        newest_ms : int or None
            Store time of the newest message.
        log_end : int, optional
            CommitLog offset behind the last message: entries of messages from there on do not count.
        wanted : callable
            Takes topic and queue id, and says whether to look at the queue.
        """
        found: dict[tuple[str, str], list[_QueueLag]] = {}
        ends: dict[tuple[str, int], tuple[int, int]] = {}
        for group, topic, queue_id, queue_offset in islice(_each(offsets), MOST_OFFSETS):
            if not wanted(topic, queue_id):
                continue
            queue = self._queue(topic, queue_id)
            place = topic, queue_id
            if place not in ends:
                ends[place] = _bounds(queue, files, log_end)
            lag = _lag(queue, queue_offset, *ends[place], files)
            found.setdefault((group, topic), []).append(lag)
        return [
            _summed(group, topic, lags, newest_ms) for (group, topic), lags in sorted(found.items())
        ]

    def _queue(self, topic: str, queue_id: int) -> QueueFiles | None:
        """A queue's files as they are now; None where there are none that can be read."""
        place = topic, queue_id
        queue = self._queues.get(place)
        try:
            if queue is None:
                queue = queue_of(self._paths, topic, queue_id)
                self._queues[place] = queue
            else:
                queue.refresh()
        except (
            StoreError,
            OSError,
            ValueError,
        ):  # a link, or a topic that is no name of a directory
            return None
        return queue if queue.max_offset() > 0 else None


def _each(offsets: ConsumerOffsets) -> Iterator[tuple[str, str, int, int]]:
    for group, queues in offsets.groups.items():
        for (topic, queue_id), queue_offset in queues.items():
            yield group, topic, queue_id, queue_offset


def _bounds(queue: QueueFiles | None, files: list[LogFile], log_end: int | None) -> tuple[int, int]:
    if queue is None:
        return 0, 0
    end = max_offset(queue, log_end)
    return min_offset(queue, files[0].file_from_offset if files else 0, end), end


def _lag(
    queue: QueueFiles | None, queue_offset: int, start: int, end: int, files: list[LogFile]
) -> _QueueLag:
    at = GroupPosition(queue_offset, start, end)
    if queue is None or queue_offset >= end:
        return _QueueLag(0, 0, None, at.beyond)
    view = record_at(files, queue.phy_offset(at.first_unread), most_whole=QUICK_SIZE)
    first_unread_ms = None if view is None else view.store_timestamp_ms
    return _QueueLag(at.lost + at.unread, at.lost, first_unread_ms, beyond=False)


def _summed(group: str, topic: str, lags: list[_QueueLag], newest_ms: int | None) -> ConsumerLag:
    first = min(
        (lag.first_unread_ms for lag in lags if lag.first_unread_ms is not None), default=None
    )
    behind = None if first is None or newest_ms is None else max(0, newest_ms - first)
    return ConsumerLag(
        group,
        topic,
        len(lags),
        sum(lag.lag for lag in lags),
        sum(lag.lost for lag in lags),
        first,
        behind,
        sum(lag.beyond for lag in lags),
    )
