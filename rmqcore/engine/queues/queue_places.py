"""Queue entries by their places, whatever the queues' ends are, as recovery and checks read and write them."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

from rmqcore._native.format.cq_arrays import CQ_DTYPE, unpack_cq_entries
from rmqcore._native.format.layout import CQ_FILLER_SIZE, CQ_STORE_UNIT_SIZE
from rmqcore._native.queues.consume_queue import ConsumeQueue
from rmqcore._native.queues.queue_compare import QueueCompare, write_entries
from rmqcore._native.queues.queue_table import QueueTable
from rmqcore.disk.durable import sync_directory
from rmqcore.disk.inside.files import unlink
from rmqcore.disk.inside.opened import sync_data
from rmqcore.disk.paths import MAX_OFFSET, StorePaths, file_name
from rmqcore.disk.queue_ends import (
    corrected_min,
    end_of_message,
    newest_entry,
    recovered_end,
    truncated_end,
)
from rmqcore.disk.queue_files import NOT_ODD, Entries, OddFiles, QueueFile, load_queue_files
from rmqcore.disk.queue_shape import judge, runs
from rmqcore.disk.read_range import opened, read_range
from rmqcore.engine.queues.stale_bytes import StaleBytes

Fits = Callable[[ConsumeQueue, int, "np.void"], bool]
"""Whether an entry at a queue offset points at a record that belongs to the queue."""


class QueuePlaces:
    """Reads and writes entries at their places; one thread at a time, the queues' writer.

    Parameters
    ----------
    paths : StorePaths
    table : QueueTable
    stale : StaleBytes
        Receives the bytes and files behind the ends of queues.

    Attributes
    ----------
    odd : OddFiles
        Files that get their length with the next `sync`, or go, once the entries are on disk: before that they show the
        loss.
    """

    def __init__(self, paths: StorePaths, table: QueueTable, stale: StaleBytes) -> None:
        self._root = Path(table.root)
        self._with_ext = paths.consumequeue_ext.is_dir()
        self._table = table
        self._stale = stale
        self._written: set[Path] = set()
        self.odd: OddFiles = NOT_ODD

    def comparer(self, *, none_held: bool = False) -> QueueCompare:
        """Return a new comparison of records with their entries; `none_held`: no queue has a file."""
        return QueueCompare(self._table, with_ext=self._with_ext, none_held=none_held)

    def directory(self, topic: str, queue_id: int) -> Path:
        """Return the directory of a queue's files."""
        return self._root / topic / str(queue_id)

    def read(self, topic: str, queue_id: int, queue_offset: int, count: int) -> Entries:
        """Return the entries at `count` places; zeros where a file is missing or impossible."""
        file_size = self._table.file_size
        pos = queue_offset * CQ_STORE_UNIT_SIZE
        end = (queue_offset + count) * CQ_STORE_UNIT_SIZE
        parts = []
        while pos < end:
            start = pos - pos % file_size
            size = min(end, start + file_size) - pos
            data = b""
            if start <= MAX_OFFSET:
                path = self.directory(topic, queue_id) / file_name(start)
                data = read_range(path, pos - start, size)
            parts.append(data.ljust(size, b"\0"))
            pos += size
        return unpack_cq_entries(b"".join(parts))

    def write(self, topic: str, queue_id: int, queue_offset: int, entries: Entries) -> None:
        """Write entries at their places from a queue offset on, and make missing files; leave the queue's end."""
        write_entries(self._table, topic, queue_id, queue_offset, entries)
        file_size = self._table.file_size
        pos, end = (
            queue_offset * CQ_STORE_UNIT_SIZE,
            (queue_offset + len(entries)) * CQ_STORE_UNIT_SIZE,
        )
        folder = self.directory(topic, queue_id)
        for start in range(pos - pos % file_size, end, file_size):
            self._written.add(folder / file_name(start))

    def sync(self) -> None:
        """Sync the written bytes and the names of new files."""
        folders: set[Path] = set()
        for path in sorted(self._written):
            with opened(path, os.O_RDONLY) as fd:
                sync_data(fd)
            folders |= {path.parent, path.parent.parent, path.parent.parent.parent}
        for folder in sorted(folders, reverse=True):
            sync_directory(folder)
        self._written.clear()
        self._mend_odd_files()

    def _mend_odd_files(self) -> None:
        for path in sorted(self.odd.lengths):
            with suppress(FileNotFoundError), opened(path, os.O_RDWR) as fd:
                os.ftruncate(fd, self._table.file_size)
                os.fsync(fd)
        for path in sorted(self.odd.strays):
            unlink(path, missing_ok=True)
        for folder in sorted({Path(path).parent for path in self.odd.strays}):
            sync_directory(folder)
        self.odd = NOT_ODD

    # ---- ends ---------------------------------------------------------------------------------------

    def set_end(
        self, queue: ConsumeQueue, files: list[QueueFile], at: int, valid: int, max_phy: int
    ) -> None:
        """End the queue behind the first `valid` entries of a file, and note the bytes and files behind them."""
        last = files[at]
        end = last.file_from_offset + valid * CQ_STORE_UNIT_SIZE
        queue.set_files(files[0].file_from_offset, last.file_from_offset, end, max_phy)
        self._stale.drop(file.path for file in files)
        self._stale.add_files(file.path for file in files[at + 1 :])
        self._stale.add_bytes_behind(last, valid)

    def settle(
        self,
        queue: ConsumeQueue,
        end: int | None,
        known_from: int,
        log_min: int,
        log_end: int,
        *,
        fill_from: int | None,
        fits: Fits,
    ) -> tuple[int, int]:
        """End a queue at the offset that the log determines; arguments as for `ConsumeQueues.settle`.

        Parameters
        ----------
        end : int or None
            Queue offset behind the last record; None: the queue's files determine it.
        fill_from : int or None
            Places from the file of this queue offset on that have no sound entry get fillers.

        Returns
        -------
        tuple
            Number of entries removed at the end, and of fillers written.
        """
        before = queue.max_offset if queue.last_file >= 0 else 0
        files, _ = self.load(queue)
        if not files:
            if queue.last_file >= 0:
                queue.set_files(-1, -1, 0, -1)
            return 0, 0
        if end is not None:
            end = self._with_fitting(queue, end, before, fits)
        if end is not None and (fill_from is None or fill_from > before):
            fill_from = min(before, end)
        filled = 0
        if fill_from is not None:
            filled = self._fill(queue, files, fill_from, end, log_min, log_end, fits)
        if filled:
            files, _ = self.load(queue)
        at, valid = recovered_end(files) if end is None else _place_of(files, end)
        if end is None and at >= 0:
            at, valid = self._without_stale(queue, files, at, valid, known_from, fits)
        if at < 0:
            self._stale.add_files(file.path for file in files)
            queue.set_files(-1, -1, 0, -1)
            return max(0, before - files[0].first_offset), filled
        max_phy = end_of_message(newest_entry(files, at, valid))
        self.set_end(queue, files, at, valid, max_phy)
        return max(0, before - queue.max_offset), filled

    def _with_fitting(self, queue: ConsumeQueue, end: int, before: int, fits: Fits) -> int:
        """Return the queue's end with the entries behind it that fit their records: those numbers are damaged."""
        while before > end:
            entry = self.read(queue.topic, queue.queue_id, before - 1, 1)[0]
            if int(entry["msg_size"]) > 0 and fits(queue, before - 1, entry):
                return before
            before -= 1
        return end

    def _without_stale(
        self,
        queue: ConsumeQueue,
        files: list[QueueFile],
        at: int,
        valid: int,
        known_from: int,
        fits: Fits,
    ) -> tuple[int, int]:
        """Return the end (file, count) of a queue without records from `known_from` on; entries that point there go."""
        kept_at, kept = truncated_end(files, at, valid, known_from)
        end = files[at].first_offset + valid
        kept_end = files[kept_at].first_offset + kept if kept_at >= 0 else files[0].first_offset
        kept_end = self._with_fitting(queue, kept_end, end, fits)
        return _place_of(files, kept_end) if kept_end > files[0].first_offset else (-1, 0)

    def load(self, queue: ConsumeQueue) -> tuple[list[QueueFile], list[str]]:
        """List a queue's files."""
        directory = self.directory(queue.topic, queue.queue_id)
        return load_queue_files(directory, self._table.file_size, self.odd)

    def _fill(
        self,
        queue: ConsumeQueue,
        files: list[QueueFile],
        begin: int,
        end: int | None,
        log_min: int,
        log_end: int,
        fits: Fits,
    ) -> int:
        """Write fillers to places without a sound entry before the queue's end; the last places may be among them.

        Entries of messages before the log stay: without their messages the wrong one of two that are out of order is
        unknown.
        """
        filled, last_end = 0, 0
        count = files[0].entry_count
        stop = files[-1].first_offset + count if end is None else end
        waiting: list[tuple[int, int]] = []  # runs of places to fill when an entry follows
        for first in range(max(begin - begin % count, files[0].first_offset), stop, count):
            entries = self.read(queue.topic, queue.queue_id, first, min(count, stop - first))
            judged = judge(entries, log_end, last_end)
            bad = ~(judged.sound | judged.filler)
            for place in np.flatnonzero(bad & (entries["msg_size"] > 0)).tolist():
                entry = entries[place]
                expired = 0 <= int(entry["phy_offset"]) < log_min
                bad[place] = not (expired or fits(queue, first + place, entry))
            waiting += [(first + begin, first + end) for begin, end in runs(bad)]
            good = np.flatnonzero(~bad)
            until = stop if end is not None else first + int(good[-1]) if len(good) else -1
            for from_place, to_place in waiting:
                if to_place <= until:
                    size = to_place - from_place
                    self.write(queue.topic, queue.queue_id, from_place, fillers(size))
                    filled += size
            waiting = [run for run in waiting if run[1] > until]
            if len(judged.upper):
                last_end = int(judged.upper[-1])
        return filled


