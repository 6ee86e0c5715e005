"""A compacted queue (``cleanup.policy=COMPACTION``): a small log of its own, and entries that lead into it.

``compaction/compactionLog/TOPIC/QUEUE`` holds records from byte 0 on; their PHYSICALOFFSET is the place there, not in the
CommitLog. ``compaction/compactionCq/TOPIC/QUEUE`` has a file of entries for each file of the log, under the same name. They are
those of a queue of batches (`rmqcore.offline.queues.batch_queue`), each of one message, by queue offset; where a compaction took
a message away, its queue offset is missing. A file that is full ends with an entry whose offset is -1.

RocketMQ compacts full files only: a key may still have older messages in the newest files.

Source: RocketMQ 5.5.0 CompactionStore, CompactionLog, SparseConsumeQueue.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rmqcore._native.format.codec import MessageView
from rmqcore.disk.inside.links import is_file
from rmqcore.disk.paths import MAX_OFFSET, StorePaths, parse_file_name
from rmqcore.disk.queue_files import compacted_directories, is_compacted
from rmqcore.disk.read_range import Unreadable, entries_of
from rmqcore.disk.store_kinds import COMPACTED, COMPACTED_ENTRIES
from rmqcore.offline.log.log_files import LogFile
from rmqcore.offline.log.window import record_at
from rmqcore.offline.queues.batch_queue import AT_ONCE, BatchFile, BatchQueue, sound_entries
from rmqcore.vocabulary.units import INT_MAX


class SparseQueue(BatchQueue):
    """The entries of a compacted queue; arguments are those of `QueueFiles`.

    Attributes
    ----------
    last_offsets : list of int
        Queue offset of the last message of each file.
    """

    __slots__ = ("last_offsets",)

    def refresh(self) -> None:
        """List the directory again; a file's entries end with its last sound one."""
        super().refresh()
        found = list(zip(self.batch_files, self.first_bases, strict=True))
        self.batch_files, self.first_bases, self.last_offsets = [], [], []
        for file, first in found:
            last = _last_entry(file)
            if last is not None:
                self.batch_files.append(replace(file, count=last.number))
                self.first_bases.append(first)
                self.last_offsets.append(last.queue_offset)

    @staticmethod
    def _place_in(file: BatchFile, queue_offset: int) -> int:
        """Number of the first entry at or behind a queue offset, by binary search: an entry that lies may mislead it."""
        low, high = 0, file.count
        while low < high:
            middle = (low + high) // 2
            entry = file.read(middle, 1)
            if len(entry) and int(entry["base_offset"][0]) < queue_offset:
                low = middle + 1
            else:
                high = middle
        return low

    def batches(self, queue_offset: int) -> Iterator[np.void]:
        """Yield the entries from the first one at or behind a queue offset on; what is not an entry is left out.

        Source: RocketMQ 5.5.0 SparseConsumeQueue#iterateFromOrNext.
        """
        at = bisect_left(self.last_offsets, queue_offset)
        for number, file in enumerate(self.batch_files[at:]):
            start = self._place_in(file, queue_offset) if number == 0 else 0
            for begin in range(start, file.count, AT_ONCE):
                entries = file.read(begin, min(AT_ONCE, file.count - begin))
                yield from entries[sound_entries(entries)]

    def get_ends_at(self, queue_offset: int) -> int | None:
        """Return the queue offset at which one read of a get ends: behind the last message of a file."""
        at = bisect_left(self.last_offsets, queue_offset)
        return self.last_offsets[at] + 1 if at < len(self.last_offsets) else None

    def first_offset(self) -> int:
        """Return the queue offset of the first message; -1 without one, as RocketMQ does."""
        return self.first_bases[0] if self.batch_files else -1

    def count(
        self, below: int, since_ms: int | None = None, until_ms: int | None = None
    ) -> tuple[int, int]:
        """Return the number of messages stored in a time range, and the number of those before a queue offset."""
        total = before = 0
        for file in self.batch_files:
            for begin in range(0, file.count, AT_ONCE):
                entries = file.read(begin, min(AT_ONCE, file.count - begin))
                counted = sound_entries(entries)
                if since_ms is not None:
                    counted &= entries["store_ms"] >= since_ms
                if until_ms is not None:
                    counted &= entries["store_ms"] < until_ms
                total += int(np.count_nonzero(counted))
                before += int(np.count_nonzero(counted & (entries["base_offset"] < below)))
        return total, before


class _Last(NamedTuple):
    """The last sound entry of a file: its number, counted from 1, and its queue offset."""

    number: int
    queue_offset: int


def _last_entry(file: BatchFile) -> _Last | None:
    """Find it; None in a file that a compaction deleted, or of more bytes than RocketMQ maps."""
    if file.size > INT_MAX:
        return None
    begin = max(0, file.count - AT_ONCE)
    entries = file.read(begin, AT_ONCE)
    sound = np.flatnonzero(sound_entries(entries))
    if not len(sound):
        return None
    at = int(sound[-1])
    return _Last(begin + at + 1, int(entries["base_offset"][at]))


class CompactedQueue:
    """A compacted queue.

    Parameters
    ----------
    paths : StorePaths
    topic : str
    queue_id : int

    Attributes
    ----------
    place : str
        Directory of its log in the store.
    log_files : list of LogFile
        Of its log, by offset.
    entries : SparseQueue
    """

    def __init__(self, paths: StorePaths, topic: str, queue_id: int) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.place = f"{COMPACTED}/{topic}/{queue_id}"
        self.entries_place = f"{COMPACTED_ENTRIES}/{topic}/{queue_id}"
        leave_out = paths.leave_out_links
        self.log_files = list(_log_files(paths.root / self.place, leave_out_links=leave_out))
        self.entries = SparseQueue(
            topic, queue_id, paths.root / self.entries_place, leave_out_links=leave_out
        )

    def message_at(self, place: int) -> MessageView | None:
        """The message whose record starts at a byte of the queue's log; None when no well-formed record does."""
        return record_at(self.log_files, place)


def _log_files(directory: Path, *, leave_out_links: bool) -> Iterator[LogFile]:
    for entry in entries_of(directory):
        begin = parse_file_name(entry.name)
        if begin is None or not is_file(entry, leave_out_links=leave_out_links):
            continue
        try:
            size = entry.stat().st_size
        except FileNotFoundError:  # a compaction deleted it
            continue
        if 0 < size <= MAX_OFFSET - begin:
            yield LogFile(Path(entry.path), begin, size)


def compacted_queue(paths: StorePaths, topic: str, queue_id: int) -> CompactedQueue | None:
    """Return the compacted queue of a name; None if the topic is not compacted, or if no directory of the queue exists.

    Raises
    ------
    LinkError
        A directory or file of it is a link.
    """
    return CompactedQueue(paths, topic, queue_id) if is_compacted(paths, topic, queue_id) else None


def each_compacted_queue(
    paths: StorePaths,
    unreadable: Unreadable | None = None,
    *,
    topics: Collection[str] | None = None,
    queue_ids: Collection[int] | None = None,
) -> Iterator[CompactedQueue]:
    """Find the compacted queues of a store, of these topics and ids, by topic and queue id; `unreadable` as of `each_queue`."""
    for topic, queue_id, _ in compacted_directories(paths, unreadable):
        if topics is not None and topic not in topics:
            continue
        if queue_ids is None or queue_id in queue_ids:
            yield CompactedQueue(paths, topic, queue_id)
