"""The ConsumeQueues of a store, and where each begins and ends.

Minimum and maximum are what Java finds when it loads the directory, so what a get answers here is what a broker
would answer after a restart.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from rmqcore.disk.paths import StorePaths
from rmqcore.disk.queue_ends import (
    corrected_min,
    newest_entry,
    recovered_end,
    truncated_end,
)
from rmqcore.disk.queue_files import Entries, QueueFile, queue_directories
from rmqcore.disk.read_range import Unreadable
from rmqcore.errors import is_unreadable
from rmqcore.offline.queues.queue_reader import QueueFiles
from rmqcore.queries.queue_info import QueueInfo

__all__ = [
    "Entries",
    "QueueFile",
    "QueueFiles",
    "QueueInfo",
    "each_queue",
    "each_queue_info",
    "find_queues",
    "list_queues",
    "max_offset",
    "min_offset",
    "queue_info",
]


def max_offset(queue: QueueFiles, log_end: int | None = None) -> int:
    """Find the queue offset after the last entry, as Java does when it loads the queue.

    Entries count up to the first invalid one, from the third file from the end on; entries of messages at or after `log_end`
    (the phy offset after the CommitLog's last message) do not. A second call goes on where the first one stopped.
    """
    at, valid = recovered_end(queue.files, queue.known_end)
    if at < 0:
        return 0
    queue.known_end = (queue.files[at].first_offset, valid)
    newest = newest_entry(queue.files, at, valid)
    if log_end is not None and newest is not None and int(newest["phy_offset"]) >= log_end:
        at, valid = truncated_end(queue.files, at, valid, log_end)
    return queue.files[at].first_offset + valid if at >= 0 else 0


def min_offset(queue: QueueFiles, log_min: int, end: int) -> int:
    """Find the queue offset of the first entry whose message the CommitLog still holds, as Java does at load.

    Parameters
    ----------
    queue : QueueFiles
    log_min : int
        Phy offset of the CommitLog's first byte.
    end : int
        What `max_offset` answered.
    """
    if end <= 0 or not queue.files:
        return 0
    first = queue.files[0]
    count = min(first.entry_count, end - first.first_offset)
    newest = queue.phy_offset(end - 1)
    return corrected_min(0, end, first.first_offset, count, log_min, newest, queue.phy_offset)


def queue_info(queue: QueueFiles, log_min: int, log_end: int | None = None) -> QueueInfo:
    """Summarise a queue; see `list_queues`."""
    end = max_offset(queue, log_end)
    start = min_offset(queue, log_min, end)
    oldest = queue.entries(start, min(1, end - start))
    newest = queue.entries(end - 1, min(1, end - start))
    return QueueInfo(
        queue.topic,
        queue.queue_id,
        start,
        end,
        (
            int(oldest["phy_offset"][0]) if len(oldest) else None,
            int(newest["phy_offset"][0]) + int(newest["msg_size"][0]) if len(newest) else None,
            len(queue.files),
            queue.disk_bytes,
        ),
    )


def each_queue(
    paths: StorePaths, left_out: Container[str] = (), unreadable: Unreadable | None = None
) -> Iterator[QueueFiles]:
    """Find the queues of a store, by topic and queue id; `left_out` are paths of files that are not looked at.

    Light queues (``%LMQ%...``) are among them, batch queues (``batchconsumequeue/``) are not. A directory that cannot be listed,
    that of a queue or one above it, is told to `unreadable`; without that it is an error.
    """
    paths.bring_in(paths.consumequeue, beginnings=True)
    for topic, queue_id, directory in queue_directories(paths, unreadable):
        try:
            queue = QueueFiles(
                topic, queue_id, directory, leave_out_links=paths.leave_out_links, left_out=left_out
            )
        except OSError as error:
            if unreadable is None or not is_unreadable(error):
                raise
            unreadable(directory, error)
        else:
            yield queue


def find_queues(paths: StorePaths) -> list[QueueFiles]:
    """Find all queues of a store; see `each_queue`."""
    return list(each_queue(paths))


def each_queue_info(
    paths: StorePaths, log_min: int, log_end: int | None = None
) -> Iterator[QueueInfo]:
    """Summarise every queue of a store, by topic and queue id.

    Parameters
    ----------
    paths : StorePaths
    log_min : int
        Phy offset of the CommitLog's first byte.
    log_end : int, optional
        Phy offset after its last message: entries of messages from there on do not count.
    """
    for queue in each_queue(paths):
        yield queue_info(queue, log_min, log_end)


def list_queues(paths: StorePaths, log_min: int, log_end: int | None = None) -> list[QueueInfo]:
    """Summarise every queue of a store; see `each_queue_info`."""
    return list(each_queue_info(paths, log_min, log_end))
