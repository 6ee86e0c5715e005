"""Consume queue files made from records: each entry at the place that its record's QUEUEOFFSET says.

A broker that dispatches a record behind a gap puts its entry at the end of the queue, at an offset that is not the record's. Here
the gap that damage in the log leaves is filled with entries that point nowhere, so that all others keep their offsets.

Source: RocketMQ 5.5.0 ConsumeQueue#putMessagePositionInfo, #fillPreBlank.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rmqcore._native.cq import CQ_STORE_UNIT_SIZE
from rmqcore._native.scan import Batch, ColumnScan
from rmqcore.engine.durable import CLOEXEC, write_all
from rmqcore.engine.paths import file_name
from rmqcore.sysflag import INNER_BATCH, TRANSACTION_PREPARED

ENTRY = np.dtype([("phy_offset", ">i8"), ("msg_size", ">i4"), ("tags_code", ">i8")])
FILLER = np.array([(0, 0x7FFFFFFF, 0)], ENTRY)
MOST_OPEN = 256
MAX_QUEUE_OFFSET = (1 << 63) // CQ_STORE_UNIT_SIZE - (1 << 32)

Entries = npt.NDArray[np.void]
Offsets = npt.NDArray[np.int64]


@dataclass(slots=True)
class _Queue:
    """A queue under construction."""

    folder: Path
    next_offset: int
    pending: list[tuple[int, tuple[int, int, int]]] = field(default_factory=list)


class QueueBuilder:
    """Makes the files of all queues below a folder.

    Parameters
    ----------
    folder : Path
        The ``consumequeue`` to be.
    file_size : int
        Bytes of a file, whole entries.

    Attributes
    ----------
    entries, filled, ignored : int
        Entries put, entries that fill gaps, and records left out: their queue offset was there already, or is none.
    files : int
    gap_limit : int
        A gap of more entries than this is not believed: then the entry goes to the queue's end, as a broker puts it. The caller
        raises it by what damage can have hidden.
    """

    def __init__(self, folder: Path, file_size: int) -> None:
        self.entries = self.filled = self.ignored = self.files = 0
        self.gap_limit = 0
        self._folder = folder
        self._file_size = file_size
        self._queues: dict[tuple[str, int], _Queue] = {}
        self._open: OrderedDict[Path, int] = OrderedDict()

    @property
    def queues(self) -> int:
        """How many queues have entries."""
        return len(self._queues)

    def add(self, scan: ColumnScan, batch: Batch) -> None:
        """Put the entries of a batch: those of records that are neither prepared nor rolled back, and no inner batches."""
        sys_flag = _ints(batch, "sys_flag")
        wanted = np.flatnonzero(sys_flag & (TRANSACTION_PREPARED | INNER_BATCH) == 0)
        if len(wanted):
            topic_id = _ints(batch, "topic_id")[wanted].astype(np.int64)
            queue_id = _ints(batch, "queue_id")[wanted].astype(np.int64)
            key = topic_id << 32 | (queue_id & 0xFFFFFFFF)
            order = np.argsort(key, kind="stable")
            rows = wanted[order]
            entries = np.empty(len(rows), ENTRY)
            entries["phy_offset"] = _longs(batch, "phy_offset")[rows]
            entries["msg_size"] = _ints(batch, "msg_size")[rows]
            entries["tags_code"] = _longs(batch, "tags_code")[rows]
            offsets = _longs(batch, "queue_offset")[rows]
            topics = scan.topics()
            bounds = [0, *(np.flatnonzero(np.diff(key[order])) + 1).tolist(), len(rows)]
            for begin, end in pairwise(bounds):
                row = order[begin]
                place = topics[int(topic_id[row])], int(queue_id[row])
                self._add_run(place, offsets[begin:end], entries[begin:end])
        self._put_pending()

    def put_entry(
        self,
        topic: str,
        queue_id: int,
        phy_offset: int,
        msg_size: int,
        tags_code: int,
        queue_offset: int,
    ) -> None:
        """Put one more entry; it is written with the next batch, or by `close`."""
        queue = self._queue((topic, queue_id), queue_offset)
        if queue is not None:
            queue.pending.append((queue_offset, (phy_offset, msg_size, tags_code)))

    def close(self) -> None:
        """Write what waits and close the files."""
        try:
            self._put_pending()
        finally:
            while self._open:
                os.close(self._open.popitem()[1])

    # ---- one queue ----------------------------------------------------------------------------------

    def _put_pending(self) -> None:
        for place, queue in self._queues.items():
            if queue.pending:
                offsets = np.array([offset for offset, _ in queue.pending], np.int64)
                entries = np.array([entry for _, entry in queue.pending], ENTRY)
                queue.pending.clear()
                self._add_run(place, offsets, entries)

    def _queue(self, place: tuple[str, int], queue_offset: int) -> _Queue | None:
        """The queue, begun at this offset if it is new; None when there can be no such queue."""
        queue = self._queues.get(place)
        if queue is not None:
            return queue
        topic, queue_id = place
        if topic in ("", ".", "..") or "/" in topic or "\0" in topic:
            return None
        if not 0 <= queue_offset <= MAX_QUEUE_OFFSET:
            return None
        queue = _Queue(self._folder / topic / str(queue_id), queue_offset)
        queue.folder.mkdir(parents=True)
        self._queues[place] = queue
        begin = queue_offset - queue_offset % (self._file_size // CQ_STORE_UNIT_SIZE)
        # As a broker does in the first file of a queue.
        self._write(queue, begin, np.repeat(FILLER, queue_offset - begin))
        return queue

    def _add_run(self, place: tuple[str, int], offsets: Offsets, entries: Entries) -> None:
        """Put the entries of one queue, in the order of their records."""
        queue = self._queue(place, int(offsets[0]))
        if queue is None:
            self.ignored += len(offsets)
            return
        if offsets[0] == queue.next_offset and bool(np.all(np.diff(offsets) == 1)):
            self._append(queue, entries)
            return
        for number, queue_offset in enumerate(offsets.tolist()):
            gap = queue_offset - queue.next_offset
            if gap < 0 and queue_offset != 0:
                self.ignored += 1
                continue
            if 0 < gap <= self.gap_limit:
                self.filled += gap
                self._append(queue, np.repeat(FILLER, gap), counted=False)
            self._append(queue, entries[number : number + 1])

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
            self.files += 1
        if len(self._open) >= MOST_OPEN:
            os.close(self._open.popitem(last=False)[1])
        self._open[path] = fd
        return fd


def _ints(batch: Batch, name: str) -> npt.NDArray[np.int32]:
    return np.frombuffer(batch.buffer(name), np.int32)


def _longs(batch: Batch, name: str) -> npt.NDArray[np.int64]:
    return np.frombuffer(batch.buffer(name), np.int64)
