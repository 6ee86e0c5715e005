"""Records that no queue will hold after a recovery: another record has the place that they name.

A topic that was deleted and made again starts at queue offset 0: the records of the deleted topic do not count.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from rmqcore._native.format.layout import CQ_STORE_UNIT_SIZE
from rmqcore.disk.set_aside import TAKEN, SetAside
from rmqcore.engine.queues.consume_queues import ConsumeQueues
from rmqcore.engine.recovery.record_compare import Longs
from rmqcore.vocabulary.topics import QueueKey

MOST_LISTED = 100
"""Ranges of records that a report lists one by one."""
AT_ONCE = 65_536
"""Entries to read in one call."""


@dataclass(frozen=True, slots=True)
class InNoQueue:
    """Records without a place in their queue.

    Attributes
    ----------
    records : tuple of SetAside
        The first 100 ranges.
    count : int
        Number of records.
    displaced : int
        Number of these records that consumers reach before the recovery, by an entry that it overwrites.
    """

    records: tuple[SetAside, ...] = ()
    count: int = 0
    displaced: int = 0


def in_no_queue_fields(found: InNoQueue) -> dict[str, object]:
    """Return a report's fields about records without a place, as plain JSON values."""
    return {
        "set_aside": [asdict(one) for one in found.records],
        "set_aside_messages": found.count,
    }


class Aside:
    """Gathers the records whose entries a healing does not write; for a plan, also those that it would write.

    Files are added newest first, the order of a healing.
    """

    def __init__(self) -> None:
        self._found: dict[QueueKey, list[tuple[Longs, Longs]]] = defaultdict(list)
        self._written: dict[QueueKey, list[tuple[Longs, Longs]]] = defaultdict(list)

    def add(self, place: QueueKey, queue_offsets: Longs, phy_offsets: Longs) -> None:
        """Note records of a queue that do not get their places."""
        if len(queue_offsets):
            self._found[place].append((queue_offsets.copy(), phy_offsets.copy()))

    def would_write(self, place: QueueKey, queue_offsets: Longs, phy_offsets: Longs) -> None:
        """Note records that a plan gives their places."""
        self._written[place].append((queue_offsets.copy(), phy_offsets.copy()))

    def in_no_queue(self, queues: ConsumeQueues) -> InNoQueue:
        """Return the noted records to which no entry of their queue leads, after the planned writes.

        Raises
        ------
        OSError
            A file cannot be read.
        """
        records: list[SetAside] = []
        count = displaced = 0
        for place in sorted(self._found):
            offsets, phy_offsets = _joined(self._found[place])
            order = np.argsort(phy_offsets, kind="stable")
            offsets, phy_offsets = offsets[order], phy_offsets[order]
            today, after = self._served(queues, place, phy_offsets)
            lost = np.flatnonzero(~after)
            count += len(lost)
            displaced += int(np.count_nonzero(today[lost]))
            if len(records) < MOST_LISTED:
                records += _ranges(place, offsets[lost], phy_offsets[lost])
        return InNoQueue(tuple(records[:MOST_LISTED]), count, displaced)

    def _served(
        self, queues: ConsumeQueues, place: QueueKey, phy_offsets: Longs
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return for each record whether an entry leads to it: now, and after the planned writes."""
        today = np.zeros(len(phy_offsets), bool)
        after = np.zeros(len(phy_offsets), bool)
        written = self._written.get(place, [])
        for _, phys in written:
            after |= np.isin(phy_offsets, phys)
        queue = queues.find(*place)
        if queue is None or queue.first_file < 0:
            return today, after
        first, end = queue.first_file // CQ_STORE_UNIT_SIZE, queue.max_offset
        for begin in range(first, end, AT_ONCE):
            entries = queues.read_places(*place, begin, min(AT_ONCE, end - begin))
            held = np.where(entries["msg_size"] > 0, entries["phy_offset"].astype(np.int64), -1)
            today |= np.isin(phy_offsets, held)
            for offsets, _ in written:
                at = offsets[(offsets >= begin) & (offsets < begin + len(held))] - begin
                held[at] = -1
            after |= np.isin(phy_offsets, held)
        return today, after


def _joined(parts: list[tuple[Longs, Longs]]) -> tuple[Longs, Longs]:
    return np.concatenate([one for one, _ in parts]), np.concatenate([one for _, one in parts])


def _ranges(place: QueueKey, offsets: Longs, phy_offsets: Longs) -> list[SetAside]:
    """Return records as ranges of consecutive queue offsets."""
    if not len(offsets):
        return []
    bounds = [0, *(np.flatnonzero(np.diff(offsets) != 1) + 1).tolist(), len(offsets)]
    return [
        SetAside(
            *place,
            int(offsets[begin]),
            int(offsets[end - 1]),
            int(phy_offsets[begin]),
            int(phy_offsets[end - 1]),
            TAKEN,
        )
        for begin, end in pairwise(bounds[: MOST_LISTED + 1])
    ]


def given_up(queue_offsets: Longs, *, later_anew: bool) -> npt.NDArray[np.bool_]:
    """Return for each record of a queue, in the order of the log, whether it is from before its topic was made again.

    A later record with queue offset 0 shows the new topic; `later_anew`: a record with queue offset 0 lies behind all
    of these.
    """
    begins: npt.NDArray[Any] = np.append(queue_offsets[1:] == 0, later_anew)
    found: npt.NDArray[np.bool_] = np.logical_or.accumulate(begins[::-1])[::-1]
    return found
