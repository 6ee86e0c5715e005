"""Records of a scan, compared with their queue entries.

A record's entry lies at queue offset QUEUEOFFSET of its queue; a record of light queues has further entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from rmqcore._native.format.codec import DelayLevels
from rmqcore._native.format.cq import pack_cq
from rmqcore._native.format.cq_arrays import CQ_DTYPE, unpack_cq_entries
from rmqcore._native.queues import queue_compare
from rmqcore._native.queues.queue_compare import SeenQueue
from rmqcore._native.queues.queue_table import is_directory_name
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.queue_files import Entries
from rmqcore.disk.queue_shape import may_be_deliver_times
from rmqcore.engine.dispatch.dispatcher import QUEUE_COLUMNS
from rmqcore.engine.dispatch.multi_dispatch import Entry, MultiDispatch
from rmqcore.engine.queues.consume_queues import ConsumeQueues
from rmqcore.vocabulary.sysflag import has_queue_entry
from rmqcore.vocabulary.topics import SCHEDULE_TOPIC, QueueKey

Numbers = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rows:
    """Records with a queue, by columns: NumPy sorts packed rows ten times slower.

    Attributes
    ----------
    number : array of int32
        Number of the record's queue.
    flags : array of uint8
        Findings of the comparison.
    queue_offset : array of int64
    phy_offset, msg_size, tags_code : arrays
        The entry that the record requires.
    """

    number: Numbers
    flags: npt.NDArray[np.uint8]
    queue_offset: Longs
    phy_offset: Longs
    msg_size: Numbers
    tags_code: Longs

    def __len__(self) -> int:
        return len(self.number)

    @staticmethod
    def joined(parts: Sequence[Rows]) -> Rows:
        """Return the rows of all parts."""
        return Rows(
            *(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(Rows))
        )

    def take(self, at: npt.NDArray[np.intp]) -> Rows:
        """Return the rows at these positions, in that order."""
        return Rows(*(getattr(self, one.name)[at] for one in fields(Rows)))

    def entries(self, at: npt.NDArray[np.intp]) -> Entries:
        """Return the entries of the rows at these positions."""
        return unpack_cq_entries(
            pack_cq(self.phy_offset[at], self.msg_size[at], self.tags_code[at])
        )


@dataclass(frozen=True, slots=True)
class BatchFindings:
    """Findings of one batch; the arrays belong to the batch and are valid as long as it is.

    Attributes
    ----------
    differing : int
        Rows whose place holds another entry, or none.
    refused : int
        Rows that no queue accepts.
    count : int
        Rows with a queue.
    """

    differing: int
    refused: int
    count: int
    _numbers: Numbers
    _flags: npt.NDArray[np.uint8]
    _batch: Batch
    _light: LightRows

    @property
    def has_light(self) -> bool:
        """True if rows of light queues exist, which are not in the batch."""
        return len(self._flags) > len(self._batch)

    def differing_numbers(self) -> list[int]:
        """Return the numbers of the queues with rows that differ."""
        if not self.differing:
            return []
        return distinct(self._numbers[(self._flags & queue_compare.DIFFERS) != 0])

    def unplaced(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the batch's records without an entry whose places, if they name one, are free."""
        flags = self._flags[: len(self._batch)]
        found: npt.NDArray[np.bool_] = (
            flags & (queue_compare.DIFFERS | queue_compare.REFUSED)
        ) != 0
        found &= (flags & (queue_compare.TAGS | queue_compare.HELD)) == 0
        return found

    def claims(self) -> Iterator[tuple[int, Longs]]:
        """Yield for each queue number the queue offsets at which another record's entry lies."""
        flags = self._flags[: len(self._batch)]
        at = np.flatnonzero((flags & queue_compare.HELD) != 0)
        numbers = self._numbers[at]
        offsets: Longs = np.frombuffer(self._batch.buffer("queue_offset"), np.int64)[at]
        for number in distinct(numbers) if len(at) else ():
            yield number, offsets[numbers == number]

    def rows(self) -> Rows:
        """Return the rows with a queue, in the order of their records."""
        count, light = len(self._batch), self._light
        wanted = np.flatnonzero(self._numbers >= 0)
        own = wanted[wanted < count]
        further = wanted[len(own) :] - count
        more = np.array(light.entries, CQ_DTYPE)[further]

        def column(name: str, kind: type, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
            held: npt.NDArray[Any] = np.frombuffer(self._batch.buffer(name), kind)[own]
            return np.concatenate([held, values.astype(kind)]) if len(further) else held

        made = Rows(
            self._numbers[wanted],
            self._flags[wanted],
            column("queue_offset", np.int64, np.array(light.queue_offsets, np.int64)[further]),
            column("phy_offset", np.int64, more["phy_offset"]),
            column("msg_size", np.int32, more["msg_size"]),
            column("tags_code", np.int64, more["tags_code"]),
        )
        return made.take(np.argsort(made.phy_offset, kind="stable")) if len(further) else made


@dataclass(frozen=True, slots=True)
class Unplaced:
    """Records without an entry at their places.

    Attributes
    ----------
    phy_offsets : array of int64
        CommitLog offsets of records whose places are free, and of records with an entry but without a queue.
    claims : dict
        Topic and queue id to queue offsets that records name, and at which the entry of another record lies.
    """

    phy_offsets: Longs
    claims: dict[QueueKey, Longs]


def distinct(numbers: Numbers) -> list[int]:
    """Return the distinct numbers, ascending; no number may be negative."""
    return [int(number) for number in np.flatnonzero(np.bincount(numbers))]


class LightRows:
    """The further entries of a batch's records."""

    def __init__(self) -> None:
        self.topics: list[str] = []
        self.queue_ids: list[int] = []
        self.queue_offsets: list[int] = []
        self.entries: list[tuple[int, int, int]] = []

    def add(self, entry: Entry) -> None:
        """Note an entry."""
        topic, queue_id, phy_offset, msg_size, tags_code, queue_offset = entry
        self.topics.append(topic)
        self.queue_ids.append(queue_id)
        self.queue_offsets.append(queue_offset)
        self.entries.append((phy_offset, msg_size, tags_code))


class RecordCompare:
    """Compares the records that a scan gathers with their entries; files are only read.

    Parameters
    ----------
    queues : ConsumeQueues
    config : MessageStoreConfig
        Light queues are compared with ``enable_multi_dispatch``.
    delay_levels : DelayLevels
        Delays from which the tags codes of delayed messages are computed.
    none_held : bool
        True if no queue has a file: all entries are missing, and no file is read.
    """

    columns = QUEUE_COLUMNS

    def __init__(
        self,
        queues: ConsumeQueues,
        config: MessageStoreConfig,
        delay_levels: DelayLevels,
        *,
        none_held: bool = False,
    ) -> None:
        self.delay_levels = delay_levels
        self._queues = queues
        self._native = queues.comparer(none_held=none_held)
        self._light = LightRows()
        self._multi = MultiDispatch(config, delay_levels)

    def watch(self, buf: Any, begin: int, end: int) -> None:
        """Note light queues in the records of ``buf[begin:end]``, consecutive records of the batch compared next."""
        if self._multi.enabled and begin < end:
            for entry in self._multi.entries(buf, begin, end, 0):
                self._light.add(entry)

    def compare(self, scan: ColumnScan, batch: Batch) -> BatchFindings:
        """Compare the records of a batch, which must follow the previous batch's unless `restart` was called."""
        light = self._light
        if light.topics and not set(light.topics).isdisjoint(scan.topics()):
            found, flags, numbers = self._in_order(scan, batch, light)
            self._light = LightRows()
        else:
            found, flags, numbers = self._apart(scan, batch, light)
        count = int(np.count_nonzero(numbers >= 0))
        if not found:
            return BatchFindings(0, 0, count, numbers, flags, batch, light)
        self._pass_over_other_levels(batch, flags, numbers)
        differing = int(np.count_nonzero(flags & queue_compare.DIFFERS))
        refused = int(np.count_nonzero(flags & queue_compare.REFUSED))
        return BatchFindings(differing, refused, count, numbers, flags, batch, light)

    def _apart(
        self, scan: ColumnScan, batch: Batch, light: LightRows
    ) -> tuple[int, npt.NDArray[np.uint8], Numbers]:
        """Compare the records with their own queues, and then with their light ones."""
        found, flags, numbers = self._native.compare_batch(scan, batch)
        if not light.topics:
            return found, flags, numbers
        more, more_flags, more_numbers = self._native.compare_entries(
            light.topics,
            np.array(light.queue_ids, np.int32),
            np.array(light.queue_offsets, np.int64),
            np.array(light.entries, CQ_DTYPE),
        )
        self._light = LightRows()
        return (
            found + more,
            np.concatenate([flags, more_flags]),
            np.concatenate([numbers, more_numbers]),
        )

    def _in_order(
        self, scan: ColumnScan, batch: Batch, light: LightRows
    ) -> tuple[int, npt.NDArray[np.uint8], Numbers]:
        """Compare a batch in the order of the log, because one of its queues may be light and ordinary."""
        own = np.flatnonzero(has_queue_entry(np.frombuffer(batch.buffer("sys_flag"), np.int32)))
        entries = np.empty(len(own) + len(light.topics), CQ_DTYPE)
        for name, kind in (
            ("phy_offset", np.int64),
            ("msg_size", np.int32),
            ("tags_code", np.int64),
        ):
            entries[name][: len(own)] = np.frombuffer(batch.buffer(name), kind)[own]
        entries[len(own) :] = np.array(light.entries, CQ_DTYPE)
        topics = scan.topics()
        topic_ids = np.frombuffer(batch.buffer("topic_id"), np.int32)[own].tolist()
        names = [topics[number] for number in topic_ids] + light.topics
        queue_ids = np.frombuffer(batch.buffer("queue_id"), np.int32)[own]
        offsets = np.frombuffer(batch.buffer("queue_offset"), np.int64)[own]
        order = np.argsort(entries["phy_offset"].astype(np.int64), kind="stable")
        found, row_flags, row_numbers = self._native.compare_entries(
            [names[row] for row in order.tolist()],
            np.concatenate([queue_ids, np.array(light.queue_ids, np.int32)])[order],
            np.concatenate([offsets, np.array(light.queue_offsets, np.int64)])[order],
            entries[order],
        )
        flags = np.zeros(len(batch) + len(light.topics), np.uint8)
        numbers = np.full(len(flags), -1, np.int32)
        at = np.concatenate([own, len(batch) + np.arange(len(light.topics))])[order]
        flags[at], numbers[at] = row_flags, row_numbers
        return found, flags, numbers

    def _pass_over_other_levels(
        self, batch: Batch, flags: npt.NDArray[np.uint8], numbers: Numbers
    ) -> None:
        """Accept deliver times of any level: messageDelayLevel may have been different when the messages were put."""
        count = len(batch)  # light queues have no delayed messages
        at = np.flatnonzero((flags[:count] & queue_compare.TAGS) != 0)
        for number in distinct(numbers[at]):
            if self.place(number)[0] != SCHEDULE_TOPIC:
                continue
            rows = at[numbers[at] == number]
            stored_ms = np.frombuffer(batch.buffer("store_timestamp_ms"), np.int64)[rows]
            asked = np.frombuffer(batch.buffer("tags_code"), np.int64)[rows]
            offsets = np.frombuffer(batch.buffer("queue_offset"), np.int64)[rows]
            held = self._tags_codes(self.place(number), offsets)
            both = may_be_deliver_times(held, stored_ms) & may_be_deliver_times(asked, stored_ms)
            flags[rows[both]] &= np.uint8(~(queue_compare.DIFFERS | queue_compare.TAGS) & 0xFF)

    def _tags_codes(self, place: QueueKey, queue_offsets: Longs) -> Longs:
        """Return the tags codes in a queue's files at places."""
        runs = np.split(queue_offsets, np.flatnonzero(np.diff(queue_offsets) != 1) + 1)
        read = self._queues.read_places
        return np.concatenate(
            [read(*place, int(run[0]), len(run))["tags_code"].astype(np.int64) for run in runs]
        )

    def unplaced(self, scan: ColumnScan, batch: Batch, found: BatchFindings) -> Unplaced:
        """Return the records of a batch to which an entry of another place may lead."""
        served = has_queue_entry(np.frombuffer(batch.buffer("sys_flag"), np.int32))
        odd = found.unplaced()
        phy_offsets = np.frombuffer(batch.buffer("phy_offset"), np.int64)
        at = np.flatnonzero(~served)
        if len(at):
            topics = scan.topics()
            topic_ids = np.frombuffer(batch.buffer("topic_id"), np.int32)[at].tolist()
            queue_ids = np.frombuffer(batch.buffer("queue_id"), np.int32)[at].tolist()
            offsets = np.frombuffer(batch.buffer("queue_offset"), np.int64)[at].tolist()
            odd[at] = [
                self._leads_to((topics[topic_id], queue_id), offset, phy_offset)
                for topic_id, queue_id, offset, phy_offset in zip(
                    topic_ids, queue_ids, offsets, phy_offsets[at].tolist(), strict=True
                )
            ]
        return Unplaced(
            phy_offsets[odd], {self.place(number): held for number, held in found.claims()}
        )

    def _leads_to(self, place: QueueKey, queue_offset: int, phy_offset: int) -> bool:
        if place[1] < 0 or queue_offset < 0 or not is_directory_name(place[0]):
            return False
        entry = self._queues.read_places(*place, queue_offset, 1)[0]
        return int(entry["msg_size"]) > 0 and int(entry["phy_offset"]) == phy_offset

    def restart(self) -> None:
        """Expect the next records at another place of the log."""
        self._native.restart()

    def __len__(self) -> int:
        return len(self._native)

    def place(self, number: int) -> QueueKey:
        """Return the queue of a number."""
        seen = self._native.seen(number)
        return seen.topic, seen.queue_id

    def seen_by_number(self) -> Iterator[SeenQueue]:
        """Yield each queue's numbers in the records since the last `restart`; `rows` is 0 without records."""
        for number in range(len(self._native)):
            yield self._native.seen(number)
