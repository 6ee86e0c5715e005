"""A store whose log is missing although queues, index or checkpoint know messages: nothing may be made of such a log."""

from __future__ import annotations

from collections.abc import Iterator

from rmqcore.disk.checkpoint import read_checkpoint
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.queue_ends import end_of_message
from rmqcore.errors import CommitLogMissingError, CorruptionError, StoreFormatError
from rmqcore.offline.index.index_files import list_index_files
from rmqcore.offline.log.log_files import list_log_files
from rmqcore.offline.queues.queues import QueueFiles, each_queue, max_offset


def check_log_is_there(paths: StorePaths) -> None:
    """Check that a store without a file of the CommitLog knows no message either.

    Raises
    ------
    CommitLogMissingError
        Queues, index or checkpoint know messages.
    OSError
        A file cannot be read.
    """
    if list_log_files(paths):
        return
    known = [(end, part) for part, end in _known_ends(paths) if end > 0]
    if not known:
        return
    end, part = max(known)
    where = ", ".join(map(str, paths.commitlogs))
    error = CommitLogMissingError(
        f"{where}: there is no CommitLog file, but the {part} knows messages up to CommitLog offset {end}"
    )
    error.hint = "is the CommitLog's disk mounted? Nothing was changed"
    raise error


def _known_ends(paths: StorePaths) -> Iterator[tuple[str, int]]:
    """The CommitLog offsets behind the newest messages that the parts of a store know, with the names of the parts."""
    for queue in each_queue(paths):
        yield "consumequeue", _queue_end(queue)
    for info in list_index_files(paths):
        if info.entry_count > 0:
            yield "index", info.end_phy_offset + 1
    try:
        checkpoint = read_checkpoint(paths.checkpoint)
    except (CorruptionError, StoreFormatError):
        return  # what is no checkpoint knows nothing
    if checkpoint is not None:
        yield "checkpoint", checkpoint.newest_known_phy_offset


def _queue_end(queue: QueueFiles) -> int:
    last = max_offset(queue)
    newest = queue.entries(last - 1, min(1, last))
    return end_of_message(newest[0]) if len(newest) else -1
