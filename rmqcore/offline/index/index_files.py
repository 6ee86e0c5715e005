"""IndexFiles: header, geometry, chain walks and a whole check, read range by range.

A file does not say how many hash slots it has (maxHashSlotNum of the broker that made it): `IndexFileReader`
finds the number from the file itself, or takes it from another file of the same store.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rmqcore._native.format.layout import (
    DEFAULT_ENTRIES,
    DEFAULT_SLOTS,
    INDEX_ENTRY_SIZE,
    INDEX_HEADER_SIZE,
    INDEX_SLOT_SIZE,
    index_file_size,
)
from rmqcore._native.index.index_reader import ChainWalk, IndexHeader, decode_header
from rmqcore.disk.data_extents import used_end
from rmqcore.disk.index.index_check import MAX_FINDINGS, IndexFileCheck, check_index_file
from rmqcore.disk.index.index_entries import read_entries
from rmqcore.disk.index.lost_slots import lost_slots
from rmqcore.disk.index.slot_count import find_slot_count
from rmqcore.disk.inside.links import is_file
from rmqcore.disk.paths import MAX_OFFSET, StorePaths, is_index_file_name
from rmqcore.disk.read_range import Unreadable, entries_of, read_range
from rmqcore.shown.report import Report

DEFAULT_FILE_SIZE = index_file_size(DEFAULT_SLOTS, DEFAULT_ENTRIES)
WINDOW_ENTRIES = 3_200
"""Entries read at once along a chain, which runs downwards; the entries of a key in use lie close together."""


@dataclass(frozen=True, slots=True)
class IndexFileInfo(Report):
    """Header and geometry of an IndexFile.

    Attributes
    ----------
    name : str
    size : int
        Bytes of the file.
    begin_timestamp_ms, end_timestamp_ms : int
        Store times of the first and the last message in it.
    begin_phy_offset, end_phy_offset : int
        Their phy offsets.
    hash_slot_count : int
        Slots in use.
    index_count : int
        The next free entry; entry 0 is never used.
    slot_count, max_index_num : int or None
        Slots and entries that the file has room for; None when the number of slots is unknown.
    link_of : str or None
        The name of a file of the same directory that this is only another name of (a hard link).
    """

    name: str
    size: int
    begin_timestamp_ms: int
    end_timestamp_ms: int
    begin_phy_offset: int
    end_phy_offset: int
    hash_slot_count: int
    index_count: int
    slot_count: int | None
    max_index_num: int | None
    link_of: str | None = None

    @property
    def entry_count(self) -> int:
        """Entries in use."""
        return max(self.index_count - 1, 0)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return {name: getattr(self, name) for name in self.__slots__}


class IndexFileReader:
    """Reads an IndexFile.

    A file shorter than its header counts as if zeros followed, which is how Java maps it.

    Parameters
    ----------
    path : Path
    slot_count : int, optional
        maxHashSlotNum, when it is known.

    Raises
    ------
    OSError
        The file cannot be read.

    Notes
    -----
    Source: RocketMQ 5.5.0 IndexFile, IndexHeader.
    """

    def __init__(self, path: Path, *, slot_count: int | None = None) -> None:
        self.path = path
        self.link_of: str | None = None
        self.broken_chain: str | None = None
        self._lost_slots: npt.NDArray[np.int64] | None = None
        self.size = path.stat().st_size
        self.header = self._read_header()
        self.slot_count = slot_count
        if slot_count is None:
            self.slot_count = (
                DEFAULT_SLOTS if self.size == DEFAULT_FILE_SIZE else self._find_slot_count()
            )

    def _read_header(self) -> IndexHeader:
        return decode_header(
            read_range(self.path, 0, INDEX_HEADER_SIZE).ljust(INDEX_HEADER_SIZE, b"\0")
        )

    def _find_slot_count(self) -> int | None:
        return find_slot_count(self.path, self.size, self.header)

    def under(self, path: Path) -> IndexFileReader:
        """The same file under another name."""
        other = copy(self)
        other.path, other.link_of = path, self.path.name
        return other

    @property
    def max_index_num(self) -> int | None:
        """Entries that the file has room for, the unused entry 0 included; None when the slots are unknown."""
        if self.slot_count is None:
            return None
        return max(0, (self.size - self._entry_pos(0)) // INDEX_ENTRY_SIZE)

    def problem(self) -> str | None:
        """Return why entries of the file cannot be found; None if nothing shows that. An empty file has none.

        Raises
        ------
        OSError
            The file cannot be read.
        """
        if self.size and not any(self.header[:-1]) and self.header.index_count <= 1:
            used = used_end(os.fspath(self.path), 0, self.size)
            if used > INDEX_HEADER_SIZE and self._read_header() == self.header:
                return (
                    f"its header is zeros, but there are entries in the {used} bytes before its "
                    "unused end"
                )
        if self.header.index_count <= 1:
            return None
        room = self.max_index_num
        if room is None:
            return (
                f"no possible number of hash slots fits its {self.size} bytes and "
                f"{self.header.index_count - 1} entries"
            )
        if self.broken_chain is not None:
            return self.broken_chain
        if self.header.index_count > room:
            return (
                f"its header counts {self.header.index_count - 1} entries, the file has space for "
                f"{max(0, room - 1)}"
            )
        return None

    def info(self) -> IndexFileInfo:
        """Return the contents of the header."""
        return IndexFileInfo(
            self.path.name,
            self.size,
            *self.header,
            self.slot_count,
            self.max_index_num,
            self.link_of,
        )

    def _entry_pos(self, index: int) -> int:
        assert self.slot_count is not None
        return index_file_size(self.slot_count, index)

    def find(
        self, key_hash: int, begin_ms: int = 0, end_ms: int = MAX_OFFSET, limit: int = 64
    ) -> list[int]:
        """Return the phy offsets of entries with a key hash, newest first, at most `limit`.

        Their times, in whole seconds after the file's begin, lie between `begin_ms` and `end_ms`, both
        included. The chain ends where a step does not lead to an older entry, so damage cannot make it a loop.
        `problem` says afterwards whether it ended so, or lacks entries because it leads to those of another slot, or
        because the slot is empty. The answer is empty when the number of slots is unknown.

        Source: RocketMQ 5.5.0 IndexFile#selectPhyOffset.
        """
        if self.slot_count is None or limit <= 0 or key_hash < 0:
            return []
        slot_number = key_hash % self.slot_count
        slot = self._slot(key_hash)
        walk = ChainWalk(self.header, key_hash, slot, begin_ms, end_ms, self.slot_count)
        found: list[int] = []
        while walk.next_index and len(found) < limit:
            first = max(0, walk.next_index - WINDOW_ENTRIES + 1)
            window = read_range(
                self.path, self._entry_pos(first), INDEX_ENTRY_SIZE * (walk.next_index - first + 1)
            )
            before = walk.next_index
            found += walk.step(window, first, limit - len(found))
            if walk.next_index == before:  # the file ends before this entry
                break
        if walk.broken_index:
            self.broken_chain = (
                f"entry {walk.broken_index} of a chain does not lead to an older entry"
            )
        elif walk.stray_index and self._loses_entries(walk, slot_number):
            self.broken_chain = f"entry {walk.stray_index} is not of the chain that leads to it"
        elif slot >= self.header.index_count > 0 and self._read_header() == self.header:
            self.broken_chain = (
                f"slot {slot_number} leads to entry {slot}, its header counts "
                f"{self.header.index_count - 1} entries"
            )
        elif slot <= 0 and slot_number in self.lost_slots():
            self.broken_chain = f"slot {slot_number} leads to no entry, but entries belong to it"
        return found

    def _loses_entries(self, walk: ChainWalk, slot: int) -> bool:
        """Return whether a chain that leads to an entry of another slot lacks entries of its own, or that entry was changed.

        Java leaves sound chains that continue so, when two files were made in the same millisecond and share a name: the
        entry is in its own chain too, and no older entry of the slot is in the file.
        """
        assert self.slot_count is not None
        if not self._is_in_its_chain(walk.stray_index):
            return True
        stop = walk.before_stray or self.header.index_count
        parts = read_entries(self.path, self.slot_count, 1, stop)
        return any((part["key_hash"] % self.slot_count == slot).any() for _, part in parts)

    def _is_in_its_chain(self, index: int) -> bool:
        """Return whether the slot of an entry's hash leads to the entry."""
        assert self.slot_count is not None
        data = read_range(self.path, self._entry_pos(index), 4)
        key_hash = int.from_bytes(data, "big", signed=True)
        walk = ChainWalk(self.header, key_hash, self._slot(key_hash), 0, MAX_OFFSET)
        while walk.next_index > index:
            first = max(index + 1, walk.next_index - WINDOW_ENTRIES + 1)
            count = walk.next_index - first + 1
            window = read_range(self.path, self._entry_pos(first), INDEX_ENTRY_SIZE * count)
            before = walk.next_index
            walk.step(window, first, count)
            if walk.next_index == before:  # the file ends before this entry
                return False
        return walk.next_index == index

    def _slot(self, key_hash: int) -> int:
        """Return what the slot of a hash holds."""
        assert self.slot_count is not None
        pos = INDEX_HEADER_SIZE + INDEX_SLOT_SIZE * (key_hash % self.slot_count)
        return int.from_bytes(read_range(self.path, pos, INDEX_SLOT_SIZE), "big", signed=True)

    def lost_slots(self) -> npt.NDArray[np.int64]:
        """Return the numbers of slots that lead to no entry, though entries belong to them; see `lost_slots`."""
        if self._lost_slots is None:
            if self.slot_count is None or self.header.index_count <= 1:
                return np.empty(0, np.int64)
            self._lost_slots = lost_slots(self.path, self.header, self.slot_count)
        return self._lost_slots

    def check(self, *, limit: int = MAX_FINDINGS) -> IndexFileCheck:
        """Check every entry and slot against each other and against the header; see `check_index_file`."""
        return check_index_file(self.path, self.size, self.header, self.slot_count, limit=limit)


