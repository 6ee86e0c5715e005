"""Deletion of queue files, and of whole queues, whose messages have left the CommitLog."""

from __future__ import annotations

from pathlib import Path

from rmqcore._native.format.layout import CQ_STORE_UNIT_SIZE
from rmqcore._native.queues.consume_queue import ConsumeQueue
from rmqcore.disk.durable import delete_file
from rmqcore.disk.inside.files import remove_empty, unlink
from rmqcore.disk.paths import file_name


def delete_expired_files(
    queue: ConsumeQueue, directory: Path, file_size: int, min_phy_offset: int
) -> dict[Path, int]:
    """Delete the queue's leading files whose last entry's message lies below the log's first byte.

    The newest file stays. Each deletion is on disk before the next one starts: a power cut leaves no hole among the
    files.

    Returns
    -------
    dict
        Bytes that each deleted file occupied.
    """
    begin, end = queue.first_file, queue.last_file
    starts = [start for start in queue.file_starts() if start <= end and start % file_size == 0]
    expired = []
    for start in starts[:-1]:
        last = (start + file_size) // CQ_STORE_UNIT_SIZE - 1
        # A call that a signal handler interrupted may have left files before the first: these are deleted first.
        if start >= begin and not 0 <= queue.phy_offset(last) < min_phy_offset:
            break
        expired.append(start)
    if expired:  # readers first, so that no read opens a deleted file
        first = starts[len(expired)]
        queue.set_min(max(queue.min_offset, first // CQ_STORE_UNIT_SIZE))
        queue.set_first_file(first)
    deleted = {}
    for start in expired:
        path = directory / file_name(start)
        deleted[path] = delete_file(path)
    return deleted


def delete_all_files(queue: ConsumeQueue, directory: Path) -> None:
    """Delete a queue's files, the newest first, and its directory, if nothing else lies in it. No sync is made."""
    for start in reversed(queue.file_starts()):
        unlink(directory / file_name(start))
    if directory.is_dir() and not any(directory.iterdir()):
        remove_empty(directory)


def raise_it(error: OSError) -> None:
    """Raise the error of a file that cannot be deleted: the default of `on_error`."""
    raise error
