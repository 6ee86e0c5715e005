"""The database of a store's queues: entries, and the first and last entry of each queue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple
from weakref import WeakKeyDictionary

from rmqcore._native.format.layout import CQ_STORE_UNIT_SIZE
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.store_kinds import rocksdb_place
from rmqcore.offline.rocksdb.current import Database
from rmqcore.offline.rocksdb.damaged import rocksdb_error
from rmqcore.offline.rocksdb.queue_keys import (
    CHECKPOINT_TOPIC,
    ENTRIES,
    MAX,
    MIN,
    OFFSETS,
    VALUE_SIZE,
    Edge,
    edge_key,
    edge_of,
    entry_key,
    entry_prefix,
    queue_of_edge,
    queue_offset_of,
    times_of,
)


class Queue(NamedTuple):
    """A queue in the database, and its first and last entry; if the first is missing, the queue begins at 0."""

    topic: str
    queue_id: int
    first: Edge
    last: Edge


class QueueDatabase(Database):
    """The queues of one store; see `Database`."""

    families: ClassVar[Sequence[str]] = (ENTRIES, OFFSETS)
    holds: ClassVar[str] = "the queues are"

    # ---- queues -------------------------------------------------------------------------------------

    def queue(self, topic: str, queue_id: int) -> Queue | None:
        """Return a queue with its first and last entry; None if the database does not have the queue."""
        view = self.view()
        with view.reading():
            last = edge_of(view.families[OFFSETS].get(edge_key(topic, queue_id, MAX)))
            first = edge_of(view.families[OFFSETS].get(edge_key(topic, queue_id, MIN)))
        return None if last is None else Queue(topic, queue_id, first or Edge(0, 0), last)

    def queues(self) -> list[Queue]:
        """Return all queues, sorted by topic and queue id."""
        last: dict[tuple[str, int], Edge] = {}
        first: dict[tuple[str, int], Edge] = {}
        for key, value in self.offset_rows():
            named = queue_of_edge(key)
            edge = edge_of(value)
            if named is not None and edge is not None and named[0] != CHECKPOINT_TOPIC:
                (last if named[2] == MAX else first)[named[:2]] = edge
        nothing = Edge(0, 0)
        return [Queue(*name, first.get(name, nothing), last[name]) for name in sorted(last)]

    def offset_rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield each key and value of column family ``offset``."""
        view = self.view()
        with view.reading():
            rows = view.families[OFFSETS].iter()
            rows.seek_to_first()
            while rows.valid():
                yield rows.key(), rows.value()
                rows.next()
            rows.status()

    # ---- entries ------------------------------------------------------------------------------------

    def first_entry(self, topic: str, queue_id: int, queue_offset: int) -> int | None:
        """Return the queue offset of the first entry at or behind `queue_offset`; None if no entry follows."""
        view, prefix = self.view(), entry_prefix(topic, queue_id)
        with view.reading():
            rows = view.families[ENTRIES].iter()
            rows.seek(entry_key(prefix, max(queue_offset, 0)))
            if not rows.valid():
                rows.status()
                return None
            key = rows.key()
        inside = key.startswith(prefix) and len(key) == len(prefix) + 8
        return queue_offset_of(key) if inside else None

    def entries(
        self, topic: str, queue_id: int, start: int, count: int
    ) -> Iterator[tuple[int, bytes]]:
        """Yield queue offset and the 20 bytes of each existing entry with a queue offset in [start, start + count).

        Raises
        ------
        RocksdbError
            An entry has another length than 28 bytes, or RocksDB cannot read the block that holds it.
        """
        view, prefix = self.view(), entry_prefix(topic, queue_id)
        length, end = len(prefix) + 8, start + count
        with view.reading():
            rows = view.families[ENTRIES].iter()
            rows.seek(entry_key(prefix, max(start, 0)))
            while rows.valid():
                key = rows.key()
                if len(key) != length or not key.startswith(prefix):
                    return
                queue_offset = queue_offset_of(key)
                if queue_offset >= end:
                    return
                value = rows.value()
                if len(value) != VALUE_SIZE:
                    raise rocksdb_error(
                        self.place,
                        f"the entry of {topic}/{queue_id} at queue offset {queue_offset} has {len(value)} bytes, "
                        f"expected {VALUE_SIZE}",
                    )
                yield queue_offset, value[:CQ_STORE_UNIT_SIZE]
                rows.next()
            rows.status()

    def timed_entry(self, topic: str, queue_id: int, queue_offset: int) -> tuple[int, int] | None:
        """Return CommitLog offset and store time of an entry; None if the entry is missing."""
        view = self.view()
        with view.reading():
            value = view.families[ENTRIES].get(
                entry_key(entry_prefix(topic, queue_id), max(queue_offset, 0))
            )
        return None if value is None or len(value) != VALUE_SIZE else times_of(value)


_KNOWN: WeakKeyDictionary[StorePaths, QueueDatabase | None] = WeakKeyDictionary()


def queue_database(paths: StorePaths) -> QueueDatabase | None:
    """Return the database of a store's queues; None if its queues are files.

    Raises
    ------
    RocksdbError
        From the methods of the result, if the database cannot be read.
    RemoteStorageError
        The files of a store behind a URL cannot be fetched.
    """
    if paths not in _KNOWN:
        place = rocksdb_place(paths)
        if place is not None:
            paths.bring_in(place)
        _KNOWN[paths] = (
            None
            if place is None
            else QueueDatabase(place, may_be_link=paths.follows(paths.consumequeue))
        )
    return _KNOWN[paths]
