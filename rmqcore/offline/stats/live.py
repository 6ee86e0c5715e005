"""Live samples of a store in use: rates by topic, the lag of groups, the disk."""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from rmqcore._native.scan.scan import ColumnScan
from rmqcore.disk.consumer_offsets import read_consumer_offsets
from rmqcore.disk.used_space import disk_space
from rmqcore.offline.log.log_files import LogFile
from rmqcore.offline.reader import LogDirectories, StoreReader
from rmqcore.offline.stats.columns import COLUMNS, StatsColumns
from rmqcore.offline.stats.lag import LagReader
from rmqcore.offline.stats.names import Names
from rmqcore.offline.stats.report import ConsumerLag
from rmqcore.offline.tail import BatchTail
from rmqcore.shown.report import Report
from rmqcore.vocabulary.clock import wall_clock_ms

KEPT_SAMPLES = 60
MOST_TOPICS = 10_000
MOST_NAME_BYTES = 4 << 20
"""Bounds of the topics that are told apart; messages of all others count as those of no topic."""
NAME_ROOM = 4 << 20
BATCH_ROWS = 1 << 16
BATCH_BYTES = 1 << 30
LAG_SHARE = 0.1
"""As much of the time goes at most into the lag of groups; where it takes longer it is asked for less often."""


@dataclass(frozen=True, slots=True)
class TopicRate:
    """Messages of a topic.

    Attributes
    ----------
    topic : str or None
        None for all topics that there was no memory for.
    messages, bytes : int
        Since the last sample.
    messages_per_second, bytes_per_second : float
        Since the last sample.
    average_messages_per_second : float
        Over the samples that are kept, at most 60.
    history : tuple of int
        Messages of each of these, the newest last.
    """

    topic: str | None
    messages: int
    bytes: int
    messages_per_second: float
    bytes_per_second: float
    average_messages_per_second: float
    history: tuple[int, ...]


@dataclass(frozen=True)
class LiveSample(Report):
    """Changes since the last sample.

    Attributes
    ----------
    path : str
    time_ms : int
        Of this sample.
    seconds : float
        Since the last one.
    total : TopicRate
        All topics together.
    topics : list of TopicRate
        Those with messages in the samples that are kept, the one with the most bytes in this sample first.
    consumers : list of ConsumerLag
        ``behind_ms`` is the time from the oldest unread message to now.
    min_phy_offset, max_phy_offset : int
        CommitLog bytes: begin of the first file, and how far the log was read.
    log_file_count, log_bytes : int
        The files of the log, and the bytes of the log that they hold.
    disk_used_percent : int
        Of the disk of the CommitLog; -1 where nobody answers.
    disk_free_bytes : int
    restarts : int
        How often the store was made anew while it was looked at.
    damaged_ranges, damaged_bytes : int
        Met since the begin.
    problems : list of str
        What is wrong: the log is gone, or consumer offsets.
    """

    path: str
    time_ms: int
    seconds: float
    total: TopicRate
    topics: list[TopicRate]
    consumers: list[ConsumerLag]
    min_phy_offset: int
    max_phy_offset: int
    log_file_count: int
    log_bytes: int
    disk_used_percent: int
    disk_free_bytes: int
    restarts: int
    damaged_ranges: int
    damaged_bytes: int
    problems: list[str]


Counts = dict[int, tuple[int, int]]
"""Messages and bytes by the number of the topic."""


