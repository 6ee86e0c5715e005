"""One ConsumeQueue of an open store."""

from __future__ import annotations

from rmqcore._native.cq import CQ_STORE_UNIT_SIZE
from rmqcore._native.queues import ConsumeQueue
from rmqcore.engine.queue_file_ends import corrected_min

__all__ = ["ConsumeQueue", "correct_min_offset"]


def correct_min_offset(queue: ConsumeQueue, log_min: int) -> None:
    """Bring a queue's min offset up to the first entry whose message is still in the log, which begins at `log_min`.

    Source: RocketMQ 5.5.0 ConsumeQueue#correctMinOffset.
    """
    first, last = queue.first_file, queue.last_file
    if first < 0:
        return
    end = queue.max_offset
    first_offset = first // CQ_STORE_UNIT_SIZE
    last_has_entries = end * CQ_STORE_UNIT_SIZE > last
    known = queue.min_offset
    found = corrected_min(
        known,
        end,
        first_offset,
        min(queue.entries_per_file, end - first_offset),
        log_min,
        queue.phy_offset(end - 1) if last_has_entries else -1,
        queue.phy_offset,
    )
    if found != known:
        queue.set_min(found)