def find_index_files(
    paths: StorePaths,
    *,
    slot_count: int | None = None,
    unreadable: Unreadable | None = None,
) -> list[IndexFileReader]:
    """Open the index files of a store, oldest first.

    Java loads every file whose name is a decimal number. All files of a store have the same number of slots, so a file
    that does not tell its own (it is empty, or damaged) takes the number of the others. A file with several names is read once.
    A file that cannot be read, or the directory, is told to `unreadable` and left out; without that it is an error.

    Source: RocketMQ 5.5.0 IndexService#load.
    """
    paths.bring_in(paths.index, beginnings=True)
    readers: list[IndexFileReader] = []
    known_files: dict[tuple[int, int], IndexFileReader] = {}
    for entry in entries_of(paths.index, unreadable):
        if not is_index_file_name(entry.name):
            continue
        if not is_file(entry, leave_out_links=paths.leave_out_links):
            continue
        try:
            status = entry.stat()
            file = (status.st_dev, status.st_ino)
            if file in known_files:
                readers.append(known_files[file].under(Path(entry.path)))
                continue
            known_files[file] = IndexFileReader(Path(entry.path), slot_count=slot_count)
            readers.append(known_files[file])
        except FileNotFoundError:  # the cleaner has deleted it
            continue
        except OSError as error:
            if unreadable is None:
                raise
            unreadable(entry.path, error)
    known = {reader.slot_count for reader in readers} - {None}
    if len(known) == 1:
        (common,) = known
        for reader in readers:
            reader.slot_count = common
    return readers


def unasked_files(readers: Iterable[IndexFileReader]) -> list[str]:
    """Return a line for each index file whose entries cannot all be found: its name, and why.

    Raises
    ------
    OSError
        A file cannot be read.
    """
    return [f"index/{one.path.name}: {why}" for one in readers if (why := one.problem())]


def wrong_entry(phy_offset: int) -> str:
    """Return the line for an entry that leads to a message without a key of the entry's hash."""
    return (
        f"index: an entry for this key leads to the message at {phy_offset}, which has no such key"
    )


def list_index_files(paths: StorePaths) -> list[IndexFileInfo]:
    """Return the header of each index file of a store, oldest first."""
    return [reader.info() for reader in find_index_files(paths)]
