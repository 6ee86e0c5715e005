"""Queue entries whose records name another place: a bit flipped in TOPIC, QUEUEID or QUEUEOFFSET, without checksum.

The place that the record names has no entry for the record. Consumers reach the message by the entry that points at it,
and the next message of that entry's queue must not get its queue offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from rmqcore._native.format.codec import MessageView
from rmqcore._native.format.layout import CQ_FILLER_SIZE
from rmqcore._native.queues.consume_queue import ConsumeQueue
from rmqcore.disk.misnamed import Misnamed
from rmqcore.disk.queue_files import Entries
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.engine.queues.consume_queues import ConsumeQueues
from rmqcore.engine.recovery import heal
from rmqcore.engine.recovery.record_compare import Longs
from rmqcore.vocabulary.sysflag import has_queue_entry
from rmqcore.vocabulary.topics import QueueKey

MOST_MISNAMED = 1000
"""Most entries to check, of a queue or of a store: damage is rare, but stale entries may be many."""

EntryOf = Callable[[QueueKey, int], int]
"""The CommitLog offset in a queue's entry at a queue offset; -1 without an entry."""


def misnamed_record(
    place: QueueKey, queue_offset: int, view: MessageView, entry_of: EntryOf
) -> Misnamed | None:
    """Return the fault of the record to which an entry leads; None if it names this place, or has another entry.

    Parameters
    ----------
    place, queue_offset
        Place of the entry.
    view : MessageView
        The record at its CommitLog offset.
    entry_of : callable
        As `EntryOf`, of the same queues.
    """
    named = view.topic, view.queue_id
    if queue_offset in heal.light_offsets(view, place):
        return None
    if has_queue_entry(view.sys_flag):
        if (named, view.queue_offset) == (place, queue_offset):
            return None
        if entry_of(named, view.queue_offset) == view.phy_offset:
            return None
    return Misnamed(*place, queue_offset, view.phy_offset, *named, view.queue_offset)


def misnamed_at_the_end(
    log: CommitLog, log_end: int, queues: ConsumeQueues, queue: ConsumeQueue, end: int
) -> list[Misnamed]:
    """Find the last entries of a queue whose records name another queue and have no entry there.

    Parameters
    ----------
    log, log_end
        The CommitLog, and the offset behind its last record.
    queues, queue
        All queues, and the queue to check.
    end : int
        Queue offset behind the queue's last record: only entries from there on are checked.

    Returns
    -------
    list of Misnamed
        By queue offset, without a gap up to the queue's max offset; at most 1,000.
    """
    place = queue.topic, queue.queue_id
    found: list[Misnamed] = []
    for queue_offset in range(
        queue.max_offset - 1, max(end, queue.max_offset - MOST_MISNAMED) - 1, -1
    ):
        entry = queues.read_places(*place, queue_offset, 1)[0]
        view = heal.target_of(log, log_end, entry)
        if view is None or view.queue_offset != queue_offset:
            break
        one = misnamed_record(place, queue_offset, view, _entry_of(queues))
        if one is None or (one.named_topic, one.named_queue_id) == place:
            break
        found.insert(0, replace(one, at_the_end=True))
    return found


def misnamed_among(
    log: CommitLog, log_end: int, queues: ConsumeQueues, phy_offsets: Longs
) -> Iterator[Misnamed]:
    """Find entries that lead to records whose own places have no entry for them, by queue and offset; at most 1,000.

    Parameters
    ----------
    log, log_end
        The CommitLog, and the offset behind its last record.
    queues
        All queues: each file whose entries may lead to one of the records is read.
    phy_offsets : array of int64
        CommitLog offsets of the records, rising.
    """
    left = MOST_MISNAMED
    for place in queues.queues():
        for first, entries in _parts(queues, place, phy_offsets):
            numbers = np.flatnonzero(np.isin(entries["phy_offset"].astype(np.int64), phy_offsets))
            for number in numbers.tolist():
                view = heal.target_of(log, log_end, entries[number])
                one = view and misnamed_record(place, first + number, view, _entry_of(queues))
                if one:
                    yield one
                    left -= 1
                if not left:
                    return


def _parts(
    queues: ConsumeQueues, place: QueueKey, phy_offsets: Longs
) -> Iterator[tuple[int, Entries]]:
    """Yield entries of a queue's files that may lead to one of the records, with the queue offset of the first."""
    queue = queues.find(*place)
    if queue is None or queue.first_file < 0:
        return
    for first, count in queue.spans():
        if count <= 0:
            continue  # it lies behind the queue's end
        ends = [queues.read_places(*place, first + at, 1)[0] for at in (0, count - 1)]
        if all(_is_of_a_message(entry) for entry in ends):
            low, high = (int(entry["phy_offset"]) for entry in ends)
            at = np.searchsorted(phy_offsets, low)
            if low <= high and (at == len(phy_offsets) or phy_offsets[at] > high):
                continue
        yield first, queues.read_places(*place, first, count)


def _is_of_a_message(entry: np.void) -> bool:
    size = int(entry["msg_size"])
    return size > 0 and (size != CQ_FILLER_SIZE or int(entry["phy_offset"]) != 0)


def _entry_of(queues: ConsumeQueues) -> EntryOf:
    def entry_of(place: QueueKey, queue_offset: int) -> int:
        queue = queues.find(*place)
        if queue is None or queue.first_file < 0 or queue_offset < 0:
            return -1
        entry = queues.read_places(*place, queue_offset, 1)[0]
        return int(entry["phy_offset"]) if int(entry["msg_size"]) > 0 else -1

    return entry_of
