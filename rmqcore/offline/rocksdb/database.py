"""The database of a store's queues: its entries, and where each queue begins and ends."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from weakref import WeakKeyDictionary

from rmqcore._native.format.layout import CQ_STORE_UNIT_SIZE
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.store_kinds import rocksdb_place
from rmqcore.errors import RocksdbError
from rmqcore.offline.rocksdb.damaged import rocksdb_error
from rmqcore.offline.rocksdb.queue_keys import (
    CHECKPOINT_TOPIC,
    MAX,
    MIN,
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
from rmqcore.offline.rocksdb.view import DatabaseView, database_files, signature_of

TRIES = 5
"""A broker that writes deletes files while they are listed; then the database is opened again."""


class Queue(NamedTuple):
    """A queue in the database, and its first and last entry; the first may be missing, then the queue begins at 0."""

    topic: str
    queue_id: int
    first: Edge
    last: Edge


class QueueDatabase:
    """The queues of one store.

    Parameters
    ----------
    place : Path
        The directory of the database.
    may_be_link : bool
        That directory may be a link.

    Notes
    -----
    Thread safety: may be used by several threads at once.
    """

    def __init__(self, place: Path, *, may_be_link: bool = False) -> None:
        self.place = place
        self._may_be_link = may_be_link
        self._lock = threading.Lock()
        self._view: DatabaseView | None = None
        self._tried: object = None

    def view(self) -> DatabaseView:
        """The database as it is now; opened again only when its files have changed."""
        with self._lock:
            for number in range(TRIES):
                try:
                    return self._current()
                except RocksdbError:
                    if number == TRIES - 1 or not self._changed_since():
                        raise
        raise AssertionError("the last try returns or raises")

    def _current(self) -> DatabaseView:
        known = self._view
        if not self._may_be_link and self.place.is_symlink():
            raise rocksdb_error(self.place, "a link, not followed")
        own = known is not None and known.process == os.getpid()
        if known is not None and own and known.signature == self._signature():
            return known
        self._tried = self._signature()
        self._view = DatabaseView(self.place)
        return self._view

    def _changed_since(self) -> bool:
        return self._signature() != self._tried

    def _signature(self) -> object:
        files = database_files(self.place)
        files.pop("CURRENT", None)
        return signature_of(files)

    def refresh(self) -> None:
        """Look whether the database was written since it was opened."""
        self.view()

    # ---- queues -------------------------------------------------------------------------------------

    def queue(self, topic: str, queue_id: int) -> Queue | None:
        """Where a queue begins and ends; None when the database has no such queue."""
        view = self.view()
        with view.reading():
            last = edge_of(view.offsets.get(edge_key(topic, queue_id, MAX)))
            first = edge_of(view.offsets.get(edge_key(topic, queue_id, MIN)))
        return None if last is None else Queue(topic, queue_id, first or Edge(0, 0), last)

    def queues(self) -> list[Queue]:
        """All queues, by topic and queue id."""
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
        """Each key and value of column family ``offset``."""
        view = self.view()
        with view.reading():
            rows = view.offsets.iter()
            rows.seek_to_first()
            while rows.valid():
                yield rows.key(), rows.value()
                rows.next()
            rows.status()

    # ---- entries ------------------------------------------------------------------------------------

    def first_entry(self, topic: str, queue_id: int, queue_offset: int) -> int | None:
        """Queue offset of the first entry at or behind `queue_offset`; None if no entry follows."""
        view, prefix = self.view(), entry_prefix(topic, queue_id)
        with view.reading():
            rows = view.entries.iter()
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
        """Queue offset and the 20 bytes of each entry that is there, of those with queue offsets [start, start + count).

        Raises
        ------
        RocksdbError
            An entry has another length than 28 bytes, or RocksDB cannot read the block that holds it.
        """
        view, prefix = self.view(), entry_prefix(topic, queue_id)
        length, end = len(prefix) + 8, start + count
        with view.reading():
            rows = view.entries.iter()
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
        """CommitLog offset and store time in an entry; None where none is."""
        view = self.view()
        with view.reading():
            value = view.entries.get(entry_key(entry_prefix(topic, queue_id), max(queue_offset, 0)))
        return None if value is None or len(value) != VALUE_SIZE else times_of(value)

    def close(self) -> None:
        """Close the database; it is opened again when it is next asked for."""
        with self._lock:
            if self._view is not None:
                self._view.close()
                self._view = None


_KNOWN: WeakKeyDictionary[StorePaths, QueueDatabase | None] = WeakKeyDictionary()


def queue_database(paths: StorePaths) -> QueueDatabase | None:
    """The database of a store's queues; None when its queues are files.

    Raises
    ------
    RocksdbError
        From what is asked of it, where the database cannot be read.
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
