"""Records of a batch as runs of queue entries: for each queue its entries, in the order of their records.

Source: RocketMQ 5.5.0 CommitLogDispatcherBuildConsumeQueue, MultiDispatchUtils.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from rmqcore._native.format.cq import CQ_DTYPE
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.sysflag import has_queue_entry

Place = tuple[str, int]
"""Topic and queue id."""
Entries = npt.NDArray[np.void]
Offsets = npt.NDArray[np.int64]
Run = tuple[Place, Offsets, Entries]
"""A queue, the queue offsets that its records say, and the entries."""


class QueueRuns:
    """Cuts the batches of one scan into runs.

    Parameters
    ----------
    batch_topics : frozenset of str
        Topics whose records have no entries here; see `rmqcore.disk.queue_files.batch_topics`.

    Notes
    -----
    The runs of a queue, one after the other, do not depend on where batches end: entries come in the order of their records, the
    entry in a record's own queue before those in further queues.
    """

    def __init__(self, batch_topics: frozenset[str] = frozenset()) -> None:
        self._batch_topics = batch_topics
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        # By topic_id, since two ids can have the same name; -1 for a batch topic.
        self._number_of: Offsets = np.empty(0, np.int64)
        self._further: list[tuple[Place, int, tuple[int, int, int]]] = []

    def put_entry(
        self,
        topic: str,
        queue_id: int,
        phy_offset: int,
        msg_size: int,
        tags_code: int,
        queue_offset: int,
    ) -> None:
        """Note an entry of a further queue, for a record of the batch that `of` is given next."""
        if topic in self._batch_topics:
            return
        self._further.append(((topic, queue_id), queue_offset, (phy_offset, msg_size, tags_code)))

    def of(self, scan: ColumnScan, batch: Batch) -> Iterator[Run]:
        """Give the runs of a batch: of the records that have a queue entry, and of the further entries noted before."""
        rows = np.flatnonzero(has_queue_entry(ints(batch, "sys_flag")))
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
        if len(keys) == 0:
            return
        order = np.argsort(keys, kind="stable")
        keys, offsets, entries = keys[order], offsets[order], entries[order]
        bounds = [0, *(np.flatnonzero(np.diff(keys)) + 1).tolist(), len(keys)]
        for begin, end in pairwise(bounds):
            topic, queue_id = divmod(int(keys[begin]), 1 << 32)
            place = self._names[topic], queue_id - (queue_id >> 31 << 32)
            yield place, offsets[begin:end], entries[begin:end]

    def _number_topics(self, scan: ColumnScan) -> None:
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
        return number

    def _with_further(
        self, keys: Offsets, offsets: Offsets, entries: Entries
    ) -> tuple[Offsets, Offsets, Entries]:
        """Merge entries in own queues with those in further queues, in the order of their records."""
        further, self._further = self._further, []
        more_keys = [
            self._number(topic) << 32 | (queue_id & 0xFFFFFFFF)
            for (topic, queue_id), _, _ in further
        ]
        keys = np.concatenate([keys, np.array(more_keys, np.int64)])
        offsets = np.concatenate([offsets, np.array([run[1] for run in further], np.int64)])
        more = np.array([run[2] for run in further], CQ_DTYPE)
        joined = np.empty(len(keys), CQ_DTYPE)  # concatenate() would turn the bytes of all numbers
        joined[: len(entries)], joined[len(entries) :] = entries, more
        order = np.argsort(joined["phy_offset"].astype(np.int64), kind="stable")
        return keys[order], offsets[order], joined[order]


def ints(batch: Batch, name: str) -> npt.NDArray[np.int32]:
    """A column of 32-bit numbers."""
    return np.frombuffer(batch.buffer(name), np.int32)


def longs(batch: Batch, name: str) -> npt.NDArray[np.int64]:
    """A column of 64-bit numbers."""
    return np.frombuffer(batch.buffer(name), np.int64)