def fillers(count: int) -> Entries:
    """Return `count` entries that point at no message."""
    made = np.zeros(count, CQ_DTYPE)
    made["msg_size"] = CQ_FILLER_SIZE
    return made


def _place_of(files: list[QueueFile], end: int) -> tuple[int, int]:
    """Return the file in which the entries before a queue offset end, and their count; (-1, 0): before all files."""
    for at in range(len(files) - 1, -1, -1):
        if files[at].first_offset < end:
            return at, min(end - files[at].first_offset, files[at].entry_count)
    return -1, 0


def correct_min_offset(queue: ConsumeQueue, log_min: int, known: int | None = None) -> None:
    """Raise a queue's min offset to the first entry whose message is still in the log, which starts at `log_min`.

    `known`: the min offset before files were deleted, if this call follows a deletion: Java's search depends on it.

    Source: RocketMQ 5.5.0 ConsumeQueue#correctMinOffset.
    """
    first, last = queue.first_file, queue.last_file
    if first < 0:
        return
    end = queue.max_offset
    first_offset = first // CQ_STORE_UNIT_SIZE
    last_has_entries = end * CQ_STORE_UNIT_SIZE > last
    found = corrected_min(
        queue.min_offset if known is None else known,
        end,
        first_offset,
        min(queue.entries_per_file, end - first_offset),
        log_min,
        queue.phy_offset(end - 1) if last_has_entries else -1,
        queue.phy_offset,
    )
    if found > queue.min_offset:
        queue.set_min(found)


def hide_before(queue: ConsumeQueue, phy_offset: int) -> None:
    """Raise a queue's min offset to the first entry whose message lies at or behind a CommitLog offset.

    All files are searched; `correct_min_offset` reads only the first one, as Java does. A filler points at no message,
    and counts as the next message behind it.
    """
    low, high = queue.min_offset, queue.max_offset
    while low < high:
        middle = at = (low + high) // 2
        while at < high and (entry := queue.get_entry(at)) is not None:
            if entry[1] != CQ_FILLER_SIZE:
                break
            at += 1
        if at == high or entry is None or entry[0] >= phy_offset:
            high = middle
        else:
            low = at + 1
    if low > queue.min_offset:
        queue.set_min(low)
