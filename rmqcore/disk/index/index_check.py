"""The check of a whole IndexFile against itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rmqcore._native.format.layout import (
    INDEX_ENTRY_PHYOFFSET,
    INDEX_ENTRY_SIZE,
    INDEX_HEADER_SIZE,
    INDEX_SLOT_SIZE,
    index_file_size,
)
from rmqcore._native.index.index_reader import IndexCheck, IndexFinding, IndexHeader
from rmqcore.disk.read_range import read_range

CHECK_BYTES = 4 * 1024 * 1024
MAX_FINDINGS = 1_000
MOST_SLOTS = 1 << 25
"""Most slots of a file whose newest entries the check keeps, in 128 MiB; Java's files have 5 million slots."""


@dataclass(frozen=True, slots=True)
class IndexFileCheck:
    """Outcome of a check.

    Attributes
    ----------
    findings : list of IndexFinding
        ``(entry_index, field, expected, found)``, at most `limit`. `entry_index` is 0 for a field of
        the header, and for the field ``slot`` the number of the slot. A slot whose `found` is past the entries in
        use is stale: Java counts it as empty.
    finding_count : int
        Number of all findings, including those that were not kept.
    checked : bool
        False if the number of slots is unknown, so that only the header could be checked.
    """

    findings: list[IndexFinding]
    finding_count: int
    checked: bool


def check_index_file(
    path: Path, size: int, header: IndexHeader, slot_count: int | None, *, limit: int = MAX_FINDINGS
) -> IndexFileCheck:
    """Check every entry and slot of an index file against each other and against the header.

    Each entry must point at the next older entry of its slot, each slot at its newest entry; offsets never go
    down; the header's counts and ends agree. The check needs four bytes of memory for each slot, and a window.

    Parameters
    ----------
    path : Path
    size : int
    header : IndexHeader
    slot_count : int or None
        Slots that the file has room for.
    limit : int
        Most findings to keep; all are counted.
    """
    checker = IndexFileChecker(path, size, header, slot_count, limit=limit)
    for _ in checker.steps():
        pass
    return checker.outcome


def two_versions_counted(finding: IndexFinding, index_count: int) -> bool:
    """Return True if two versions of RocketMQ can have written this HASHSLOTCOUNT to a sound file.

    RocketMQ before 4.7.1 counts a slot for each entry, later versions a slot when it gets its first entry. A file that
    an old version started and a later one continued has a count between the two.
    """
    return finding.field == "hashSlotCount" and finding.expected <= finding.found < index_count


class IndexFileChecker:
    """The check of `check_index_file` in steps; the arguments are the same.

    Attributes
    ----------
    outcome : IndexFileCheck
        Set when all steps were made.
    """

    outcome: IndexFileCheck

    def __init__(
        self,
        path: Path,
        size: int,
        header: IndexHeader,
        slot_count: int | None,
        *,
        limit: int = MAX_FINDINGS,
    ) -> None:
        self.path = path
        self.size = size
        self.header = header
        self.slot_count = slot_count
        self.limit = limit
        self.count = 0
        self.findings: list[IndexFinding] = []

    def steps(self) -> Iterator[int]:
        """Check one chunk per step; yield its bytes."""
        slot_count = self.slot_count
        if self.size < INDEX_HEADER_SIZE:
            self._note("file size", INDEX_HEADER_SIZE, self.size)
        if slot_count is None:
            self.outcome = IndexFileCheck(self.findings, self.count, checked=False)
            return
        entries_pos = index_file_size(slot_count, 0)
        most = max((self.size - entries_pos) // INDEX_ENTRY_SIZE, 1)
        if not 0 <= self.header.index_count <= most:
            self._note("indexCount", most, self.header.index_count)
        used = min(max(self.header.index_count, 1), most)
        check = IndexCheck(np.empty(slot_count, np.int32), self.limit - len(self.findings))
        yield from self._check_entries(check, entries_pos, used)
        yield from self._check_slots(check, slot_count)
        # RocketMQ before 4.7.1 counts a slot for each entry.
        if self.header.hash_slot_count not in (check.used_slots, used - 1):
            self._note("hashSlotCount", check.used_slots, self.header.hash_slot_count)
        if used > 1:
            self._check_ends(check, entries_pos)
        found = (self.findings + check.findings)[: self.limit]
        self.outcome = IndexFileCheck(found, self.count + check.finding_count, checked=True)

    def _note(self, field: str, expected: int, found: int) -> None:
        self.count += 1
        if len(self.findings) < self.limit:
            self.findings.append(IndexFinding(0, field, expected, found))

    def _check_entries(self, check: IndexCheck, entries_pos: int, used: int) -> Iterator[int]:
        index = 1
        while index < used:
            wanted = min(CHECK_BYTES, INDEX_ENTRY_SIZE * (used - index))
            data = read_range(self.path, entries_pos + INDEX_ENTRY_SIZE * index, wanted)
            if len(data) < INDEX_ENTRY_SIZE:
                break
            check.entries(data)
            index = check.next_index
            yield len(data)

    def _check_slots(self, check: IndexCheck, slot_count: int) -> Iterator[int]:
        slot = 0
        while slot < slot_count:
            wanted = min(CHECK_BYTES, INDEX_SLOT_SIZE * (slot_count - slot))
            data = read_range(self.path, INDEX_HEADER_SIZE + INDEX_SLOT_SIZE * slot, wanted)
            if len(data) < INDEX_SLOT_SIZE:
                break
            check.slots(data, slot)
            slot += len(data) // INDEX_SLOT_SIZE
            yield len(data)

    def _check_ends(self, check: IndexCheck, entries_pos: int) -> None:
        first = read_range(self.path, entries_pos + INDEX_ENTRY_SIZE + INDEX_ENTRY_PHYOFFSET, 8)
        begin = int.from_bytes(first, "big", signed=True)
        header = self.header
        if len(first) == 8 and begin != header.begin_phy_offset:
            self._note("beginPhyOffset", begin, header.begin_phy_offset)
        if check.last_phy_offset not in (None, header.end_phy_offset):
            self._note("endPhyOffset", check.last_phy_offset, header.end_phy_offset)
        if header.end_timestamp_ms < header.begin_timestamp_ms:
            self._note("endTimestamp", header.begin_timestamp_ms, header.end_timestamp_ms)
