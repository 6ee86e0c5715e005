"""A database of a store in its present state: opened once, and again after its files have changed."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from rmqcore.errors import RocksdbError
from rmqcore.offline.rocksdb.damaged import rocksdb_error
from rmqcore.offline.rocksdb.view import DatabaseView, database_files, signature_of

TRIES = 5
"""Attempts to open a database: a broker may delete files while they are listed."""


class Database:
    """A database of one store; subclasses read its content.

    Parameters
    ----------
    place : Path
        The directory of the database.
    may_be_link : bool
        That directory may be a link.

    Attributes
    ----------
    families : sequence of str
        Column families that are read.
    holds : str
        What the database holds, with its verb, for messages.

    Notes
    -----
    Thread safety: may be used by several threads at once.
    """

    families: ClassVar[Sequence[str]]
    holds: ClassVar[str]

    def __init__(self, place: Path, *, may_be_link: bool = False) -> None:
        self.place = place
        self._may_be_link = may_be_link
        self._lock = threading.Lock()
        self._view: DatabaseView | None = None
        self._tried: object = None

    def view(self) -> DatabaseView:
        """Return the database in its present state; it is opened again only if its files have changed."""
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
        self._view = DatabaseView(self.place, self.families, self.holds)
        return self._view

    def _changed_since(self) -> bool:
        return self._signature() != self._tried

    def _signature(self) -> object:
        files = database_files(self.place)
        files.pop("CURRENT", None)
        return signature_of(files)

    def refresh(self) -> None:
        """Open the database again if it was written since it was opened."""
        self.view()

    def close(self) -> None:
        """Close the database; the next access opens it again."""
        with self._lock:
            if self._view is not None:
                self._view.close()
                self._view = None
