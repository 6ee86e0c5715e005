"""Records of a batch as runs of queue entries: for each queue its entries, in the order of their records.

Source: RocketMQ 5.5.0 CommitLogDispatcherBuildConsumeQueue, MultiDispatchUtils.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from rmqcore._native.format.cq_arrays import CQ_DTYPE
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.disk.queue_files import BatchTopics
from rmqcore.vocabulary.sysflag import has_queue_entry
from rmqcore.vocabulary.topics import QueueKey

Topics = frozenset[str] | BatchTopics
Entries = npt.NDArray[np.void]
Offsets = npt.NDArray[np.int64]
QueueRun = tuple[QueueKey, Offsets, Entries]
"""A queue, the queue offsets that its records name, and the entries."""

MOST_WAITING = 1 << 16
"""Entries of further queues that wait for the end of a batch: a record can ask for thousands."""
MOST_HELD = 1 << 18
"""Entries that are held for longer runs, of 36 bytes each: with many queues a run opens and closes a file."""
MOST_NAME_BYTES = 16 << 20
"""Bytes of memory for the names of topics that are kept from one batch to the next."""
NAME_BYTES = 150
"""Bytes of memory of a name beside its text, in a list and a dictionary."""
_NUMBERS = 5
"""Numbers of an entry that waits: queue, queue_offset, phy_offset, msg_size and tags_code."""


class QueueRuns:
    """Cuts the batches of one scan into runs.

    Parameters
    ----------
    batch_topics : collection of str
        Topics whose records have no entries here; see `rmqcore.disk.queue_files.batch_topics`.

    Notes
    -----
    The runs of a queue, one after the other, do not depend on where batches end: entries come in the order of their
    records, the entry in a record's own queue before those in further queues.
    """

    def __init__(self, batch_topics: Topics = frozenset()) -> None:
        self._batch_topics = batch_topics
        self._numbers: dict[str, int] = {}
        self._name_bytes = 0
        self._names: list[str] = []
        # By topic_id, since two ids can have the same name; -1 for a batch topic.
        self._number_of: Offsets = np.empty(0, np.int64)
        self._numbering = 0
        self._further = array("q")
        self._held: list[tuple[Offsets, Offsets, Entries]] = []
        self._held_rows = 0

    def put_entry(
        self,
        topic: str,
        queue_id: int,
        phy_offset: int,
        msg_size: int,
        tags_code: int,
        queue_offset: int,
    ) -> bool:
        """Note an entry of a further queue, for a record of the next batch passed to `of`.

        Return True if the batch should end, because many entries wait.
        """
        number = self._number(topic)
        if number >= 0:
            key = number << 32 | (queue_id & 0xFFFFFFFF)
            self._further.extend((key, queue_offset, phy_offset, msg_size, tags_code))
        return len(self._further) >= MOST_WAITING * _NUMBERS

    def of(self, scan: ColumnScan, batch: Batch) -> Iterator[QueueRun]:
        """Return the runs of a batch: of the records that have a queue entry, and of the further entries noted before."""
        self.hold(scan, batch)
        return self.held()

    def hold(
        self, scan: ColumnScan, batch: Batch, without: npt.NDArray[np.bool_] | None = None
    ) -> bool:
        """Keep the runs of a batch, to join them with those of later batches; return True if `held` is due.

        The rows that are marked in `without` are left out.
        """
        wanted = has_queue_entry(ints(batch, "sys_flag"))
        rows = np.flatnonzero(wanted if without is None else wanted & ~without)
        self._number_topics(scan)
        topics = self._number_of[ints(batch, "topic_id")[rows]]
        if self._batch_topics:
            rows, topics = rows[topics >= 0], topics[topics >= 0]
        entries = np.empty(len(rows), CQ_DTYPE)
        entries["phy_offset"] = longs(batch, "phy_offset")[rows]
        entries["msg_size"] = ints(batch, "msg_size")[rows]
        entries["tags_code"] = longs(batch, "tags_code")[rows]
        offsets = longs(batch, "queue_offset")[rows]
        keys = topics << 32 | (ints(batch, "queue_id")[rows].astype(np.int64) & 0xFFFFFFFF)
        if self._further:
            keys, offsets, entries = self._with_further(keys, offsets, entries)
        if len(keys):
            self._held.append((keys, offsets, entries))
            self._held_rows += len(keys)
        return self._held_rows >= MOST_HELD or self._name_bytes > MOST_NAME_BYTES

    def held(self) -> Iterator[QueueRun]:
        """Yield the runs of all held batches, and forget them."""
        held, rows = self._held, self._held_rows
        self._held, self._held_rows = [], 0
        if rows:
            yield from self._cut(held)
        if self._name_bytes > MOST_NAME_BYTES:
            self._forget()

    def _cut(self, held: list[tuple[Offsets, Offsets, Entries]]) -> Iterator[QueueRun]:
        keys = np.concatenate([part[0] for part in held])
        order = np.argsort(keys, kind="stable")
        keys, offsets = keys[order], np.concatenate([part[1] for part in held])[order]
        # As plain bytes: concatenate() would turn those of all numbers.
        packed = [part[2].view(f"V{CQ_DTYPE.itemsize}") for part in held]
        entries = np.concatenate(packed)[order].view(CQ_DTYPE)
        bounds = [0, *(np.flatnonzero(np.diff(keys)) + 1).tolist(), len(keys)]
        for begin, end in pairwise(bounds):
            topic, queue_id = divmod(int(keys[begin]), 1 << 32)
            place = self._names[topic], queue_id - (queue_id >> 31 << 32)
            yield place, offsets[begin:end], entries[begin:end]

    def _forget(self) -> None:
        """Forget all topics: the next batch numbers its own."""
        self._numbers, self._names = {}, []
        self._name_bytes = 0
        self._number_of = np.empty(0, np.int64)

    def _number_topics(self, scan: ColumnScan) -> None:
        if scan.numbering != self._numbering:  # what the numbers of the scan mean is new
            self._numbering = scan.numbering
            self._number_of = np.empty(0, np.int64)
        new = scan.topics(len(self._number_of))
        if new:
            numbers = np.array([self._number(topic) for topic in new], np.int64)
            self._number_of = np.concatenate([self._number_of, numbers])

    def _number(self, topic: str) -> int:
        if topic in self._batch_topics:
            return -1
        number = self._numbers.setdefault(topic, len(self._names))
        if number == len(self._names):
            self._names.append(topic)
            self._name_bytes += NAME_BYTES + sys.getsizeof(topic)
        return number

    def _with_further(
        self, keys: Offsets, offsets: Offsets, entries: Entries
    ) -> tuple[Offsets, Offsets, Entries]:
        """Merge entries in own queues with those in further queues, in the order of their records."""
        further = np.frombuffer(self._further, np.int64).reshape(-1, _NUMBERS)
        self._further = array("q")
        keys = np.concatenate([keys, further[:, 0]])
        offsets = np.concatenate([offsets, further[:, 1]])
        joined = np.empty(len(keys), CQ_DTYPE)  # concatenate() would turn the bytes of all numbers
        joined[: len(entries)] = entries
        for column, name in enumerate(("phy_offset", "msg_size", "tags_code"), 2):
            joined[name][len(entries) :] = further[:, column]
        order = np.argsort(joined["phy_offset"].astype(np.int64), kind="stable")
        return keys[order], offsets[order], joined[order]


def ints(batch: Batch, name: str) -> npt.NDArray[np.int32]:
    """A column of 32-bit numbers."""
    return np.frombuffer(batch.buffer(name), np.int32)


def longs(batch: Batch, name: str) -> npt.NDArray[np.int64]:
    """A column of 64-bit numbers."""
    return np.frombuffer(batch.buffer(name), np.int64)
