"""One CommitLog file record by record, over damage to the next place that proves itself.

For files whose place in the log is settled: this scan does not decide where the log ends.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rmqcore._native.files.mapped_file import MappedFile
from rmqcore._native.scan import places, scan
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.places import Place
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.disk.log_window import WholeFile
from rmqcore.engine.recovery.record_compare import RecordCompare


@dataclass(frozen=True, slots=True)
class PassedOver:
    """Bytes [start, end) of the CommitLog that hold no sound record."""

    start_phy_offset: int
    end_phy_offset: int
    field: str
    expected: object
    found: object

    def __str__(self) -> str:
        size = self.end_phy_offset - self.start_phy_offset
        what = f"{self.field} is {self.found}, expected {self.expected}"
        return f"{size} bytes at {self.start_phy_offset}: {what}"


class LostBytes:
    """Parts of the log that lost their records: missing files, and bytes that were passed over.

    Parameters
    ----------
    starts : iterable of int
        CommitLog offsets at which the existing files start.
    file_size : int
    damage : iterable of PassedOver
    """

    def __init__(self, starts: Iterable[int], file_size: int, damage: Iterable[PassedOver]) -> None:
        self._starts = frozenset(starts)
        self._file_size = file_size
        found = sorted((one.start_phy_offset, one.end_phy_offset) for one in damage)
        self._begins = [begin for begin, _ in found]
        self._ends = [end for _, end in found]

    def __contains__(self, phy_offset: int) -> bool:
        if phy_offset - phy_offset % self._file_size not in self._starts:
            return True
        at = bisect_right(self._begins, phy_offset) - 1
        return at >= 0 and phy_offset < self._ends[at]

    def held(self, entry: np.void, log_min: int, log_end: int) -> bool:
        """Return True if an entry names a lost record in [log_min, log_end): its queue offset is used."""
        begin, size = int(entry["phy_offset"]), int(entry["msg_size"])
        return log_min <= begin < begin + size <= log_end and begin in self


def scan_file(
    file: MappedFile,
    file_size: int,
    rows: ColumnScan,
    records: RecordCompare,
    take: Callable[[Batch], object],
    *,
    check_place: bool = True,
) -> list[PassedOver]:
    """Call `take` with the records of a file in batches, in order; return the ranges that were passed over.

    A record whose body fails its CRC counts, because its header names the place of its entry.

    Parameters
    ----------
    rows : ColumnScan
        Its stop offset ends the scan.
    records : RecordCompare
        Receives the records before `take`.

    Raises
    ------
    OSError
        The file cannot be read.
    StoreFormatError
        The file is shorter than `file_size`.
    """
    damage: list[PassedOver] = []

    def feed(buf: Any, length: int, pos: int, phy_offset: int, end_offset: int) -> Place:
        place = rows.feed(
            buf, length, pos, phy_offset, end_offset, check_place=check_place, check_crc=False
        )
        records.watch(buf, pos, place.pos)
        return place

    start = file.file_from_offset
    with WholeFile(file.path, file_size) as source:
        window = source.window(start, check_place=check_place)
        pos = 0
        while True:
            place = window.feed(feed, pos)
            pos = place.pos
            if place.code == scan.END:
                continue
            if rows.pending_rows:
                take(rows.take())
            if place.code == scan.FULL:
                continue
            if place.code in (scan.STOP, places.BLANK):
                return damage
            found, _ = window.next_proven(pos, after_zeros=place.code == places.ZERO)
            end = file_size if found is None else found
            damage.append(PassedOver(start + pos, start + end, *place.describe()))
            if found is None:
                return damage
            pos = found
