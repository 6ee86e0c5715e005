"""ConsumeQueues of a store: which there are, and where each begins and ends.

Minimum and maximum are what Java finds when it loads the directory, so what a get answers here is what a broker
would answer after a restart.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rmqcore._native.cq import prefix_below, unpack_cq, valid_prefix
from rmqcore.engine.paths import StorePaths
from rmqcore.offline.queue_files import Entries, QueueFile, QueueFiles
from rmqcore.offline.ranges import entries_of

__all__ = [
    "Entries",
    "QueueFile",
    "QueueFiles",
    "QueueInfo",
    "find_queues",
    "list_queues",
    "max_offset",
    "min_offset",
    "queue_info",
]

# Java's recovery of a queue starts at the third file from the end.
RECOVERED_FILES = 3
CHUNK_ENTRIES = 50_000
MAX_QUEUE_ID = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """What is in one queue.

    Attributes
    ----------
    topic : str
    queue_id : int
    min_offset, max_offset : int
        Queue offsets of the first entry and after the last one.
    min_phy_offset, max_phy_offset : int or None
        CommitLog bytes: start of the first entry's message, end of the last one's; None in an empty queue.
    file_count : int
    disk_bytes : int
        Bytes that the files occupy (their unwritten ends are holes).
    """

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    min_phy_offset: int | None
    max_phy_offset: int | None
    file_count: int
    disk_bytes: int

    def as_dict(self) -> dict[str, Any]:
        """Give the fields by name."""
        return {name: getattr(self, name) for name in self.__slots__}


def max_offset(queue: QueueFiles, log_end: int | None = None) -> int:
    """Find the queue offset after the last entry, as Java does when it loads the queue.

    Entries count up to the first invalid one, from the third file from the end on; those of messages at or
    after `log_end` (the phy offset after the CommitLog's last message) do not. A second call goes on where the
    first one stopped.

    Source: RocketMQ 5.5.0 ConsumeQueue#recover, #truncateDirtyLogicFiles.
    """
    at, valid = _recovered_end(queue)
    if at < 0:
        return 0
    newest = _newest(queue, at, valid)
    if log_end is None or newest is None or int(newest["phy_offset"]) < log_end:
        return queue.files[at].first_offset + valid
    return _truncated_end(queue, at, valid, log_end)


def _recovered_end(queue: QueueFiles) -> tuple[int, int]:
    """The place in the list of the file in which recovery stops, and the valid entries there; (-1, 0) without files."""
    files = queue.files
    if not files:
        return -1, 0
    at = max(0, len(files) - RECOVERED_FILES)
    valid = 0
    # Entries once seen stay: go on where the last call stopped.
    for place in range(at, len(files)):
        if files[place].first_offset == queue.known_end[0]:
            at, valid = place, queue.known_end[1]
    while True:
        valid = _count(files[at], valid, None)
        if valid < files[at].entry_count or at == len(files) - 1:
            break
        at, valid = at + 1, 0
    queue.known_end = (files[at].first_offset, valid)
    return at, valid


def _count(file: QueueFile, known: int, log_end: int | None) -> int:
    """Entries of a file before the first that is invalid or beyond `log_end`; `known` of them need no look."""
    while known < file.entry_count:
        data = file.read(known, CHUNK_ENTRIES)
        good = valid_prefix(data) if log_end is None else prefix_below(data, log_end)
        known += good
        if good < CHUNK_ENTRIES:
            break
    return known


def _newest(queue: QueueFiles, at: int, valid: int) -> np.void | None:
    """The last valid entry of a file, or of the one before when it has none."""
    if valid == 0:
        if at == 0:
            return None
        at, valid = at - 1, queue.files[at - 1].entry_count
    entry = unpack_cq(queue.files[at].read(valid - 1, 1))
    return entry[0] if len(entry) else None


def _truncated_end(queue: QueueFiles, at: int, valid: int, log_end: int) -> int:
    """The end after entries of messages at or after `log_end` are gone: a file that begins with one goes as a whole."""
    for file in reversed(queue.files[: at + 1]):
        kept = _count(file, 0, log_end)
        if file is queue.files[at]:
            kept = min(kept, valid)
        if kept > 0:
            return file.first_offset + kept
    return 0


def min_offset(queue: QueueFiles, log_min: int, end: int) -> int:
    """Find the queue offset of the first entry whose message the CommitLog still holds, as Java does at load.

    Only the first file is searched, so the answer can be 0 although that whole file has expired; in a rebuilt
    queue that begins in mid-file it can be one of the fillers there.

    Parameters
    ----------
    queue : QueueFiles
    log_min : int
        Phy offset of the CommitLog's first byte.
    end : int
        What `max_offset` answered.

    Notes
    -----
    Source: RocketMQ 5.5.0 ConsumeQueue#correctMinOffset.
    """
    if end <= 0 or not queue.files:
        return 0
    newest = queue.entries(end - 1, 1)
    if len(newest) and int(newest["phy_offset"][0]) < log_min:
        return end
    first = queue.files[0]

    def phy_offset(place: int) -> int:
        entry = unpack_cq(first.read(place, 1))
        return int(entry["phy_offset"][0]) if len(entry) else -1

    low, high = 0, min(first.entry_count, end - first.first_offset) - 1
    if high < 0 or (first.file_from_offset == 0 and phy_offset(0) >= log_min):
        return 0
    while high - low > 1:
        middle = (low + high) // 2
        found = phy_offset(middle)
        if found == log_min:
            low = high = middle
        elif found > log_min:
            high = middle
        else:
            low = middle
    for place in range(low, high + 1):
        if phy_offset(place) >= log_min:
            return first.first_offset + place
    return 0


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
        int(oldest["phy_offset"][0]) if len(oldest) else None,
        int(newest["phy_offset"][0]) + int(newest["msg_size"][0]) if len(newest) else None,
        len(queue.files),
        queue.disk_bytes,
    )


def find_queues(paths: StorePaths) -> list[QueueFiles]:
    """Find all queues of a store, by topic and queue id.

    Light queues (``%LMQ%...``) are among them, batch queues (``batchconsumequeue/``) are not.
    """
    found = []
    for topic in entries_of(paths.consumequeue):
        if not topic.is_dir():
            continue
        ids = [entry.name for entry in entries_of(Path(topic.path)) if entry.is_dir()]
        numbers = sorted(int(name) for name in ids if name.isascii() and name.isdigit())
        # Java reads the name as an int and finds the directory by that int again.
        found += [
            QueueFiles(topic.name, number, Path(topic.path) / str(number))
            for number in numbers
            if number <= MAX_QUEUE_ID and str(number) in ids
        ]
    return found


def list_queues(paths: StorePaths, log_min: int, log_end: int | None = None) -> list[QueueInfo]:
    """Summarise every queue of a store.

    Parameters
    ----------
    paths : StorePaths
    log_min : int
        Phy offset of the CommitLog's first byte.
    log_end : int, optional
        Phy offset after its last message: entries of messages from there on do not count.
    """
    return [queue_info(queue, log_min, log_end) for queue in find_queues(paths)]
