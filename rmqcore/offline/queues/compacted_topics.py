"""What compacted topics have in ``compaction/``, and how much of it the CommitLog has not any more."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection
from dataclasses import dataclass

from rmqcore.disk.paths import MAX_OFFSET, StorePaths
from rmqcore.disk.read_range import Unreadable
from rmqcore.disk.store_kinds import COMPACTED
from rmqcore.errors import LinkError, RocksdbError, RocksdbMissingError, is_unreadable
from rmqcore.offline.log.log_files import list_log_files
from rmqcore.offline.queues.compacted_queue import each_compacted_queue
from rmqcore.offline.queues.queues import max_offset, queue_of
from rmqcore.shown.report import Report


@dataclass(slots=True)
class CompactedTopic(Report):
    """A compacted topic.

    Attributes
    ----------
    topic : str
    queues : int
        Its queues in ``compaction/compactionLog``.
    messages : int
        Messages that a get can return from there: RocketMQ keeps the newest one of each key, and in files that it has not
        compacted yet also older ones.
    only_here : int
        How many of them lie before the first message of their queue in the CommitLog, which has deleted them.
    """

    topic: str
    queues: int = 0
    messages: int = 0
    only_here: int = 0

    @property
    def place(self) -> str:
        """Directory of the topic's messages in the store."""
        return f"{COMPACTED}/{self.topic}"

    @property
    def sentence(self) -> str:
        """How many messages there are, and how many of them only there."""
        what = "message" if self.messages == 1 else "messages"
        queues = "queue" if self.queues == 1 else "queues"
        return (
            f"{self.topic}: {self.messages:,} live {what} in {self.queues:,} {queues}, "
            f"{self.only_here:,} of them not in the log"
        )


def list_compacted(
    paths: StorePaths,
    topics: Collection[str] | None = None,
    *,
    since_ms: int | None = None,
    until_ms: int | None = None,
    unreadable: Unreadable | None = None,
) -> list[CompactedTopic]:
    """Count the messages of compacted topics.

    Parameters
    ----------
    paths : StorePaths
    topics : collection of str, optional
        Only these; a queue that RocketMQ has not compacted does not count.
    since_ms, until_ms : int, optional
        Only messages stored in this time, the end exclusive.
    unreadable : callable, optional
        Receives a directory that cannot be listed, or is a link. By default it is an error if `topics` are given; a read of the
        whole log does without it.

    Raises
    ------
    LinkError, OSError
        As said of `unreadable`.
    """
    found: dict[str, CompactedTopic] = {}
    try:
        _count(found, paths, topics, since_ms, until_ms, unreadable)
    except OSError as error:
        if not isinstance(error, LinkError) and not is_unreadable(error):
            raise
        if unreadable is not None:
            unreadable(str(error.filename), error)
        elif topics:
            raise
    return list(found.values())


def _count(
    found: dict[str, CompactedTopic],
    paths: StorePaths,
    topics: Collection[str] | None,
    since_ms: int | None,
    until_ms: int | None,
    unreadable: Unreadable | None,
) -> None:
    log_min: int | None = None
    for queue in each_compacted_queue(paths, unreadable, topics=topics):
        if log_min is None:
            files = list_log_files(paths)
            log_min = files[0].file_from_offset if files else MAX_OFFSET
        one = found.setdefault(queue.topic, CompactedTopic(queue.topic))
        one.queues += 1
        below = _first_in_log(paths, queue.topic, queue.queue_id, log_min)
        messages, only_here = queue.entries.count(below, since_ms, until_ms)
        one.messages += messages
        one.only_here += only_here


def _first_in_log(paths: StorePaths, topic: str, queue_id: int, log_min: int) -> int:
    """Queue offset of the first message that the CommitLog has; behind all offsets where that is unknown, or none is there.

    Not the queue's minimum: RocketMQ looks for that in the queue's first file alone.
    """
    try:
        queue = queue_of(paths, topic, queue_id)
        end = max_offset(queue)
        start = min(queue.files[0].first_offset, end) if queue.files else end
        first = bisect_left(range(start, end), log_min, key=queue.phy_offset) + start
    except (RocksdbError, RocksdbMissingError):
        return MAX_OFFSET
    return first if first < end else MAX_OFFSET
