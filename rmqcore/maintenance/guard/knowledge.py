"""Entries of old queues and an old index that the new ones lack.

An entry counts if it may be one: its numbers fit a message of the log, or of a log that went on. Entries of messages
that the log has deleted do not count, but their queue's end does. What damage wrote over an entry mostly fits nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rmqcore._native.format.cq_arrays import unpack_cq_entries
from rmqcore._native.format.layout import REC_MIN_SIZE_V1
from rmqcore.disk.index.index_entries import read_entries
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.queue_files import Entries, QueueFile
from rmqcore.errors import KnowsLessError, StoreFormatError
from rmqcore.offline.index.index_files import IndexFileReader, find_index_files
from rmqcore.offline.missing_log import FARTHEST
from rmqcore.offline.queues.queues import QueueFiles, each_queue, max_offset

AT_ONCE = 65_536
"""Entries to read in one call."""
MOST_LISTED = 100
"""Queues that a report lists one by one."""
MOST_NAMED = 3
"""Queues that an error names."""

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class QueueLoss:
    """A queue that loses entries or queue offsets.

    Attributes
    ----------
    topic : str
    queue_id : int
    entries : int
        Entries of messages that the new queue does not have.
    max_offset, new_max_offset : int
        The queue offset behind the last entry, in the old queue and in the new one.
    offsets : int
        Queue offsets between these two whose entries are not counted already: they would be given away twice.
    """

    topic: str
    queue_id: int
    entries: int
    max_offset: int
    new_max_offset: int
    offsets: int


@dataclass
class Losses:
    """Entries that a repair would lose.

    Attributes
    ----------
    queue_entries, queue_offsets : int
        Sums over all queues; see `QueueLoss`.
    queue_count : int
    queues : list of QueueLoss
        The first 100.
    index_entries, index_files : int
        Index entries that the new index does not have, and the number of old files with such entries.
    displaced : int
        Messages that consumers reach today, and whose entries others get.
    """

    queue_entries: int = 0
    queue_offsets: int = 0
    queue_count: int = 0
    queues: list[QueueLoss] = field(default_factory=list)
    index_entries: int = 0
    index_files: int = 0
    displaced: int = 0

    @property
    def count(self) -> int:
        """Sum of all losses."""
        return self.queue_entries + self.queue_offsets + self.index_entries + self.displaced

    def add(self, loss: QueueLoss) -> None:
        """Note the loss of a queue, if it is one."""
        if loss.entries or loss.offsets:
            self.queue_entries += loss.entries
            self.queue_offsets += loss.offsets
            self.queue_count += 1
            if len(self.queues) < MOST_LISTED:
                self.queues.append(loss)

    def __str__(self) -> str:
        parts = []
        if self.queue_count:
            named = ", ".join(
                f"{one.topic} {one.queue_id} would end at {one.new_max_offset} instead of {one.max_offset}"
                if one.new_max_offset < one.max_offset
                else f"{one.topic} {one.queue_id} would lack {one.entries}"
                for one in self.queues[:MOST_NAMED]
            )
            further = (
                f" and {self.queue_offsets} further queue offsets" if self.queue_offsets else ""
            )
            more = f", and {self.queue_count - MOST_NAMED} more" * (self.queue_count > MOST_NAMED)
            parts.append(
                f"{self.queue_entries} queue entries{further} of {self.queue_count} queues ({named}{more})"
            )
        if self.index_entries:
            parts.append(f"{self.index_entries} index entries of {self.index_files} files")
        if self.displaced:
            parts.append(
                f"{self.displaced} entries of messages whose place another message gets (they would be in no queue)"
            )
        return " and ".join(parts)


def check_drop(losses: Losses, where: str, drop: int | None) -> None:
    """Check that a repair would lose exactly the entries that the operator agreed to lose.

    Parameters
    ----------
    losses : Losses
    where : str
        The store, for the error.
    drop : int or None
        The number of entries that the operator agreed to lose; None and 0: none.

    Raises
    ------
    KnowsLessError
        The number of lost entries differs from `drop`.
    """
    if losses.count in (0, drop):
        return
    agreed = f" (accepted: {drop})" if drop else ""
    error = KnowsLessError(
        f"{where}: {losses.count} entries would be lost{agreed}: {losses}; nothing was changed",
        losses.count,
    )
    error.hint = (
        f"{KnowsLessError.hint}; --drop {losses.count} (Python: drop={losses.count}) accepts the "
        "loss"
    )
    raise error


def lost_knowledge(
    old: StorePaths, new: StorePaths, parts: Sequence[str], log_begin: int, log_file_size: int
) -> Losses:
    """Compare old queues and index with new ones.

    Parameters
    ----------
    old, new : StorePaths
    parts : sequence of str
        Parts to compare: ``consumequeue``, ``index``.
    log_begin : int
        CommitLog offset of the log's first byte: messages before it are expired.
    log_file_size : int
        Bytes of a CommitLog file; 0 if it is unknown.

    Raises
    ------
    OSError
        A file cannot be read.
    """
    losses = Losses()
    if "consumequeue" in parts:
        for queue in each_queue(old):
            losses.add(_compare_queue(queue, new, log_begin, log_file_size))
    if "index" in parts:
        _compare_index(old, new, log_begin, losses)
    return losses


def plausible(entries: Entries, log_file_size: int) -> npt.NDArray[np.bool_]:
    """Return which queue entries can be those of messages in log files of a size, by their numbers; fillers cannot."""
    phy_offsets = entries["phy_offset"].astype(np.int64)
    sizes = entries["msg_size"].astype(np.int64)
    found: npt.NDArray[np.bool_] = (phy_offsets >= 0) & (phy_offsets < FARTHEST)
    found &= sizes > REC_MIN_SIZE_V1
    if log_file_size:
        found &= phy_offsets % log_file_size + sizes < log_file_size
    return found


# ---- queues -----------------------------------------------------------------------------------------


def _compare_queue(
    queue: QueueFiles, new: StorePaths, log_begin: int, log_file_size: int
) -> QueueLoss:
    folder = new.queue(queue.topic, queue.queue_id)
    made = QueueFiles(queue.topic, queue.queue_id, folder) if folder.is_dir() else None
    lost: list[Longs] = []  # CommitLog offsets whose entries are not at the same place
    places: list[Longs] = []
    end = 0
    for first, entries in each_entries(queue):
        fits = plausible(entries, log_file_size)
        numbers = np.flatnonzero(fits)
        if not len(numbers):
            continue
        end = max(end, first + int(numbers[-1]) + 1)
        beside = np.zeros(len(entries), entries.dtype)
        if made is not None:
            held = made.entries(first, len(entries))
            beside[: len(held)] = held
        phy_offsets = entries["phy_offset"].astype(np.int64)
        differs = (entries["phy_offset"] != beside["phy_offset"]) | (beside["msg_size"] <= 0)
        at = np.flatnonzero(fits & differs & (phy_offsets >= log_begin))
        if len(at):
            lost.append(phy_offsets[at])
            places.append(first + at.astype(np.int64))
    wanted, at_places = _joined(lost), _joined(places)
    if len(wanted) and made is not None:
        known = ~_among(wanted, (entries["phy_offset"] for _, entries in each_entries(made)))
        wanted, at_places = wanted[known], at_places[known]
    new_end = 0 if made is None else max_offset(made)
    behind = int(np.count_nonzero(at_places >= new_end))
    offsets = max(0, end - new_end - behind)
    return QueueLoss(queue.topic, queue.queue_id, len(wanted), end, new_end, offsets)


def each_entries(queue: QueueFiles) -> Iterator[tuple[int, Entries]]:
    """Yield the entries of a queue in parts, each with the queue offset of its first; zeros at the end of a file are left out."""
    for file in queue.files:
        yield from _entries_of(file)


def _entries_of(file: QueueFile) -> Iterator[tuple[int, Entries]]:
    first = file.first_offset
    try:
        end = file.used_end(first, first + file.entry_count) - first
    except (FileNotFoundError, StoreFormatError):
        return  # it was deleted or cut
    for begin in range(0, end, AT_ONCE):
        data = file.read(begin, min(AT_ONCE, end - begin))
        if not data:
            return
        yield file.first_offset + begin, unpack_cq_entries(data)


def _joined(parts: list[Longs]) -> Longs:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _among(wanted: Longs, parts: Iterable[npt.NDArray[Any]]) -> npt.NDArray[np.bool_]:
    """Return which numbers are among those of some arrays, whose order does not matter."""
    ordered, places = np.unique(wanted, return_inverse=True)
    seen = np.zeros(len(ordered) + 1, bool)
    for part in parts:
        numbers = part.astype(np.int64)
        at = np.searchsorted(ordered, numbers)
        within = at < len(ordered)
        at = at[within]
        seen[at[ordered[at] == numbers[within]]] = True
    return seen[:-1][places]


# ---- index ------------------------------------------------------------------------------------------


def _compare_index(old: StorePaths, new: StorePaths, log_begin: int, losses: Losses) -> None:
    made = find_index_files(new)
    for reader in find_index_files(old):
        wanted = _joined([_likely(entries, log_begin) for entries in _index_entries(reader)])
        if not len(wanted):
            continue
        least, most = int(wanted.min()), int(wanted.max())
        near = [one for one in made if _overlaps(one, least, most)]
        known = (entries["phy_offset"] for one in near for entries in _index_entries(one))
        lost = len(wanted) - int(np.count_nonzero(_among(wanted, known)))
        if lost:
            losses.index_entries += lost
            losses.index_files += 1


def _overlaps(reader: IndexFileReader, least: int, most: int) -> bool:
    return reader.header.begin_phy_offset <= most and reader.header.end_phy_offset >= least


def _likely(entries: npt.NDArray[Any], log_begin: int) -> Longs:
    """The CommitLog offsets of those index entries that may lead to messages in the log."""
    phy_offsets = entries["phy_offset"].astype(np.int64)
    fits = (phy_offsets >= log_begin) & (phy_offsets < FARTHEST) & (entries["time_diff"] >= 0)
    fits &= (entries["key_hash"] != 0) | (phy_offsets != 0)
    return phy_offsets[fits]


def _index_entries(reader: IndexFileReader) -> Iterator[npt.NDArray[Any]]:
    if reader.slot_count is None:
        return  # no entry was found
    count = min(reader.header.index_count, reader.max_index_num or 0)
    for _, entries in read_entries(reader.path, reader.slot_count, 1, count):
        yield entries
