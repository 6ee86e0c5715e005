"""Damaged ranges of the log: they become findings, and other checks ask whether an offset lies in a range."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

import numpy as np

from rmqcore._native.scan import places
from rmqcore.offline.fsck.findings import ERROR, INFO, WARNING, Findings
from rmqcore.offline.fsck.log_batch import Flags, Int64, LogBatch
from rmqcore.offline.log.damage import DamageList, DamageRange

MAX_RANGES = 10_000
DRAIN_AT = 256
KIND_OF_CODE = {places.BODYCRC: "crc", places.PHYSICALOFFSET: "place"}
"""Findings of records by code of `Place`; all others are ``record``."""


class FreshDamage(DamageList):
    """What a walk appends to: all ranges, but for those of which nobody wants more than their number."""

    def __init__(self, audit: DamageAudit) -> None:
        super().__init__(sys.maxsize)
        self._audit = audit

    @property
    def room(self) -> int:
        """How many more ranges are wanted one by one."""
        return 0 if self._audit.has_all_ranges else sys.maxsize

    def wants(self, code: int) -> bool:
        """Return True if there is room for findings of a code of `Place`."""
        return self._audit.wants(code)

    def count_codes(
        self, path: str, codes: Mapping[int, int], damaged_bytes: int, start: int, end: int
    ) -> None:
        """Count ranges by what is wrong with them."""
        del path, start
        self._audit.count_codes(codes, damaged_bytes, end)


class DamageAudit:
    """Collects the damage that a walk reports, so that the walk's own list stays short.

    Parameters
    ----------
    findings : Findings
    is_stale : callable
        Whether bytes that begin no record are left behind a log that was closed at this CommitLog offset.

    Attributes
    ----------
    fresh : list of DamageRange
        The walk appends here; `drain` empties it.
    ranges : list of DamageRange
        The first 10,000, by offset.
    sound_before : list of int
        How many sound records lie before each of them, as far as batches were counted.
    count, bytes : int
        Number of all ranges, and their bytes.
    """

    def __init__(self, findings: Findings, is_stale: Callable[[int], bool]) -> None:
        self.fresh = FreshDamage(self)
        self._is_stale = is_stale
        self.ranges: list[DamageRange] = []
        self.sound_before: list[int] = []
        self.count = self.bytes = 0
        self._findings = findings
        self._open: list[DamageRange] = []
        self._noted_end = -1
        self._again = False
        self._bounds: tuple[Int64, Int64] | None = None

    @property
    def has_all_ranges(self) -> bool:
        """True if the list of ranges is full, and later ones are not compared with an earlier walk."""
        return len(self.ranges) >= MAX_RANGES and not self._again

    def wants(self, code: int) -> bool:
        """Return True if there is room for findings of damaged records with a code of `Place`."""
        return bool(self._findings.room(KIND_OF_CODE.get(code, "record")))

    def count_codes(self, codes: Mapping[int, int], damaged_bytes: int, end: int) -> None:
        """Note ranges of records, by code of `Place`, that only count; they lie behind all that was noted, and `end` there."""
        self.drain()
        self._noted_end = max(self._noted_end, end)
        self.bytes += damaged_bytes
        for code, count in codes.items():
            self.count += count
            self._findings.count(KIND_OF_CODE.get(code, "record"), ERROR, count)

    def drain(self) -> None:
        """Turn what the walk has reported into findings; ranges that may look different later wait for `settle`."""
        if self.fresh:
            self._bounds = None
        for damaged in self.fresh:
            vanished = damaged.kind == "missing_file" and damaged.found != "missing"
            if vanished or damaged.kind == "torn_tail":
                self._open.append(damaged)
            else:
                self._note(damaged)
        self.fresh.clear()

    def walk_again(self) -> None:
        """The log's end will be walked again: forget how it looked."""
        self._bounds = None
        self._again = True
        self._open = [damaged for damaged in self._open if damaged.kind != "torn_tail"]

    def settle(self, log_min: int) -> None:
        """Note the torn tail, and files that were deleted while they were read unless they have just expired."""
        for damaged in self._open:
            if damaged.kind == "torn_tail" or damaged.start_phy_offset >= log_min:
                self._note(damaged)
        self._open.clear()
        self._bounds = None

    def count_before(self, batch: LogBatch, records_before: int) -> None:
        """Remember how many records lie before each range, to tell later what a cut there would take along."""
        for damaged in self.ranges[len(self.sound_before) :]:
            within = int(np.searchsorted(batch.phy_offset, damaged.start_phy_offset))
            self.sound_before.append(records_before + within)

    def holds(self, phy_offsets: Int64) -> Flags:
        """Which of these CommitLog offsets lie in a damaged range."""
        starts, ends = self._sorted_bounds()
        if not len(starts):
            return np.zeros(len(phy_offsets), bool)
        at = np.searchsorted(starts, phy_offsets, side="right") - 1
        inside: Flags = (at >= 0) & (phy_offsets < ends[at])
        return inside

    def _sorted_bounds(self) -> tuple[Int64, Int64]:
        if self._bounds is None:
            ranges = sorted(
                (*self.ranges, *self._open), key=lambda damaged: damaged.start_phy_offset
            )
            starts = np.array([damaged.start_phy_offset for damaged in ranges], np.int64)
            self._bounds = (
                starts,
                np.array([damaged.end_phy_offset for damaged in ranges], np.int64),
            )
        return self._bounds

    def _note(self, damaged: DamageRange) -> None:
        if damaged.start_phy_offset < self._noted_end:
            return  # an earlier walk saw it
        self._noted_end = damaged.end_phy_offset
        size = damaged.end_phy_offset - damaged.start_phy_offset
        self.count += 1
        self.bytes += size
        if len(self.ranges) < MAX_RANGES:
            self.ranges.append(damaged)
        kind, severity = damaged.kind, ERROR
        what = _sentence(damaged, size)
        if kind == "torn_tail":
            severity = WARNING
            if damaged.field == "MAGIC" and self._is_stale(damaged.start_phy_offset):
                severity = INFO
                what = (
                    f"{size} stale bytes behind the last record of a cleanly closed store; a "
                    "broker overwrites them"
                )
        elif kind == "short_file":
            kind = "file_size"
        elif kind == "record" and damaged.field == "PHYSICALOFFSET":
            kind = "place"
        if not self._findings.room(kind):  # no sentence is made that nobody reads
            self._findings.count(kind, severity)
            return
        self._findings.add(
            kind,
            severity,
            damaged.path,
            what,
            phy_offset=damaged.start_phy_offset,
            field=damaged.field,
            expected=damaged.expected,
            found=damaged.found,
        )


def _sentence(damaged: DamageRange, size: int) -> str:
    what = {
        "crc": "a record's body fails its CRC",
        "torn_tail": f"{size} bytes behind the last sound record; a broker start cuts them",
        "missing_file": f"the {size} bytes from here on are in no file",
        "short_file": f"the file lacks {size} bytes",
        "unreadable": f"{size} bytes could not be read",
    }.get(damaged.kind, f"{size} bytes are not a sound record")
    return f"{what} ({damaged.field} is {damaged.found}, expected {damaged.expected})"
