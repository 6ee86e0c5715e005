"""The ConsumeQueues of a store, and where each begins and ends.

Minimum and maximum are what Java finds when it loads the directory, so what a get answers here is what a broker
would answer after a restart.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from heapq import merge

from rmqcore.disk.paths import StorePaths
from rmqcore.disk.queue_files import BatchTopics, Entries, QueueFile, batch_directories
from rmqcore.disk.read_range import Unreadable
from rmqcore.offline.queues.batch_queue import BatchQueue
from rmqcore.offline.queues.queue_reader import QueueFiles
from rmqcore.offline.queues.queue_source import queue_source
from rmqcore.queries.queue_info import QueueInfo

__all__ = [
    "Entries",
    "QueueFile",
    "QueueFiles",
    "QueueInfo",
    "each_batch_queue",
    "each_queue",
    "each_queue_info",
    "find_queues",
    "list_queues",
    "max_offset",
    "min_offset",
    "queue_info",
    "queue_names",
    "queue_of",
]


def max_offset(queue: QueueFiles, log_end: int | None = None) -> int:
    """Find the queue offset after the last entry, as Java does when it loads the queue.

    Entries count up to the first invalid one, from the third file from the end on; entries of messages at or after `log_end`
    (the phy offset after the CommitLog's last message) do not. A second call goes on where the first one stopped.
    """
    return queue.max_offset(log_end)


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
    return queue.min_offset(log_min, end)


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
            queue.file_count,
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
    return queue_source(paths).each(left_out, unreadable)


def queue_of(
    paths: StorePaths, topic: str, queue_id: int, *, leave_out_links: bool = False
) -> QueueFiles:
    """Return a queue of a store by its name; an unknown one has no files.

    With `leave_out_links` a link among its files is left out, as with `StorePaths.leave_out_links`.

    Raises
    ------
    ValueError
        The topic cannot name a directory.
    """
    found = queue_source(paths).queue(topic, queue_id, leave_out_links=leave_out_links)
    if not found.files and topic in BatchTopics(paths):
        directory = paths.batchconsumequeue / topic / str(queue_id)
        return BatchQueue(topic, queue_id, directory, leave_out_links=leave_out_links)
    return found


def queue_names(
    paths: StorePaths, unreadable: Unreadable | None = None
) -> Iterator[tuple[str, int]]:
    """Return topic and queue id of every queue, those of batches too, in this order; `unreadable` as of `each_queue`."""
    batches = ((topic, queue_id) for topic, queue_id, _ in batch_directories(paths, unreadable))
    return merge(queue_source(paths).names(unreadable), batches)


def each_batch_queue(
    paths: StorePaths, unreadable: Unreadable | None = None
) -> Iterator[BatchQueue]:
    """Find the queues of batches (``batchconsumequeue/``), by topic and queue id."""
    paths.bring_in(paths.batchconsumequeue)
    for topic, queue_id, directory in batch_directories(paths, unreadable):
        yield BatchQueue(topic, queue_id, directory, leave_out_links=paths.leave_out_links)


def find_queues(paths: StorePaths) -> list[QueueFiles]:
    """Find all queues of a store; see `each_queue`."""
    return list(each_queue(paths))


def each_queue_info(
    paths: StorePaths, log_min: int, log_end: int | None = None
) -> Iterator[QueueInfo]:
    """Summarise every queue of a store, those of batches too, by topic and queue id.

    Parameters
    ----------
    paths : StorePaths
    log_min : int
        Phy offset of the CommitLog's first byte.
    log_end : int, optional
        Phy offset after its last message: entries of messages from there on do not count.
    """
    for queue in merge(each_queue(paths), each_batch_queue(paths), key=_place):
        yield queue_info(queue, log_min, log_end)


def _place(queue: QueueFiles) -> tuple[str, int]:
    return queue.topic, queue.queue_id


def list_queues(paths: StorePaths, log_min: int, log_end: int | None = None) -> list[QueueInfo]:
    """Summarise every queue of a store; see `each_queue_info`."""
    return list(each_queue_info(paths, log_min, log_end))
