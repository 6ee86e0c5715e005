"""Which messages lack: places in the queues that no record of the log asks for, though there was one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rmqcore._native.format.cq_arrays import unpack_cq_entries
from rmqcore._native.format.layout import CQ_FILLER_SIZE, CQ_STORE_UNIT_SIZE
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.queue_files import Entries
from rmqcore.errors import StoreFormatError
from rmqcore.maintenance.guard.knowledge import plausible
from rmqcore.maintenance.guard.misnamed import led_to
from rmqcore.maintenance.salvage.queue_claims import ClaimedRun, QueueClaims
from rmqcore.offline.queues.queues import QueueFile, QueueFiles, each_queue, min_offset, queue_of
from rmqcore.vocabulary.topics import QueueKey

MOST_LISTED = 100_000
"""Ranges of queue offsets that a report lists one by one."""
AT_ONCE = 65_536
"""Entries that are read at once."""


@dataclass(frozen=True, slots=True)
class MissingMessages:
    """Messages of a queue, by their queue offsets: such as the log has no more.

    Attributes
    ----------
    topic : str
    queue_id : int
    first_queue_offset, last_queue_offset : int
    """

    topic: str
    queue_id: int
    first_queue_offset: int
    last_queue_offset: int

    @property
    def count(self) -> int:
        """How many messages."""
        return self.last_queue_offset - self.first_queue_offset + 1


@dataclass(frozen=True)
class LostLog:
    """Lost ranges of the log, to decide if a queue entry is that of a lost message.

    Attributes
    ----------
    begin, end : int
        CommitLog offsets of the log's first byte, and behind its last sound record.
    ranges : sequence of (int, int)
        What is lost between, by offset.
    file_size : int
    """

    begin: int
    end: int
    ranges: Sequence[tuple[int, int]]
    file_size: int

    def has(self, entries: Entries) -> list[int]:
        """Return the numbers of the entries that point into lost ranges, ascending."""
        found = []
        before = -1
        phy_offsets = entries["phy_offset"].astype(np.int64)
        likely = plausible(entries, self.file_size) & (phy_offsets >= self.begin)
        for number in np.flatnonzero(likely).tolist():
            phy_offset = int(phy_offsets[number])
            if phy_offset > before and self._covers(phy_offset):
                before = phy_offset
                found.append(number)
        return found

    def _covers(self, phy_offset: int) -> bool:
        if phy_offset >= self.end:
            return True
        at = bisect_right(self.ranges, phy_offset, key=lambda one: one[0]) - 1
        return at >= 0 and phy_offset < self.ranges[at][1]


def missing_messages(
    paths: StorePaths, claims: QueueClaims, lost: LostLog
) -> Iterator[MissingMessages]:
    """Yield the missing messages, queue by queue.

    Between two records of a queue each queue offset had a message, unless the old queue has a filler there: then it was known
    before that the log does not have it. Before the first and behind the last one the old queue's entries tell.
    """
    for place, runs in claims.places():
        queue = _queue_of(paths, place)
        first = runs[0].first
        outside = None if queue is None else _led_to_lost(queue, runs, lost)
        if outside is not None and outside[0] < first:
            yield MissingMessages(*place, outside[0], first - 1)
        for one, other in pairwise(runs):
            yield from _between(place, queue, one.end, other.first)
        if outside is not None and outside[1] >= runs[-1].end:
            yield MissingMessages(*place, runs[-1].end, outside[1])
    for queue in each_queue(paths):
        place = queue.topic, queue.queue_id
        if not claims.has(place):
            outside = _led_to_lost(queue, [], lost)
            if outside is not None:
                yield MissingMessages(*place, *outside)


def unserved_messages(
    new: StorePaths, claims: QueueClaims, log_begin: int
) -> Iterator[MissingMessages]:
    """Yield messages of the new store that no consumer receives by queue offset.

    A broker looks for the begin of a queue by halves, in the queue's first file, among the CommitLog offsets of entries. Fillers
    in a hole lead to 0: where it meets one, it takes all entries before for those of expired messages.
    """
    for place, runs in claims.places():
        queue = _queue_of(new, place) if len(runs) > 1 else None
        begin = 0 if queue is None else min_offset(queue, log_begin, runs[-1].end)
        for run in runs:
            if run.first < begin:
                yield MissingMessages(*place, run.first, min(run.end, begin) - 1)


def old_entry(paths: StorePaths, place: QueueKey, queue_offset: int) -> int:
    """The CommitLog offset in the entry that a queue of the old store has; -1 without one."""
    queue = _queue_of(paths, place)
    return -1 if queue is None else led_to(queue, queue_offset)


def _queue_of(paths: StorePaths, place: QueueKey) -> QueueFiles | None:
    folder = paths.queue(*place)
    if folder.parent.is_symlink() or folder.is_symlink():
        return None
    queue = queue_of(paths, *place, leave_out_links=True)
    return queue if queue.files else None


def _between(
    place: QueueKey, queue: QueueFiles | None, first: int, end: int
) -> Iterator[MissingMessages]:
    """What lacks between two runs, without what the old queue has fillers for."""
    at = first
    while queue is not None and first < end:
        entries = queue.entries(first, min(AT_ONCE, end - first))
        if not len(entries):
            break
        filler = (entries["msg_size"] == CQ_FILLER_SIZE) & (entries["phy_offset"] == 0)
        for number in np.flatnonzero(filler).tolist():
            if at < first + number:
                yield MissingMessages(*place, at, first + number - 1)
            at = first + number + 1
        first += len(entries)
    if at < end:
        yield MissingMessages(*place, at, end - 1)


def _led_to_lost(
    queue: QueueFiles, runs: list[ClaimedRun], lost: LostLog
) -> tuple[int, int] | None:
    """The first and the last queue offset outside of the runs whose entry led to a message that is lost."""
    found: list[int] = []
    for file in queue.files:
        first, end = file.first_offset, file.first_offset + file.entry_count
        parts = [(first, end)]
        if runs:
            parts = [(first, min(end, runs[0].first)), (max(first, runs[-1].end), end)]
        for begin, stop in parts:
            if begin < stop:
                found += _led_to_lost_in(file, begin, stop, lost)
    return (min(found), max(found)) if found else None


def _led_to_lost_in(file: QueueFile, begin: int, end: int, lost: LostLog) -> list[int]:
    """The outermost of those entries of a file with queue offsets [begin, end)."""
    found: list[int] = []
    try:
        end = file.used_end(begin, end)
    except (FileNotFoundError, StoreFormatError):
        return []  # it was deleted or cut meanwhile
    while begin < end:
        data = file.read(begin - file.first_offset, min(AT_ONCE, end - begin))
        if not data:
            break
        numbers = lost.has(unpack_cq_entries(data))
        found += [begin + number for number in (numbers[:1] + numbers[-1:])]
        begin += len(data) // CQ_STORE_UNIT_SIZE
    return found
