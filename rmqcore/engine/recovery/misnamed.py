"""Entries at the end of a queue whose records name another queue: a bit of TOPIC or QUEUEID flipped, which no checksum covers.

The record has the queue offset of the entry, and the place that it names is not its own. Consumers reach the message by the
entry, and the next message of the queue must not get its queue offset.
"""

from __future__ import annotations

from dataclasses import dataclass

from rmqcore._native.queues.consume_queue import ConsumeQueue
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.engine.queues.consume_queues import ConsumeQueues
from rmqcore.engine.recovery import heal
from rmqcore.engine.recovery.compare import Place

MOST_MISNAMED = 1000
"""Entries of a queue that are looked at: damage is rare, and stale entries are many."""


@dataclass(frozen=True, slots=True)
class Misnamed:
    """An entry whose record names another queue.

    Attributes
    ----------
    topic, queue_id, queue_offset : str, int, int
        The entry.
    phy_offset : int
        CommitLog offset of the record.
    named_topic, named_queue_id : str, int
        What the record says.
    """

    topic: str
    queue_id: int
    queue_offset: int
    phy_offset: int
    named_topic: str
    named_queue_id: int

    def __str__(self) -> str:
        return (
            f"the entry of {self.topic} {self.queue_id} at queue offset {self.queue_offset} leads to CommitLog offset "
            f"{self.phy_offset}, whose record names {self.named_topic} {self.named_queue_id}: its TOPIC or QUEUEID is damaged"
        )


def misnamed_at_the_end(
    log: CommitLog, log_end: int, queues: ConsumeQueues, queue: ConsumeQueue, end: int
) -> list[Misnamed]:
    """Find the last entries of a queue whose records name another queue and have no entry there.

    Parameters
    ----------
    log, log_end
        The CommitLog, and the offset behind its last record.
    queues, queue
        All queues, and the one that is looked at.
    end : int
        Queue offset behind the queue's last record: only entries from there on are looked at.

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
        named = view.topic, view.queue_id
        if named == place or _leads_to(queues, named, queue_offset, view.phy_offset):
            break
        if queue_offset in heal.light_offsets(view, place):
            break
        found.insert(0, Misnamed(*place, queue_offset, view.phy_offset, *named))
    return found


def _leads_to(queues: ConsumeQueues, place: Place, queue_offset: int, phy_offset: int) -> bool:
    """Whether a queue has its entry at a place for the record at a CommitLog offset."""
    queue = queues.find(*place)
    if queue is None or queue.first_file < 0:
        return False
    entry = queues.read_places(*place, queue_offset, 1)[0]
    return int(entry["msg_size"]) > 0 and int(entry["phy_offset"]) == phy_offset
