"""Entries of old queues whose records name another place, in which queues that are made of the log have them.

A new queue has each record at the place that it names. Where a bit of that place flipped, consumers have reached the
message by an entry that the new queues lack.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
import numpy.typing as npt

from rmqcore._native.format.codec import MessageView
from rmqcore._native.format.layout import CQ_FILLER_SIZE
from rmqcore._native.queues.queue_table import is_directory_name
from rmqcore.disk.misnamed import Misnamed
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.recovery.misnamed import MOST_MISNAMED, EntryOf, misnamed_record
from rmqcore.engine.recovery.record_compare import Longs
from rmqcore.maintenance.guard.idle_queues import pass_over_damaged_database
from rmqcore.maintenance.guard.knowledge import each_entries, plausible
from rmqcore.offline.log.damage import DamageRange, lost_ranges
from rmqcore.offline.log.log_files import LogFile, list_log_files, mapped_file_size
from rmqcore.offline.log.window import record_at
from rmqcore.offline.queues.queues import QueueFiles, each_queue, queue_of
from rmqcore.vocabulary.topics import QueueKey


def entries_of(paths: StorePaths) -> EntryOf:
    """Return the lookup in a store's queues that `misnamed_record` needs."""

    def entry_of(place: QueueKey, queue_offset: int) -> int:
        if place[1] < 0 or queue_offset < 0 or not is_directory_name(place[0]):
            return -1
        return led_to(queue_of(paths, *place, leave_out_links=True), queue_offset)

    return entry_of


def led_to(queue: QueueFiles, queue_offset: int) -> int:
    """Return the CommitLog offset in a queue's entry of a message; -1 for a missing entry, zeros or a filler."""
    entry = queue.entries(queue_offset, 1)
    size, phy_offset = (
        int(entry[name][0]) if len(entry) else -1 for name in ("msg_size", "phy_offset")
    )
    return -1 if size <= 0 or (size == CQ_FILLER_SIZE and phy_offset == 0) else phy_offset


def misnamed_entries(
    paths: StorePaths, new: StorePaths, damage: Iterable[DamageRange]
) -> list[Misnamed]:
    """Find the entries of a store's queues that the new queues lack although the log has the record; by queue and queue offset.

    Parameters
    ----------
    paths, new : StorePaths
        The store, and where the new queues are.
    damage : iterable of DamageRange
        Ranges without sound records.

    Returns
    -------
    list of Misnamed
        At most 1,000.

    Raises
    ------
    OSError
        A file cannot be read.
    """
    queues = each_queue(paths, unreadable=pass_over_damaged_database)
    return misnamed_in(queues, list_log_files(paths), new, damage, entries_of(paths))


def misnamed_in(
    queues: Iterable[QueueFiles],
    files: list[LogFile],
    new: StorePaths,
    damage: Iterable[DamageRange],
    entry_of: EntryOf,
) -> list[Misnamed]:
    """Do the work of `misnamed_entries` for queues and a log anywhere."""
    if not files:
        return []
    log = _HeldLog(files, lost_ranges(damage))
    found = (
        one
        for queue in queues
        for queue_offset, view in _moved(queue, new, log)
        if (one := misnamed_record((queue.topic, queue.queue_id), queue_offset, view, entry_of))
    )
    return list(islice(found, MOST_MISNAMED))


class _HeldLog:
    """The records of a log, without looking where they are lost."""

    def __init__(self, files: list[LogFile], lost: list[tuple[int, int]]) -> None:
        self.file_size = mapped_file_size(files)
        self._files = files
        self._starts = np.array([first for first, _ in lost], np.int64)
        self._stops = np.maximum.accumulate(np.array([stop for _, stop in lost], np.int64))

    def holds(self, phy_offsets: Longs) -> npt.NDArray[np.bool_]:
        """Return which numbers are offsets of bytes that the log has and that are not lost."""
        first, end = self._files[0].file_from_offset, self._files[-1].end_offset
        held: npt.NDArray[np.bool_] = (phy_offsets >= first) & (phy_offsets < end)
        if len(self._starts):
            at = np.searchsorted(self._starts, phy_offsets, side="right") - 1
            held &= (at < 0) | (phy_offsets >= self._stops[np.maximum(at, 0)])
        return held

    def record(self, entry: np.void) -> MessageView | None:
        """Return the record to which an entry leads, with its size."""
        view = record_at(self._files, int(entry["phy_offset"]))
        return view if view is not None and view.msg_size == int(entry["msg_size"]) else None


def _moved(queue: QueueFiles, new: StorePaths, log: _HeldLog) -> Iterator[tuple[int, MessageView]]:
    """The records to which a queue's entries lead that the new queue does not have, with their queue offsets."""
    folder = new.queue(queue.topic, queue.queue_id)
    made = QueueFiles(queue.topic, queue.queue_id, folder) if folder.is_dir() else None
    for first, entries in each_entries(queue):
        differs = plausible(entries, log.file_size)
        if made is not None:
            held = made.entries(first, len(entries))
            differs[: len(held)] &= (held["phy_offset"] != entries["phy_offset"][: len(held)]) | (
                held["msg_size"] != entries["msg_size"][: len(held)]
            )
        differs &= log.holds(entries["phy_offset"].astype(np.int64))
        for number in np.flatnonzero(differs).tolist():
            view = log.record(entries[number])
            if view is not None:
                yield first + number, view
