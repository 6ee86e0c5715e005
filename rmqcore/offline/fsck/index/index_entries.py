"""The entries of all IndexFiles of a store as a stream, read beside the log pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rmqcore.disk.index.index_entries import read_entries
from rmqcore.offline.index.index_files import IndexFileReader

LAST_LOOK = 64
MOST_WAITING = 1 << 20
"""Entries that wait for their part of the log: those of a sound index are fewer than are read at once."""

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]


@dataclass(slots=True)
class Entries:
    """Entries of a file, ordered by phy offset.

    Attributes
    ----------
    index : array
        The numbers of the entries in the file.
    reach : int
        The phy offset that the stream has reached with these entries; in a damaged file some of them may point
        elsewhere.
    """

    reader: IndexFileReader
    phy_offset: Int64
    key_hash: Int32
    time_diff: Int32
    index: Int64
    reach: int

    def __len__(self) -> int:
        return len(self.phy_offset)

    def part(self, start: int, stop: int | None) -> Entries:
        """Return some of the entries: a view, or a copy of a small part, so that the rest can be freed."""
        where = slice(start, stop)
        found = Entries(
            self.reader,
            self.phy_offset[where],
            self.key_hash[where],
            self.time_diff[where],
            self.index[where],
            self.reach,
        )
        if 4 * len(found) < len(self):
            found.phy_offset, found.key_hash = found.phy_offset.copy(), found.key_hash.copy()
            found.time_diff, found.index = found.time_diff.copy(), found.index.copy()
        return found


def entries_of_file(reader: IndexFileReader, first: int) -> Iterator[Entries]:
    """Yield the entries in use from number `first` on, a chunk at a time."""
    if reader.slot_count is None or reader.max_index_num is None:
        return
    stop = min(reader.header.index_count, reader.max_index_num)
    for number, raw in read_entries(reader.path, reader.slot_count, first, stop):
        phy_offset = raw["phy_offset"].astype(np.int64)
        found = Entries(
            reader,
            phy_offset,
            raw["key_hash"].astype(np.int32),
            raw["time_diff"].astype(np.int32),
            np.arange(number, number + len(raw)),
            int(np.median(phy_offset[-LAST_LOOK:])),
        )
        if (phy_offset[1:] < phy_offset[:-1]).any():
            order = np.argsort(phy_offset, kind="stable")
            found.phy_offset = phy_offset[order]
            found.index = found.index[order]
            found.key_hash = found.key_hash[order]
            found.time_diff = found.time_diff[order]
        yield found


class IndexStream:
    """Reads entries in steps of CommitLog offsets.

    Entries are written in log order, so the stream holds few at a time. Entries with damaged offsets come early or at
    the end; they never stop the stream.

    Parameters
    ----------
    readers : list of IndexFileReader
    opened : callable
        It is called with each file before its entries are read.
    failed : callable
        It is called with a file that cannot be read; the stream goes on with the next file.
    far_ahead : callable
        It is called with entries that point so far ahead, and are so many, that they do not wait for their part of the log.
    """

    def __init__(
        self,
        readers: list[IndexFileReader],
        opened: Callable[[IndexFileReader], None],
        failed: Callable[[IndexFileReader, OSError], None],
        far_ahead: Callable[[Entries], None],
    ) -> None:
        self._opened = opened
        self._failed = failed
        self._far_ahead = far_ahead
        self._readers = readers
        self._chunks = self._read()
        self._waiting: list[Entries] = []
        self._ended = False

    def _read(self) -> Iterator[Entries]:
        for reader in self._readers:
            try:
                self._opened(reader)
                yield from entries_of_file(reader, 1)
            except FileNotFoundError:  # the cleaner has deleted it
                continue
            except OSError as error:
                self._failed(reader, error)

    def take_below(self, phy_offset: int) -> Iterator[Entries]:
        """Yield the entries that point below an offset and were not yielded yet, few at a time."""
        before, self._waiting = self._waiting, []
        for entries in before:
            yield from self._split(entries, phy_offset)
        while not self._ended and not (self._waiting and self._waiting[-1].reach >= phy_offset):
            found = next(self._chunks, None)
            if found is None:
                self._ended = True
            else:
                yield from self._split(found, phy_offset)

    def _split(self, entries: Entries, phy_offset: int) -> Iterator[Entries]:
        """Yield the entries below an offset; the others wait."""
        at = int(np.searchsorted(entries.phy_offset, phy_offset))
        if at:
            yield entries.part(0, at)
        if at < len(entries) or entries.reach >= phy_offset:
            self._waiting.append(entries.part(at, None))
        while sum(map(len, self._waiting)) > MOST_WAITING:
            self._far_ahead(self._waiting.pop(0))

    def rest(self) -> Iterator[Entries]:
        """Yield all entries that were not yielded yet."""
        yield from self._waiting
        self._waiting = []
        self._ended = True
        yield from self._chunks
