"""Ends of queues, from the records that a recovery compared.

QUEUEOFFSET has no checksum. The last record of a queue determines the queue's end, so a bit that flipped there could
require millions of entries: an end counts only if the log has room for the messages before it.
"""

from __future__ import annotations

from collections.abc import Iterator, KeysView

from rmqcore._native.queues.queue_compare import SeenQueue
from rmqcore._native.queues.queue_table import log_room
from rmqcore.engine.queues.consume_queues import ConsumeQueues
from rmqcore.vocabulary.topics import QueueKey


class QueueEnds:
    """The ends of queues; `log_min` is the log's start, and queue offsets leap by at most `most_places`."""

    def __init__(self, queues: ConsumeQueues, log_min: int, most_places: int) -> None:
        self.newest: dict[QueueKey, int] = {}
        """The start of the newest file with a record of the queue."""
        self._queues = queues
        self._log_min = log_min
        self._most_places = most_places
        self._seen: dict[QueueKey, list[tuple[int, SeenQueue]]] = {}  # of the two newest files

    def note(self, start: int, seen: SeenQueue) -> None:
        """Note a queue's numbers in the records of a file."""
        place = seen.topic, seen.queue_id
        found = self._seen.setdefault(place, [])
        found.append((start, seen))
        found.sort(key=lambda one: -one[0])
        del found[2:]
        self.newest[place] = found[0][0]

    def places(self) -> KeysView[QueueKey]:
        """The queues that were noted."""
        return self.newest.keys()

    def end(self, place: QueueKey) -> int | None:
        """Return the queue offset behind a queue's last record; None: all numbers are damaged, its files decide."""
        queue = self._queues.find(*place)
        has_files = queue is not None and queue.last_file >= 0
        runs = [seen for _, seen in self._seen[place]]
        for seen, before in zip(runs, [*runs[1:], None], strict=True):
            goes_back = before.last if before is not None else -1
            for end in sorted(self._said(seen), key=lambda end: end <= goes_back):
                if has_files:
                    assert queue is not None
                    known = queue.max_offset
                    if end <= known:
                        return end
                    phy_offset, phy_end = queue.phy_offset(known - 1), queue.max_phy_offset
                elif before is not None:
                    known = before.last + 1
                    phy_offset = before.last_phy
                    phy_end = before.last_end
                else:
                    return end
                if not 0 <= phy_offset < phy_end <= seen.last_end:
                    phy_offset = phy_end = self._log_min
                room = log_room(place[0], phy_offset, phy_end, seen.last_end)
                leaps = seen.since > 1 and end == seen.last + 1 and end - known <= self._most_places
                if end - known <= room or leaps:
                    return end
            if has_files:
                return None
        return None

    def _said(self, seen: SeenQueue) -> Iterator[int]:
        """Yield the ends by the records, the most probable first.

        A last record that alone goes back has a damaged number, unless the queue has its entry there, or has no file
        and starts again at 0.
        """
        alone = seen.backs > 0 and seen.since == 1
        if alone and not self._is_there(seen):
            yield seen.prev_last + 1
        yield seen.last + 1

    def _is_there(self, seen: SeenQueue) -> bool:
        entry = self._queues.read_places(seen.topic, seen.queue_id, seen.last, 1)[0]
        if int(entry["phy_offset"]) == seen.first_phy and int(entry["msg_size"]) > 0:
            return True
        queue = self._queues.find(seen.topic, seen.queue_id)
        return seen.last == 0 and (queue is None or queue.first_file < 0)
