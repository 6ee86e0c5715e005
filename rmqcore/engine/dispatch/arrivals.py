"""Arrivals: queues with new entries since the last report, and the listeners that receive them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import NamedTuple, Self

import numpy as np

from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.engine.dispatch.multi_dispatch import Entry
from rmqcore.engine.queues.consume_queues import ConsumeQueues
from rmqcore.vocabulary.sysflag import has_queue_entry


class Arrival(NamedTuple):
    """A queue that has new entries."""

    topic: str
    queue_id: int
    next_queue_offset: int
    """Queue offset behind the newest entry."""
    tags_codes: list[int]
    """Tags codes of the new entries, in their order."""


ArrivalCallback = Callable[[list[Arrival]], object]
NO_TOPICS = frozenset[str]()
MOST_TOPICS = 8
"""Most topics to look for in each batch of a session; listeners for more topics receive all."""


class Listening:
    """Registration returned by `on_dispatched`: `remove` or leaving a ``with`` block ends it.

    Attributes
    ----------
    topics : frozenset of str or None
        The topics that the listener wants; None: all.
    """

    def __init__(
        self,
        callbacks: dict[Listening, ArrivalCallback],
        callback: ArrivalCallback,
        topics: frozenset[str] | None = None,
    ) -> None:
        self.topics = topics
        self._callbacks = callbacks
        callbacks[self] = callback

    def remove(self) -> None:
        """Stop calling the callback; may be repeated. A call already running in another thread is not interrupted."""
        self._callbacks.pop(self, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class Arrivals:
    """Gathers the queues into which a dispatcher puts entries, while a listener is registered.

    Notes
    -----
    `note` is called by the thread that dispatches, the rest from any thread. A batch stays in the list until
    every listener has received it: an interrupt loses no batch, but may repeat one.
    """

    def __init__(self, queues: ConsumeQueues) -> None:
        self._queues = queues
        self._callbacks: dict[Listening, ArrivalCallback] = {}
        self._batches: dict[int, dict[tuple[str, int], list[int]]] = {}
        self._numbers = count()
        self._names: list[str] = []  # by the scan's topic numbers
        self._numbering: tuple[ColumnScan, int] | None = None

    @property
    def topics(self) -> frozenset[str] | None:
        """The topics that listeners want; None: all, or more than `MOST_TOPICS`."""
        asked = NO_TOPICS
        for listening in list(self._callbacks):
            if listening.topics is None:
                return None
            asked |= listening.topics
        return asked if len(asked) <= MOST_TOPICS else None

    def listen(self, callback: ArrivalCallback, topics: frozenset[str] | None) -> Listening:
        """Call `callback` with new arrivals from now on: all those of `topics`, perhaps some of other topics."""
        return Listening(self._callbacks, callback, topics)

    def note(
        self, scan: ColumnScan, batch: Batch, from_phy_offset: int, further: Iterable[Entry]
    ) -> None:
        """Note the rows from `from_phy_offset` on, and the entries of further queues."""
        new: dict[tuple[str, int], list[int]] = {}
        topic_ids = np.frombuffer(batch.buffer("topic_id"), np.int32)
        queue_ids = np.frombuffer(batch.buffer("queue_id"), np.int32)
        tags_codes = np.frombuffer(batch.buffer("tags_code"), np.int64)
        sys_flags = np.frombuffer(batch.buffer("sys_flag"), np.int32)
        phy_offsets = np.frombuffer(batch.buffer("phy_offset"), np.int64)
        queued = [flag for flag in np.unique(sys_flags).tolist() if has_queue_entry(flag)]
        rows = np.flatnonzero((phy_offsets >= from_phy_offset) & np.isin(sys_flags, queued))
        places = topic_ids[rows].astype(np.int64) << 32 | queue_ids[rows]
        order = np.argsort(places, kind="stable")
        names = self._names_of(scan)
        for some in (
            np.split(order, np.flatnonzero(np.diff(places[order])) + 1) if len(rows) else ()
        ):
            first = rows[some[0]]
            place = names[topic_ids[first]], int(queue_ids[first])
            new.setdefault(place, []).extend(tags_codes[rows[some]].tolist())
        for topic, queue_id, _, _, tags_code, _ in further:
            new.setdefault((topic, queue_id), []).append(tags_code)
        self._batches[next(self._numbers)] = new

    def _names_of(self, scan: ColumnScan) -> list[str]:
        if self._numbering != (scan, scan.numbering):
            self._names, self._numbering = [], (scan, scan.numbering)
        self._names += scan.topics(len(self._names))
        return self._names

    def untold(self) -> Iterator[list[Arrival]]:
        """Yield each noted batch; a batch is removed when the caller asks for the next one."""
        for number, new in list(self._batches.items()):
            found = self._arrivals(new)
            if found:
                yield found
            self._batches.pop(number, None)

    def _arrivals(self, new: dict[tuple[str, int], list[int]]) -> list[Arrival]:
        """Return the current ends of the queues, without queues that refused their entries."""
        found = []
        for (topic, queue_id), tags_codes in new.items():
            queue = self._queues.find(topic, queue_id)
            if queue is not None:
                found.append(Arrival(topic, queue_id, queue.max_offset, tags_codes))
        return found

    def callbacks(self) -> list[ArrivalCallback]:
        """Return the callbacks of all listeners."""
        return list(self._callbacks.values())