class LiveStats:
    """Follows a store from the end of its log on; nothing is written, and no lock is taken.

    Parameters
    ----------
    path : path-like
        The store's root, or a ``commitlog`` directory.
    commitlog, follow_links
        As for `StoreReader`.
    clock : callable
        Seconds; for tests.

    Raises
    ------
    NotAStoreError, LinkError, StoreFormatError, FileNotFoundError, NotADirectoryError, ValueError
        As `StoreReader`.

    Notes
    -----
    Thread safety: one thread at a time.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        commitlog: LogDirectories | None = None,
        follow_links: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = StoreReader(path, commitlog=commitlog, follow_links=follow_links)
        self._clock = clock
        self._scan = ColumnScan(
            COLUMNS, batch_rows=BATCH_ROWS, batch_bytes=BATCH_BYTES, topic_room=NAME_ROOM
        )
        self._names = Names(MOST_TOPICS, MOST_NAME_BYTES)
        self._tail = BatchTail(self._reader, self._scan)
        self._samples: deque[tuple[float, Counts]] = deque(maxlen=KEPT_SAMPLES)
        self._lags: list[ConsumerLag] = []
        self._lag_problems: list[str] = []
        self._lag_reader = LagReader(self._reader.paths)
        self._lag_after = 0.0
        self._restarts = 0
        self._last = clock()

    def sample(self) -> LiveSample:
        """Read what was appended since the last call, or since the begin."""
        problems: list[str] = []
        counts: Counts = {}
        files: list[LogFile] = []
        with suppress(FileNotFoundError, NotADirectoryError):  # the store is gone, for now
            counts = self._count()
            files = self._reader.log_files()
        if not files:
            problems.append(f"the log has no files now: {self._reader.paths.commitlog}")
        now = self._clock()
        seconds, self._last = max(now - self._last, 1e-6), now
        self._samples.append((seconds, counts))
        self._update_lags(files)
        space = disk_space(self._reader.paths.commitlog)
        end = self._tail.next_phy_offset
        return LiveSample(
            path=str(self._reader.path),
            time_ms=wall_clock_ms(),
            seconds=seconds,
            total=self._total(),
            topics=self._topics(),
            consumers=self._lags,
            min_phy_offset=files[0].file_from_offset if files else 0,
            max_phy_offset=end,
            log_file_count=len(files),
            log_bytes=sum(min(file.size, max(0, end - file.file_from_offset)) for file in files),
            disk_used_percent=-1 if space is None else space.percent,
            disk_free_bytes=-1 if space is None else space.free_bytes,
            restarts=self._tail.restarts,
            damaged_ranges=sum(found.range_count for found in self._tail.damage),
            damaged_bytes=sum(found.byte_count for found in self._tail.damage),
            problems=problems + self._lag_problems,
        )

    def _count(self) -> Counts:
        counts: Counts = {}
        for batch, first in self._tail.poll():
            columns = StatsColumns.of(batch)
            self._names.update(self._scan)
            numbers = self._names.numbers(columns.topic_id)[first:]
            messages = np.bincount(numbers)
            sizes = np.bincount(numbers, weights=columns.msg_size[first:])
            for number in np.flatnonzero(messages).tolist():
                known = counts.get(number, (0, 0))
                counts[number] = known[0] + int(messages[number]), known[1] + int(sizes[number])
        return counts

    def _update_lags(self, files: list[LogFile]) -> None:
        if self._tail.restarts != self._restarts:
            self._restarts = self._tail.restarts
            self._lag_reader = LagReader(self._reader.paths)  # which remembers where queues ended
        begin = self._clock()
        if begin < self._lag_after:
            return
        offsets = read_consumer_offsets(self._reader.paths)
        self._lag_problems = list(offsets.problems)
        now_ms = wall_clock_ms()
        self._lags = self._lag_reader.lags(offsets, files, now_ms) if offsets.groups else []
        took = self._clock() - begin
        self._lag_after = begin + took / LAG_SHARE

    # ---- rates --------------------------------------------------------------------------------------

    def _total(self) -> TopicRate:
        sums = [
            (
                sum(messages for messages, _ in counts.values()),
                sum(size for _, size in counts.values()),
            )
            for _, counts in self._samples
        ]
        return self._rate(None, sums)

    def _topics(self) -> list[TopicRate]:
        seen: Counter[int] = Counter()
        for _, counts in self._samples:
            seen.update(counts.keys())
        rates = [
            self._rate(
                self._names.topics[number],
                [counts.get(number, (0, 0)) for _, counts in self._samples],
            )
            for number in seen
        ]
        return sorted(
            rates, key=lambda one: (-one.bytes, -one.average_messages_per_second, one.topic or "")
        )

    def _rate(self, topic: str | None, sums: list[tuple[int, int]]) -> TopicRate:
        (messages, size), seconds = sums[-1], self._samples[-1][0]
        history = tuple(count for count, _ in sums)
        return TopicRate(
            topic=topic,
            messages=messages,
            bytes=size,
            messages_per_second=messages / seconds,
            bytes_per_second=size / seconds,
            average_messages_per_second=sum(history) / sum(length for length, _ in self._samples),
            history=history,
        )
