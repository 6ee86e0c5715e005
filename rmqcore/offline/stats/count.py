"""`stats` counts a store's messages: one scan of columns, and sums over whole batches of them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import closing

from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.disk.consumer_offsets import read_consumer_offsets
from rmqcore.offline.info import log_times
from rmqcore.offline.log.conditions import Conditions
from rmqcore.offline.log.damage import DamageList
from rmqcore.offline.log.log_files import list_log_files
from rmqcore.offline.log.long_record import LongRecords
from rmqcore.offline.log.store_paths import LogDirectories, store_paths
from rmqcore.offline.log.walk import Blank, LogWalk, Progress
from rmqcore.offline.missing_log import StoreEnd
from rmqcore.offline.queues.compacted_topics import list_compacted
from rmqcore.offline.remote.store_url import StorageOptions, StoreUrl, store_place
from rmqcore.offline.stats.columns import COLUMNS, WITH_QUEUE, StatsColumns
from rmqcore.offline.stats.few_messages import FewMessages
from rmqcore.offline.stats.groups import Groups
from rmqcore.offline.stats.lag import LagReader
from rmqcore.offline.stats.report import GroupStats, StatsReport
from rmqcore.offline.stats.timeline import Timeline

BY = ("hour", "queue")
BATCH_ROWS = 1 << 16
BATCH_BYTES = 1 << 30
NAME_ROOM = 8 << 20
"""Bytes of memory for the topics of a batch and of those before it, and as many for the tags."""
TIMELINE_BUCKETS = 240


def stats(
    path: str | os.PathLike[str] | StoreUrl,
    *,
    by: Iterable[str] = (),
    topics: Iterable[str] | None = None,
    queue_ids: Iterable[int] | None = None,
    tags: Iterable[str] | None = None,
    keys: Iterable[str] | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    start_phy_offset: int | None = None,
    end_phy_offset: int | None = None,
    commitlog: LogDirectories | None = None,
    follow_links: bool = False,
    progress: Progress | None = None,
    storage_options: StorageOptions | None = None,
) -> StatsReport:
    """Count messages by topic: bytes, rates, tags, sizes and latencies; and how far consumer groups are behind.

    The log is read once, nothing is written, and memory is bounded whatever the store holds. The store may be in use.

    Parameters
    ----------
    path : path-like
        The store's root, or a ``commitlog`` directory; may be a URL.
    by : iterable of str
        ``hour`` and ``queue``: also count by these.
    topics, queue_ids, tags, keys, since_ms, until_ms, start_phy_offset, end_phy_offset
        As for `StoreReader.messages`; the lag of consumers is that of the selected topics and queues.
    commitlog, follow_links
        As for `StoreReader`.
    progress : callable, optional
        Called with (bytes done, bytes in all).
    storage_options : mapping of str to any, optional
        As of `rmqcore.read`.

    Raises
    ------
    NotAStoreError, LinkError, StoreFormatError, FileNotFoundError, NotADirectoryError, RemoteStorageError, ValueError
        As `rmqcore.read`. ValueError also for another `by`.
    """
    asked = {by} if isinstance(by, str) else set(by)
    if not asked.issubset(BY):
        raise ValueError(f"by {sorted(asked.difference(BY))}: expected {' or '.join(BY)}")
    begin = time.perf_counter()
    wanted = Conditions.of(
        topics, queue_ids, tags, keys, since_ms, until_ms, start_phy_offset, end_phy_offset
    )
    place = store_place(path, storage_options)
    with closing(store_paths(place, commitlog=commitlog, follow_links=follow_links)) as paths:
        offsets = read_consumer_offsets(paths)  # before the log: groups read on meanwhile
        files = list_log_files(paths)
        damage = DamageList()
        scan = ColumnScan(
            WITH_QUEUE if "queue" in asked else COLUMNS,
            filter=wanted.native(),
            stop_offset=end_phy_offset,
            batch_rows=BATCH_ROWS,
            batch_bytes=BATCH_BYTES,
            topic_room=NAME_ROOM,
        )
        walk: LogWalk[Batch] = LogWalk(
            files,
            scan,
            damage,
            start=start_phy_offset,
            stop=end_phy_offset,
            long_records=LongRecords(),
            progress=progress,
            unreadable_files=True,
            end=StoreEnd(paths, start_phy_offset, end_phy_offset),
        )
        groups = Groups(by_hour="hour" in asked, by_queue="queue" in asked)
        timeline, few = Timeline(), FewMessages()
        for batch in walk.run():
            if isinstance(batch, Blank) or not batch.num_rows:
                continue
            columns = StatsColumns.of(batch)
            groups.add(columns, scan)
            timeline.add(columns.store_timestamp_ms, columns.msg_size)
            few.add(columns)
        newest_ms, log_end = few.end if wanted == Conditions() else log_times(files)[1:]
        width_ms, buckets = timeline.buckets(TIMELINE_BUCKETS)
        return StatsReport(
            path=str(place),
            total=groups.total(),
            by=("topic", *(name for name in BY if name in asked)),
            groups=_in_order(groups.groups(), by_hour="hour" in asked),
            more_groups=groups.has_others,
            consumers=LagReader(paths).lags(
                offsets,
                files,
                newest_ms,
                log_end,
                lambda topic, queue_id: _has(wanted, topic, queue_id),
            ),
            largest=few.largest(files),
            newest=few.newest(files),
            timeline_width_ms=width_ms,
            timeline=buckets,
            damage=list(damage),
            problems=list(offsets.problems),
            seconds=time.perf_counter() - begin,
            compacted=list_compacted(paths, wanted.topics, since_ms=since_ms, until_ms=until_ms),
        )


def _has(wanted: Conditions, topic: str, queue_id: int) -> bool:
    """Return True if messages of a queue can be among those that are wanted."""
    return (wanted.topics is None or topic in wanted.topics) and (
        wanted.queue_ids is None or queue_id in wanted.queue_ids
    )


def _in_order(groups: Iterable[GroupStats], *, by_hour: bool) -> list[GroupStats]:
    """The largest first; hours of a topic after each other, and messages of no topic at the end."""
    if by_hour:
        return sorted(
            groups, key=lambda one: (one.topic is None, one.topic, one.hour_ms, one.queue_id or 0)
        )
    return sorted(
        groups, key=lambda one: (one.topic is None, -one.bytes, one.topic, one.queue_id or 0)
    )
