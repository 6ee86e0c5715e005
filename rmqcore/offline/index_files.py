"""IndexFiles: header, geometry, chain walks and a whole check, by reads of ranges.

A file does not say how many hash slots it has (maxHashSlotNum of the broker that made it): `IndexFileReader` finds that out
from the file itself, or takes it from another file of the same store.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rmqcore._native.index import (
    DEFAULT_ENTRIES,
    DEFAULT_SLOTS,
    INDEX_ENTRY_SIZE,
    INDEX_HEADER_SIZE,
    INDEX_SLOT_SIZE,
    ChainWalk,
    IndexCheck,
    IndexFinding,
    IndexHeader,
    decode_header,
)
from rmqcore.engine.paths import MAX_OFFSET, StorePaths
from rmqcore.offline.index_geometry import find_slot_count
from rmqcore.offline.ranges import entries_of, read_range

DEFAULT_FILE_SIZE = INDEX_HEADER_SIZE + INDEX_SLOT_SIZE * DEFAULT_SLOTS + INDEX_ENTRY_SIZE * DEFAULT_ENTRIES
# Entries read at once along a chain; they run downwards and stay close together for a key in use.
WINDOW_ENTRIES = 3_200
CHECK_BYTES = 4 * 1024 * 1024
MAX_FINDINGS = 1_000


@dataclass(frozen=True, slots=True)
class IndexFileInfo:
    """What one IndexFile says about itself.

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
        Slots and entries that the file has room for; None when that cannot be told.
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

    @property
    def entry_count(self) -> int:
        """Entries in use."""
        return max(self.index_count - 1, 0)

    def as_dict(self) -> dict[str, Any]:
        """Give the fields by name."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class IndexFileCheck:
    """The outcome of `IndexFileReader.check`.

    Attributes
    ----------
    findings : list of IndexFinding
        ``(index, field, expected, found)``, at most as many as asked for; `index` is that of the entry or, for the field ``slot``,
        of the slot, and 0 for fields of the header.
    finding_count : int
        All of them.
    checked : bool
        False when the number of slots is unknown, so that only the header could be looked at.
    """

    findings: list[IndexFinding]
    finding_count: int
    checked: bool


class IndexFileReader:
    """Reads one IndexFile.

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
        self.size = path.stat().st_size
        self.header = self._read_header()
        self.slot_count = slot_count
        if slot_count is None:
            self.slot_count = DEFAULT_SLOTS if self.size == DEFAULT_FILE_SIZE else self._find_slot_count()

    def _read_header(self) -> IndexHeader:
        return decode_header(read_range(self.path, 0, INDEX_HEADER_SIZE).ljust(INDEX_HEADER_SIZE, b"\0"))

    def _find_slot_count(self) -> int | None:
        return find_slot_count(self.path, self.size, self.header)

    @property
    def max_index_num(self) -> int | None:
        """Entries that the file has room for, the unused entry 0 included; None when the slots are unknown."""
        if self.slot_count is None:
            return None
        return max(0, (self.size - self._entry_pos(0)) // INDEX_ENTRY_SIZE)

    def info(self) -> IndexFileInfo:
        """Give what the header says."""
        return IndexFileInfo(self.path.name, self.size, *self.header, self.slot_count, self.max_index_num)

    def _entry_pos(self, index: int) -> int:
        assert self.slot_count is not None
        return INDEX_HEADER_SIZE + INDEX_SLOT_SIZE * self.slot_count + INDEX_ENTRY_SIZE * index

    def find(self, key_hash: int, begin_ms: int = 0, end_ms: int = MAX_OFFSET, limit: int = 64) -> list[int]:
        """Give phy offsets of entries with a key hash, newest first, at most `limit`.

        Their times, in whole seconds after the file's begin, lie between `begin_ms` and `end_ms`, both included. The chain ends
        where a step does not lead to an older entry, so damage cannot make it a loop. Without a known number of slots nothing is
        found.

        Source: RocketMQ 5.5.0 IndexFile#selectPhyOffset.
        """
        if self.slot_count is None or limit <= 0 or key_hash < 0:
            return []
        slot_pos = INDEX_HEADER_SIZE + INDEX_SLOT_SIZE * (key_hash % self.slot_count)
        slot = int.from_bytes(read_range(self.path, slot_pos, INDEX_SLOT_SIZE), "big", signed=True)
        walk = ChainWalk(self.header, key_hash, slot, begin_ms, end_ms)
        found: list[int] = []
        while walk.next_index and len(found) < limit:
            first = max(0, walk.next_index - WINDOW_ENTRIES + 1)
            window = read_range(self.path, self._entry_pos(first), INDEX_ENTRY_SIZE * (walk.next_index - first + 1))
            before = walk.next_index
            found += walk.step(window, first, limit - len(found))
            if walk.next_index == before:  # the file ends before this entry
                break
        return found

    def check(self, *, limit: int = MAX_FINDINGS) -> IndexFileCheck:
        """Check every entry and slot against each other and against the header.

        Each entry must point at the newest one before it in its slot, each slot at its newest entry; offsets never go down; the header's
        counts and ends agree. Memory: four bytes a slot and a window.

        Parameters
        ----------
        limit : int
            Most findings to keep; all are counted.
        """
        notes = _Notes(limit)
        if self.size < INDEX_HEADER_SIZE:
            notes.add("file size", INDEX_HEADER_SIZE, self.size)
        if self.slot_count is None or self.max_index_num is None:
            return IndexFileCheck(notes.findings, notes.count, checked=False)
        header = self.header
        most = max(self.max_index_num, 1)
        if not 0 <= header.index_count <= most:
            notes.add("indexCount", most, header.index_count)
        check = IndexCheck(np.empty(self.slot_count, np.int32), limit - len(notes.findings))
        used = min(max(header.index_count, 1), most)
        self._check_entries(check, used)
        self._check_slots(check)
        if check.used_slots != header.hash_slot_count:
            notes.add("hashSlotCount", check.used_slots, header.hash_slot_count)
        if used > 1:
            self._check_ends(check, notes)
        return IndexFileCheck(
            (notes.findings + check.findings)[:limit], notes.count + check.finding_count, checked=True
        )

    def _check_entries(self, check: IndexCheck, used: int) -> None:
        index = 1
        while index < used:
            data = read_range(self.path, self._entry_pos(index), min(CHECK_BYTES, INDEX_ENTRY_SIZE * (used - index)))
            data = data[: len(data) - len(data) % INDEX_ENTRY_SIZE]
            if not data:
                break
            check.entries(data)
            index = check.next_index

    def _check_slots(self, check: IndexCheck) -> None:
        assert self.slot_count is not None
        slot = 0
        while slot < self.slot_count:
            count = min(CHECK_BYTES // INDEX_SLOT_SIZE, self.slot_count - slot)
            data = read_range(self.path, INDEX_HEADER_SIZE + INDEX_SLOT_SIZE * slot, INDEX_SLOT_SIZE * count)
            if len(data) < INDEX_SLOT_SIZE:
                break
            check.slots(data, slot)
            slot += len(data) // INDEX_SLOT_SIZE

    def _check_ends(self, check: IndexCheck, notes: _Notes) -> None:
        first = read_range(self.path, self._entry_pos(1) + 4, 8)
        begin = int.from_bytes(first, "big", signed=True)
        if len(first) == 8 and begin != self.header.begin_phy_offset:
            notes.add("beginPhyOffset", begin, self.header.begin_phy_offset)
        if check.last_phy_offset is not None and check.last_phy_offset != self.header.end_phy_offset:
            notes.add("endPhyOffset", check.last_phy_offset, self.header.end_phy_offset)
        if self.header.end_timestamp_ms < self.header.begin_timestamp_ms:
            notes.add("endTimestamp", self.header.begin_timestamp_ms, self.header.end_timestamp_ms)


class _Notes:
    """Findings about header fields."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.count = 0
        self.findings: list[IndexFinding] = []

    def add(self, field: str, expected: int, found: int) -> None:
        self.count += 1
        if len(self.findings) < self.limit:
            self.findings.append(IndexFinding(0, field, expected, found))


def find_index_files(paths: StorePaths, *, slot_count: int | None = None) -> list[IndexFileReader]:
    """Open the index files of a store, oldest first.

    Java takes every name that is a decimal number. All files of a store have the same number of slots, so one that
    cannot tell (it is empty, or damaged) takes it from another that can.

    Source: RocketMQ 5.5.0 IndexService#load.
    """
    readers = []
    for entry in entries_of(paths.index):
        name = entry.name
        if not (name.isascii() and name.isdigit() and len(name) <= 19 and int(name) <= MAX_OFFSET and entry.is_file()):
            continue
        try:
            readers.append(IndexFileReader(Path(entry.path), slot_count=slot_count))
        except FileNotFoundError:  # the cleaner was faster
            continue
    known = {reader.slot_count for reader in readers} - {None}
    if len(known) == 1:
        (common,) = known
        for reader in readers:
            reader.slot_count = common
    return readers


def list_index_files(paths: StorePaths) -> list[IndexFileInfo]:
    """Give what each index file of a store says about itself, oldest first."""
    return [reader.info() for reader in find_index_files(paths)]
