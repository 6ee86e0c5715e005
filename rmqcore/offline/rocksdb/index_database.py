"""The index that a broker keeps in RocksDB (``indexRocksDBEnable=true``): the offsets of a key, and how far it reaches."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import ClassVar, NamedTuple
from weakref import WeakKeyDictionary

from rmqcore.disk.paths import MAX_OFFSET, StorePaths
from rmqcore.disk.store_kinds import INDEX_DATABASE, index_database_place
from rmqcore.errors import RocksdbError, RocksdbMissingError
from rmqcore.offline.rocksdb.current import Database
from rmqcore.offline.rocksdb.index_keys import (
    ENTRIES,
    HOUR_MS,
    LAST_OFFSET,
    LAST_TIME,
    LONG,
    SPLIT,
    TYPES,
    entry_text,
    hour_key,
    hour_of,
    row_of,
)

MOST_OF_HOUR = 100_000
"""Entries of the first hour that are read to find where the index begins."""


class IndexEnd(NamedTuple):
    """The newest message that the index has."""

    phy_offset: int
    store_timestamp_ms: int


class IndexStart(NamedTuple):
    """Where the index begins.

    Attributes
    ----------
    hour_ms : int
        Messages stored before that time have no entry.
    phy_offset : int or None
        The lowest offset of an entry of that hour; None if the hour has too many entries to read them all.
    """

    hour_ms: int
    phy_offset: int | None


class IndexDatabase(Database):
    """The index of one store; see `Database`.

    The methods raise `RocksdbError` if the database cannot be read, and `RocksdbMissingError` without the package.
    """

    families: ClassVar[Sequence[str]] = (ENTRIES,)
    holds: ClassVar[str] = "the index may be"

    def end(self) -> IndexEnd | None:
        """Return the newest message with entries; None without entries, as in a database of timers or transactions."""
        view = self.view()
        with view.reading():
            values = [view.families[ENTRIES].get(key) for key in (LAST_OFFSET, LAST_TIME)]
        if not values[0] or len(values[0]) != LONG.size:
            return None
        stored_ms = LONG.unpack(values[1])[0] if values[1] and len(values[1]) == LONG.size else 0
        return IndexEnd(int(LONG.unpack(values[0])[0]), int(stored_ms))

    def estimated_entries(self) -> int:
        """Return the approximate number of entries, as RocksDB estimates it without reading them."""
        view = self.view()
        with view.reading():
            rows = view.families[ENTRIES].property_int_value("rocksdb.estimate-num-keys")
        return max(0, int(rows or 0) - len((LAST_OFFSET, LAST_TIME)))

    def start(self) -> IndexStart | None:
        """Return where the index begins; None if it has no entry."""
        first: int | None = None
        lowest: int | None = None
        for count, (key, _) in enumerate(islice(self.rows(), MOST_OF_HOUR + 1)):
            hour = hour_of(key)
            if hour is None or (first is not None and hour != first):
                break
            if count == MOST_OF_HOUR:
                return IndexStart(hour, None)
            first = hour
            phy_offset = int(LONG.unpack(key[-LONG.size :])[0])
            lowest = phy_offset if lowest is None else min(lowest, phy_offset)
        return None if first is None else IndexStart(first, lowest)

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield each key and value, by hour."""
        view = self.view()
        with view.reading():
            rows = view.families[ENTRIES].iter()
            rows.seek_to_first()
            while rows.valid():
                yield rows.key(), rows.value()
                rows.next()
            rows.status()

    def find(
        self,
        topic: str,
        key: str,
        limit: int,
        begin_ms: int = 0,
        end_ms: int = MAX_OFFSET,
        index_type: str | None = None,
        *,
        has_key: Callable[[int], bool],
    ) -> list[int]:
        """Return the phy offsets of a key's entries, ascending, each once; of more than `limit` the newest.

        Hours are read from the newest back, until the limit is reached. Texts with ``@`` make other keys look like this
        one; of these entries only those for which `has_key` is true are returned.

        Parameters
        ----------
        topic, key : str
        limit : int
        begin_ms, end_ms : int
            Store time, both included.
        index_type : str, optional
            ``"K"``, ``"U"`` or ``"T"``; None: either of the first two.
        has_key : callable
            Called with a phy offset; returns whether the message there has the key.
        """
        types = ("K", "U") if index_type is None else (index_type,)
        plain = "@" not in topic + key and key.encode() not in TYPES
        found: set[int] = set()
        for hour in self._hours(begin_ms, end_ms):
            rows = [
                self._of_hour(hour, entry_text(topic, one, key), begin_ms, end_ms, one == "U")
                for one in types
            ]
            sure = (
                phy_offset
                for phy_offset, exact in chain.from_iterable(rows)
                if (plain and exact) or has_key(phy_offset)
            )
            found.update(heapq.nlargest(limit * len(types), sure))
            if len(found) >= limit:
                break
        return sorted(found)[-limit:] if limit > 0 else []

    def _hours(self, begin_ms: int, end_ms: int) -> Iterator[int]:
        """Yield the hours that have entries, newest first."""
        view = self.view()
        least = begin_ms // HOUR_MS * HOUR_MS
        before = hour_key(end_ms + 1) if end_ms < MAX_OFFSET else LAST_OFFSET
        while True:
            with view.reading():
                rows = view.families[ENTRIES].iter()
                rows.seek_for_prev(before)
                while rows.valid() and hour_of(rows.key()) is None:
                    rows.prev()
                key = rows.key() if rows.valid() else None
                rows.status()
            hour = None if key is None else hour_of(key)
            if hour is None or hour < least:
                return
            yield hour
            before = hour_key(hour)

    def _of_hour(
        self, hour: int, text: bytes, begin_ms: int, end_ms: int, is_uniq: bool
    ) -> Iterator[tuple[int, bool]]:
        """Yield the phy offset of each entry with a text, and whether one UNIQ_KEY without ``@`` is all behind the text."""
        prefix = hour_key(hour) + text
        view = self.view()
        with view.reading():
            rows = view.families[ENTRIES].iter()
            rows.seek(prefix)
            while rows.valid():
                key = rows.key()
                if not key.startswith(prefix):
                    return
                row = row_of(key, rows.value())
                if row is not None and begin_ms <= row.store_timestamp_ms <= end_ms:
                    rest = row.text[len(text) :]
                    if not (is_uniq and rest):  # another UNIQ_KEY, which starts with this one
                        yield row.phy_offset, is_uniq or rest.count(SPLIT) == 1
                rows.next()
            rows.status()


