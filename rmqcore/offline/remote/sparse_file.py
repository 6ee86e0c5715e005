"""One file of a skeleton: the parts that were read are stored, the others are holes."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

from rmqcore.disk.inside.folder import Folder
from rmqcore.errors import RemoteStorageError
from rmqcore.offline.remote.listed_file import ListedFile, OpenFiles
from rmqcore.offline.remote.sparse import write_sparse

BLOCK = 64 * 1024
"""The smallest fetch, in bytes."""
PIECE = 8 * 1024 * 1024
"""The largest fetch, in bytes."""
FIRST_AHEAD = 4
"""Blocks that are fetched ahead of a sequential reader; the number doubles with each further sequential read."""


class SparseFile:
    """A local file with the size of a remote one, whose bytes are fetched when they are requested.

    Parameters
    ----------
    source : ListedFile
    folder : Folder
        The skeleton's root.
    place : str
        The file's path in it.

    Notes
    -----
    Thread safety: safe to share; a caller waits for other callers that fetch from the same file.
    """

    __slots__ = (
        "_ahead",
        "_fetched_end",
        "_folder",
        "_lock",
        "_missing",
        "_there",
        "place",
        "source",
    )

    def __init__(self, source: ListedFile, folder: Folder, place: str) -> None:
        self.source = source
        self.place = place
        self._folder = folder
        self._lock = threading.Lock()
        self._there: bytearray | None = (
            None  # a byte for each block, made when the first is fetched
        )
        self._missing = -(-source.listed.size // BLOCK)
        self._fetched_end = -1
        self._ahead = FIRST_AHEAD

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return self.source.listed.size

    def missing_bytes(self, end: int) -> int:
        """Return how many of the bytes before `end` are not fetched yet, by whole blocks."""
        if not self._missing:
            return 0
        stop = -(-min(end, self.size) // BLOCK)
        missing = stop if self._there is None else self._there.count(0, 0, stop)
        return min(missing * BLOCK, self.size)

    def bring_in(self, files: OpenFiles, begin: int, end: int) -> None:
        """Fetch the missing part of bytes [begin, end), and somewhat more for a sequential reader.

        Raises
        ------
        RemoteStorageError
            The server cannot return the bytes, the file has changed, or the local disk has no room for them.
        """
        end = min(end, self.size)
        if not self._missing or begin >= end:
            return
        with self._lock:
            pieces = 0
            for first, stop in self._runs(begin // BLOCK, -(-end // BLOCK)):
                pieces += self._fetch(files, first, stop)
            if pieces > 1:  # each alone is of one version of the file
                self.source.check()

    def _runs(self, first: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield runs of missing blocks."""
        count = -(-self.size // BLOCK)
        there = self._there
        if there is None:
            there = self._there = bytearray(count)
        while first < stop:
            first = there.find(0, first, stop)
            if first < 0:
                return
            until = stop
            if first == self._fetched_end:
                until = max(stop, min(first + self._ahead, count))
                self._ahead = min(2 * self._ahead, PIECE // BLOCK)
            else:
                self._ahead = FIRST_AHEAD
            end = there.find(1, first, until)
            end = until if end < 0 else end
            yield first, end
            first = end

    def _fetch(self, files: OpenFiles, first: int, stop: int) -> int:
        assert self._there is not None
        pieces = 0
        for at in range(first, stop, PIECE // BLOCK):
            until = min(at + PIECE // BLOCK, stop)
            begin, end = at * BLOCK, min(until * BLOCK, self.size)
            self._keep(self.source.read(files.get(self.source), begin, end - begin), begin)
            self._missing -= self._there.count(0, at, until)
            self._there[at:until] = b"\1" * (until - at)
            pieces += 1
        self._fetched_end = stop
        return pieces

    def _keep(self, data: bytes, pos: int) -> None:
        try:
            file = self._folder.open_file(self.place, os.O_WRONLY)
            try:
                write_sparse(file.fileno(), data, pos)
                set_mtime(file.fileno(), self.source.listed.mtime_ns)
            finally:
                file.close()
        except OSError as error:
            raise RemoteStorageError(
                f"{self.source.uri}: bytes {pos} to {pos + len(data)} cannot be stored in "
                f"{self._folder.path}: {error.strerror or error}; set TMPDIR to use another "
                "directory"
            ) from None


def set_mtime(fd: int, mtime_ns: int | None) -> None:
    """Set the time of an open file to that of the listing, if the listing had one."""
    if mtime_ns is not None:
        os.utime(fd, ns=(mtime_ns, mtime_ns))
