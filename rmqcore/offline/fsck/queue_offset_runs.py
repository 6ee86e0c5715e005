"""Records of a batch as runs of queue offsets, and the entries that lie where theirs should be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rmqcore._native.format.cq import pack_cq
from rmqcore._native.format.cq_arrays import CQ_DTYPE
from rmqcore._native.format.layout import CQ_FILLER_SIZE, CQ_STORE_UNIT_SIZE
from rmqcore.disk.queue_files import BatchTopics
from rmqcore.offline.fsck.log_batch import Flags, Int64, LogBatch
from rmqcore.offline.queues.queues import Entries
from rmqcore.vocabulary.sysflag import has_queue_entry

EXT_ADDRESS_MAX = -2147483649
"""A tags code up to here is an address in the ConsumeQueueExt."""

UNREAD = 0xFF
"""Bytes for an entry that could not be read: its size and offset are -1, which no entry has."""


@dataclass(frozen=True, slots=True)
class Runs:
    """Rows of a batch by queue, each queue's in log order, cut where a queue offset does not follow.

    Attributes
    ----------
    rows : array
        Rows of the batch.
    key : array
        ``topic_id << 32 | queue_id`` of each.
    starts : array
        Where runs begin in `rows`.
    """

    rows: Int64
    key: Int64
    starts: Int64

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """Yield each run's key, start and end in `rows`."""
        ends = np.append(self.starts[1:], len(self.rows)).tolist()
        return zip(self.key[self.starts].tolist(), self.starts.tolist(), ends, strict=True)

    def part(self, wanted: list[bool]) -> Runs:
        """The runs that are wanted; one answer for each run."""
        lengths = np.diff(np.append(self.starts, len(self.rows)))
        chosen = np.array(wanted, bool)
        rows = np.repeat(chosen, lengths)
        ends = np.cumsum(lengths[chosen])
        return Runs(self.rows[rows], self.key[rows], ends - lengths[chosen])


def find_runs(batch: LogBatch, batch_topics: frozenset[str] | BatchTopics = frozenset()) -> Runs:
    """Sort the records that have a queue entry, by `has_queue_entry` and because their topic is no batch topic."""
    with_entry = has_queue_entry(batch.sys_flag)
    if batch_topics:
        left_out = [number for number, topic in enumerate(batch.topics) if topic in batch_topics]
        with_entry &= ~np.isin(batch.topic_id, left_out)
    rows = np.flatnonzero(with_entry)
    topics, queues = (
        batch.topic_id[rows].astype(np.int64),
        batch.queue_id[rows].astype(np.int64) & 0xFFFFFFFF,
    )
    if not len(rows):
        return Runs(rows, rows, rows)
    key = (topics << 32) | queues
    wide = int(queues.max()) + 1
    small = (int(topics.max()) + 1) * wide <= 1 << 16
    # NumPy sorts 16-bit numbers by radix, ten times faster.
    order = np.argsort((topics * wide + queues).astype(np.uint16) if small else key, kind="stable")
    rows, key = rows[order], key[order]
    queue_offset = batch.queue_offset[rows]
    begins = np.ones(len(rows), bool)
    begins[1:] = (key[1:] != key[:-1]) | (queue_offset[1:] != queue_offset[:-1] + 1)
    return Runs(rows, key, np.flatnonzero(begins))


def any_of_each(flags: Flags, runs: Runs) -> list[bool]:
    """Return True if any flag of each run is set."""
    found: list[bool] = np.logical_or.reduceat(flags, runs.starts).tolist()
    return found


def queue_id_of(key: int) -> int:
    """The queue id in a run's key; Java's int, so it may be negative."""
    queue_id = key & 0xFFFFFFFF
    return queue_id - ((queue_id & 0x80000000) << 1)


@dataclass(frozen=True, slots=True)
class Compared:
    """Entries beside the records they belong to.

    Attributes
    ----------
    entries : structured array
        As they were read, in the order of `Runs.rows`.
    differs : array
        The entry is not what its record asks for.
    absent : array
        No entry is there, or a filler.
    """

    entries: Entries
    differs: Flags
    absent: Flags


def compare(batch: LogBatch, rows: Int64, entries: Entries, *, with_ext: bool) -> Compared | None:
    """Compare entries with what their records ask for; None when all are equal.

    `with_ext`: there is a ConsumeQueueExt, so a tags code may be an address in it.
    """
    packed = np.frombuffer(
        pack_cq(batch.phy_offset[rows], batch.msg_size[rows], batch.tags_code[rows]), np.uint8
    )
    plain = entries.view(np.uint8)
    if np.array_equal(plain, packed):
        return None
    differs = (plain != packed).reshape(len(rows), CQ_STORE_UNIT_SIZE).any(axis=1)
    same_place = (entries["phy_offset"] == batch.phy_offset[rows]) & (
        entries["msg_size"] == batch.msg_size[rows]
    )
    if with_ext:
        differs &= ~(same_place & (entries["tags_code"] <= EXT_ADDRESS_MAX))
    absent = entries["phy_offset"] == -1
    absent |= (entries["phy_offset"] == 0) & np.isin(entries["msg_size"], (0, CQ_FILLER_SIZE))
    return Compared(entries, differs, absent & differs)


class EntryRoom:
    """Room for a batch's entries, used again and again."""

    def __init__(self) -> None:
        self._bytes = np.empty(0, np.uint8)

    def unread(self, count: int) -> Entries:
        """Room for `count` entries, none of them read."""
        if len(self._bytes) < count * CQ_STORE_UNIT_SIZE:
            self._bytes = np.empty(count * CQ_STORE_UNIT_SIZE, np.uint8)
        room = self._bytes[: count * CQ_STORE_UNIT_SIZE]
        room[:] = UNREAD
        return room.view(CQ_DTYPE)


def stretches(places: Int64) -> list[Int64]:
    """Split ascending numbers where a number is left out."""
    return [part for part in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1) if len(part)]