_KNOWN: WeakKeyDictionary[StorePaths, IndexDatabase] = WeakKeyDictionary()


def index_database(paths: StorePaths) -> IndexDatabase | None:
    """Return the database of a store's index; None if it is missing or was never written.

    Raises
    ------
    RemoteStorageError
        The files of a store behind a URL cannot be fetched.
    """
    if paths not in _KNOWN:
        place = index_database_place(paths)
        if place is None:
            return None
        paths.bring_in(place)
        _KNOWN[paths] = IndexDatabase(place, may_be_link=paths.follow_links)
    return _KNOWN[paths]


class AskedIndex(NamedTuple):
    """The database of an index for a query.

    Attributes
    ----------
    database : IndexDatabase or None
        None if the database is missing, empty or unreadable.
    unread : str
        Why the database cannot be read, and what installs a missing package; empty if it can.
    """

    database: IndexDatabase | None = None
    unread: str = ""


def asked_index(paths: StorePaths, *, has_files: bool) -> AskedIndex:
    """Return the database of a store's index for a query; `has_files` is true if index files have entries.

    Raises
    ------
    RocksdbError, RocksdbMissingError
        The database cannot be read, and the store has no index file with entries.
    """
    database = index_database(paths)
    if database is None:
        return AskedIndex()
    try:
        return AskedIndex(None if database.end() is None else database)
    except RocksdbMissingError as error:
        if not has_files:
            raise
        return AskedIndex(unread=f"{error}: {error.hint}")
    except RocksdbError as error:
        if not has_files:
            raise
        return AskedIndex(unread=damage_of(error))


def damage_of(error: RocksdbError) -> str:
    """Return why the index in RocksDB cannot be read, in one line."""
    return f"{INDEX_DATABASE}: {error.strerror}"
