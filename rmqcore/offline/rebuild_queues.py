"""Consume queue files made from records: each entry at the place that its record's QUEUEOFFSET says.

A broker that dispatches a record behind a gap puts its entry at the end of the queue, at an offset that is not the record's. Here
the gap that damage in the log leaves is filled with entries that point nowhere, so that all others keep their offsets.

Source: RocketMQ 5.5.0 ConsumeQueue#putMessagePositionInfo, #fillPreBlank.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rmqcore._native.cq import CQ_STORE_UNIT_SIZE
from rmqcore._native.scan import Batch, ColumnScan
from rmqcore.engine.durable import CLOEXEC, write_all
from rmqcore.engine.paths import file_name
from rmqcore.offline.queue_runs import ENTRY, Entries, Offsets, Place, QueueRuns

FILLER = np.array([(0, 0x7FFFFFFF, 0)], ENTRY)
MOST_OPEN = 256
MAX_QUEUE_OFFSET = (1 << 63) // CQ_STORE_UNIT_SIZE - (1 << 32)


def no_gap(phy_offset: int) -> int:  # noqa: ARG001
    """The gap limit of a log without damage."""
    return 0


@dataclass(slots=True)
class _Queue:
    """A queue under construction."""

    folder: Path
    next_offset: int


class QueueBuilder:
    """Makes the files of all queues below a folder.

    Parameters
    ----------
    folder : Path
        The ``consumequeue`` to be.
    file_size : int
        Bytes of a file, whole entries.
    gap_limit : callable, optional
        Given a record's CommitLog offset: a gap of more entries than this in front of it is not believed. Then its entry goes
        to the queue's end, as a broker puts it. It is what damage can have hidden.

    Attributes
    ----------
    entries, filled, ignored : int
        Entries put, entries that fill gaps, and records left out: their queue offset was there already, or is none.
    paths : list of Path
        Files made.
    """

    def __init__(
        self, folder: Path, file_size: int, gap_limit: Callable[[int], int] = no_gap
    ) -> None:
        self.entries = self.filled = self.ignored = 0
        self.paths: list[Path] = []
        self._folder = folder
        self._file_size = file_size
        self._gap_limit = gap_limit
        self._runs = QueueRuns()
        self._queues: dict[Place, _Queue] = {}
        self._open: OrderedDict[Path, int] = OrderedDict()

    @property
    def queues(self) -> int:
        """How many queues have entries."""
        return len(self._queues)

    def add(self, scan: ColumnScan, batch: Batch) -> None:
        """Put the entries of a batch, and those of `put_entry`."""
        for place, offsets, entries in self._runs.of(scan, batch):
            self.add_run(place, offsets, entries)

    def put_entry(
        self,
        topic: str,
        queue_id: int,
        phy_offset: int,
        msg_size: int,
        tags_code: int,
        queue_offset: int,
    ) -> None:
        """Put one more entry; it is written with the next batch."""
        self._runs.put_entry(topic, queue_id, phy_offset, msg_size, tags_code, queue_offset)

    def close(self) -> None:
        """Close the files."""
        while self._open:
            os.close(self._open.popitem()[1])

    # ---- one queue ----------------------------------------------------------------------------------

    def add_run(self, place: Place, offsets: Offsets, entries: Entries) -> None:
        """Put the next entries of one queue, in the order of their records."""
        queue = self._queues.get(place)
        if queue is None:
            nowhere = without_place(place, offsets)
            self.ignored += nowhere
            offsets, entries = offsets[nowhere:], entries[nowhere:]
            if len(offsets) == 0:
                return
            queue = self._begin(place, int(offsets[0]))
        if offsets[0] == queue.next_offset and bool(np.all(np.diff(offsets) == 1)):
            self._append(queue, entries)
            return
        for number, queue_offset in enumerate(offsets.tolist()):
            gap = queue_offset - queue.next_offset
            if gap < 0 and queue_offset != 0:
                self.ignored += 1
                continue
            if 0 < gap <= self._gap_limit(int(entries["phy_offset"][number])):
                self.filled += gap
                self._append(queue, np.repeat(FILLER, gap), counted=False)
            self._append(queue, entries[number : number + 1])

    def _begin(self, place: Place, queue_offset: int) -> _Queue:
        topic, queue_id = place
        queue = _Queue(self._folder / topic / str(queue_id), queue_offset)
        queue.folder.mkdir(parents=True, exist_ok=True)
        self._queues[place] = queue
        begin = queue_offset - queue_offset % (self._file_size // CQ_STORE_UNIT_SIZE)
        # As a broker does in the first file of a queue.
        self._write(queue, begin, np.repeat(FILLER, queue_offset - begin))
        return queue

    def _append(self, queue: _Queue, entries: Entries, *, counted: bool = True) -> None:
        self._write(queue, queue.next_offset, entries)
        queue.next_offset += len(entries)
        self.entries += len(entries) if counted else 0

    def _write(self, queue: _Queue, first: int, entries: Entries) -> None:
        """Write entries from queue offset `first` on, into as many files as they need."""
        data = memoryview(entries.tobytes())
        at = first * CQ_STORE_UNIT_SIZE
        while data:
            pos = at % self._file_size
            part = data[: self._file_size - pos]
            write_all(self._file(queue.folder / file_name(at - pos)), part, pos)
            data = data[len(part) :]
            at += len(part)

    def _file(self, path: Path) -> int:
        """The open file, made with its full size if it is new; some that were used last stay open."""
        fd = self._open.get(path)
        if fd is not None:
            self._open.move_to_end(path)
            return fd
        fd = os.open(path, os.O_RDWR | os.O_CREAT | CLOEXEC, 0o644)
        if os.fstat(fd).st_size == 0:
            os.ftruncate(fd, self._file_size)
            self.paths.append(path)
        if len(self._open) >= MOST_OPEN:
            os.close(self._open.popitem(last=False)[1])
        self._open[path] = fd
        return fd


def without_place(place: Place, offsets: Offsets) -> int:
    """How many of a run's first entries no queue can begin with: all of them when the topic is no name of a folder."""
    topic = place[0]
    if topic in ("", ".", "..") or "/" in topic or "\0" in topic:
        return len(offsets)
    fits = np.flatnonzero((offsets >= 0) & (offsets <= MAX_QUEUE_OFFSET))
    return int(fits[0]) if len(fits) else len(offsets)
