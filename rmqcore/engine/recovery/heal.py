"""Healing of queue entries from the log: each record's entry is written at the place that its QUEUEOFFSET names.

`Healer` reads CommitLog files, newest first, compares every record with its entry, and writes the entries that differ.
Entries are never appended, so none depends on the entries before it, and an interrupted healing can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rmqcore._native.files.mapped_file import MappedFile
from rmqcore._native.format.codec import MessageView
from rmqcore._native.format.layout import CQ_STORE_UNIT_SIZE
from rmqcore._native.queues import queue_compare
from rmqcore._native.queues.consume_queue import ConsumeQueue
from rmqcore._native.queues.queue_table import log_room
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.config import MessageStoreConfig
from rmqcore.engine.dispatch.multi_dispatch import pairs
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.engine.queues.consume_queues import ConsumeQueues
from rmqcore.engine.recovery.aside import Aside, given_up
from rmqcore.engine.recovery.file_scan import PassedOver, scan_file
from rmqcore.engine.recovery.record_compare import Longs, RecordCompare, Rows, Unplaced, distinct
from rmqcore.vocabulary.properties import INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET
from rmqcore.vocabulary.topics import LMQ_PREFIX, QueueKey

BATCH_ROWS, BATCH_BYTES = 65536, 64 << 20


@dataclass
class HealResult:
    """Counts of compared and written entries.

    Attributes
    ----------
    files, compared_bytes, compared_records : int
        CommitLog files that were compared, their bytes, and the records with an entry (those in light queues too).
    differing_entries : int
        Places with another entry, or with none.
    healed_entries : int
        Entries written. Less than `differing_entries` if another record may hold the place (its topic was made again),
        or if the queue ends before the place.
    refused_records : int
        Records with a damaged queue offset, which no queue accepts.
    queues : dict
        Topic and queue id to the number of entries written.
    lowest : dict
        Topic and queue id to the lowest queue offset written.
    damage : list of PassedOver
        Bytes of the log without sound records, newest file first.
    """

    files: int = 0
    compared_bytes: int = 0
    compared_records: int = 0
    differing_entries: int = 0
    healed_entries: int = 0
    refused_records: int = 0
    queues: dict[QueueKey, int] = field(default_factory=dict)
    lowest: dict[QueueKey, int] = field(default_factory=dict)
    damage: list[PassedOver] = field(default_factory=list)


class Healer:
    """Compares records with their queue entries, file by file, newest file first, and writes the entries that differ.

    Each file is read once from its start, and again if entries differ. The scan skips damage in the log to the next
    record that proves itself.

    Parameters
    ----------
    commitlog : CommitLog
        Loaded.
    queues : ConsumeQueues
        Loaded and recovered.
    config : MessageStoreConfig
    end_phy_offset : int
        CommitLog offset; records at or behind it are not read.
    ends : callable, optional
        Receives topic and queue id and returns the queue offset before which entries may be written; None: no limit.
        Without `ends` the limit is each queue's max offset.
    place : bool
        False: compare only.
    aside : Aside, optional
        Receives the records that do not get their places.
    plans : bool
        Write no entry; `aside` also receives the records whose entries would be written.
    passed : collection of int
        CommitLog offsets of records that keep the entry that they have in another queue.

    Notes
    -----
    An entry that points at a record of its queue and queue offset is never replaced, so no place is written twice. The
    caller syncs with `ConsumeQueues.sync_places`. The min and max offsets of the queues do not change; fillers are
    written by `ConsumeQueues.settle` alone.

    Thread safety: one thread heals, and with `ends` no thread puts into the queues at the same time.
    """

    def __init__(
        self,
        commitlog: CommitLog,
        queues: ConsumeQueues,
        config: MessageStoreConfig,
        end_phy_offset: int,
        *,
        ends: Callable[[QueueKey], int | None] | None = None,
        place: bool = True,
        aside: Aside | None = None,
        plans: bool = False,
        passed: Collection[int] = (),
    ) -> None:
        self._aside = aside
        self._passed = np.fromiter(passed, np.int64)
        self._plans = plans
        self.result = HealResult()
        self.records = RecordCompare(queues, config, commitlog.delay_levels)
        self._log = commitlog
        self._queues = queues
        self._config = config
        self._end = end_phy_offset
        self._ends = ends
        self._place = place
        self._floor: dict[int, int] = {}
        self.differing: set[int] = set()  # numbers of queues
        self.unplaced: list[Unplaced] = []

    def heal_file(self, file: MappedFile, *, differs: bool = False) -> None:
        """Compare a file, and write the entries that differ; `differs`: the caller knows that some differ."""
        self.result.files += 1
        self.result.compared_bytes += min(self._log.file_size, self._end - file.file_from_offset)
        if differs and self._place:
            self._place_file(file, first=True)
        elif self._compare_file(file) and self._place:
            self._place_file(file, first=False)
        for number, seen in enumerate(self.records.seen_by_number()):
            if seen.rows:
                alone = (
                    seen.backs > 0 and seen.since == 1
                )  # then that record's number is damaged, or the queue's end limits it
                low = seen.prev_low if alone else seen.low
                self._floor[number] = min(low, self._floor.get(number, low))

    def _scan(
        self, file: MappedFile, take: Callable[[ColumnScan, Batch], object]
    ) -> list[PassedOver]:
        self.records.restart()
        rows = ColumnScan(
            self.records.columns,
            delay_levels=self._log.delay_levels,
            stop_offset=self._end,
            batch_rows=BATCH_ROWS,
            batch_bytes=BATCH_BYTES,
        )
        return scan_file(
            file,
            self._log.file_size,
            rows,
            self.records,
            lambda batch: take(rows, batch),
            check_place=self._config.check_commit_log_offset_on_recover,
        )

    def _compare_file(self, file: MappedFile) -> int:
        """Compare a file; return the number of entries that differ."""
        differing = 0

        def take(rows: ColumnScan, batch: Batch) -> None:
            nonlocal differing
            found = self.records.compare(rows, batch)
            differing += found.differing
            self.differing.update(found.differing_numbers())
            self.unplaced.append(self.records.unplaced(rows, batch, found))
            self._count(found.differing, found.refused, found.count)

        self.result.damage += self._scan(file, take)
        return differing

    def _count(self, differing: int, refused: int, compared: int) -> None:
        self.result.differing_entries += differing
        self.result.refused_records += refused
        self.result.compared_records += compared

    # ---- writing ------------------------------------------------------------------------------------

    def _place_file(self, file: MappedFile, *, first: bool) -> None:
        """Write the entries of a file that differ."""
        parts: list[Rows] = []

        def take(rows: ColumnScan, batch: Batch) -> None:
            found = self.records.compare(rows, batch)
            parts.append(found.rows())
            if first:
                self._count(found.differing, found.refused, found.count)

        damage = self._scan(file, take)
        if first:
            self.result.damage += damage
        if not parts:
            return
        rows = Rows.joined(parts)
        numbers = rows.number
        if len(self.records) <= 1 << 16:
            numbers = numbers.astype(np.uint16)  # NumPy sorts short numbers by their digits
        order = np.argsort(numbers, kind="stable")
        counts = np.bincount(rows.number)
        ends = np.cumsum(counts)
        for number in distinct(rows.number[(rows.flags & queue_compare.DIFFERS) != 0]):
            end = int(ends[number])
            self._place_queue(number, rows.take(order[end - int(counts[number]) : end]))

    def _place_queue(self, number: int, rows: Rows) -> None:
        """Write the entries of one queue that differ; `rows` are all its rows in a file, in order."""
        place = self.records.place(number)
        limit = self._limit(place, number)
        offsets = rows.queue_offset
        differs = (rows.flags & queue_compare.DIFFERS) != 0
        if len(self._passed):
            differs &= ~np.isin(rows.phy_offset, self._passed)
        wanted = differs & (offsets < limit)
        back = (rows.flags & queue_compare.BACK) != 0
        if back.any():
            queue = self._queues.find(*place)
            anew = queue is None or queue.first_file < 0
            possible = np.flatnonzero(
                offsets < limit
            )  # a number behind the limit does not judge the others
            live = np.zeros(len(rows), bool)
            live[possible] = present_life(
                offsets[possible],
                ~differs[possible],
                back[possible],
                anew=anew,
                most_places=self._config.consume_queue_file_size // CQ_STORE_UNIT_SIZE,
            )
            wanted &= live
        held = wanted & ((rows.flags & queue_compare.HELD) != 0)
        for row in np.flatnonzero(held).tolist():
            queue_offset = int(offsets[row])
            entry = self._queues.read_places(*place, queue_offset, 1)[0]
            if fits(self._log, self._end, place, queue_offset, entry):
                wanted[row] = False
        if self._aside is not None:
            left = np.flatnonzero(
                differs & ~wanted & ~given_up(offsets, later_anew=self._floor.get(number, 1) == 0)
            )
            self._aside.add(place, offsets[left], rows.phy_offset[left])
        at = np.flatnonzero(wanted)
        if not len(at):
            return
        if self._plans and self._aside is not None:
            self._aside.would_write(place, offsets[at], rows.phy_offset[at])
            return
        for run in np.split(at, np.flatnonzero(np.diff(offsets[at]) != 1) + 1):
            self._queues.write_places(*place, int(offsets[run[0]]), rows.entries(run))
        self.result.healed_entries += len(at)
        lowest = int(offsets[at[0]])
        self.result.lowest[place] = min(lowest, self.result.lowest.get(place, lowest))
        self.result.queues[place] = self.result.queues.get(place, 0) + len(at)

    def _limit(self, place: QueueKey, number: int) -> int:
        """Return the queue offset before which entries may be written."""
        queue = self._queues.find(*place)
        if self._ends is None:
            return 0 if queue is None or queue.last_file < 0 else queue.max_offset
        limit = self._floor.get(number, 1 << 62)
        end = self._ends(place)
        if end is not None:
            return min(limit, end)
        if queue is not None and queue.last_file >= 0:
            # A queue offset is damaged if the log has no room for the messages between the queue's end and it.
            begin = self._log.files.first_offset
            room = log_room(place[0], begin, begin, self._end)
            limit = min(limit, queue.max_offset + room + 1)
        return limit


def present_life(
    queue_offsets: Longs,
    held: npt.NDArray[np.bool_],
    back: npt.NDArray[np.bool_],
    *,
    anew: bool,
    most_places: int,
) -> npt.NDArray[np.bool_]:
    """Return for each record of a queue, in the order of the log, whether it has the place that it names.

    A topic that was deleted and made again starts at queue offset 0: the later record has the place. But a single
    record that goes back, among others that rise, has a damaged number, unless its entry exists (`held`), or it is the
    last one, has queue offset 0, and the queue has no file (`anew`). The number of the first record is damaged too if
    the second (`back`) is more than `most_places` above it, the most by which numbers leap.
    """
    count = len(queue_offsets)
    odd = np.zeros(count, bool)
    rises = queue_offsets[1:] > queue_offsets[:-1]
    far = count > 1 and queue_offsets[1] - queue_offsets[0] > most_places
    if far and back[1]:
        odd[0] = not held[0]
    for row in (np.flatnonzero(~rises) + 1).tolist():
        alone = row + 1 == count or queue_offsets[row + 1] > queue_offsets[row - 1]
        begins = anew and row + 1 == count and queue_offsets[row] == 0
        odd[row] = alone and not held[row] and not begins
    later = np.where(odd, np.iinfo(np.int64).max, queue_offsets)
    least = np.minimum.accumulate(later[::-1])[::-1]
    live = ~odd
    live[:-1] &= queue_offsets[:-1] < least[1:]
    return live


def target_of(log: Any, log_end: int, entry: np.void) -> MessageView | None:
    """Return the message that an entry points at; None if no message before the end of the log is there."""
    phy_offset, msg_size = int(entry["phy_offset"]), int(entry["msg_size"])
    if phy_offset < 0 or msg_size <= 0 or phy_offset + msg_size > log_end:
        return None
    view: MessageView | None = log.view_at(phy_offset)
    if view is None or view.phy_offset != phy_offset or view.msg_size != msg_size:
        return None
    return view


def fits(log: Any, log_end: int, place: QueueKey, queue_offset: int, entry: np.void) -> bool:
    """Return True if an entry points at a record that names this queue and queue offset."""
    view = target_of(log, log_end, entry)
    if view is None:
        return False
    if (view.topic, view.queue_id, view.queue_offset) == (*place, queue_offset):
        return True
    return queue_offset in light_offsets(view, place)


def names_queue(
    log: Any,
    log_end: int,
    queues: ConsumeQueues,
    queue: ConsumeQueue,
    queue_offset: int,
    entry: np.void,
) -> bool:
    """Return True if an entry points to a record of its queue that fits, or that has no entry at the place it names."""
    place = queue.topic, queue.queue_id
    if fits(log, log_end, place, queue_offset, entry):
        return True
    view = target_of(log, log_end, entry)
    if view is None or (view.topic, view.queue_id) != place:
        return False
    if view.queue_offset < 0:
        return True
    own = queues.read_places(*place, view.queue_offset, 1)[0]
    return bool(own["msg_size"] <= 0 or own["phy_offset"] != entry["phy_offset"])


def light_offsets(view: MessageView, place: QueueKey) -> list[int]:
    """Return the queue offsets that a message names for itself in one of its further queues."""
    names = view.properties.get(INNER_MULTI_DISPATCH, "")
    if not names:
        return []
    own_id = 0 if place[0].startswith(LMQ_PREFIX) else view.queue_id
    found = pairs(names, view.properties.get(INNER_MULTI_QUEUE_OFFSET, ""))
    return [offset for name, offset in found if (name, own_id) == place]
