"""The units of a CommitLog file, which are its records, damaged ranges and BLANK, and where they begin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rmqcore._native.scan.places import DLEDGER_HEAD
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.offline.log.damage import DamageList, DamageRange
from rmqcore.offline.log.log_files import LogFile, LogShape
from rmqcore.offline.log.long_record import LongRecords
from rmqcore.offline.log.store_times import HeaderScan
from rmqcore.offline.log.walk import Blank, LogWalk

Offsets = npt.NDArray[np.int64]
ABSENT = ("missing_file", "short_file")
"""Kinds of damage that name bytes which are not there, as in a record that is cut off."""


@dataclass(frozen=True)
class FileUnits:
    """The records, damaged ranges and BLANK of one file, or of several that follow each other.

    Attributes
    ----------
    bounds : array of int64
        CommitLog offsets at which a unit begins or ends, ascending.
    damage : list of DamageRange
    blanks : list of (int, int)
        Where a BLANK begins, and the end of its file.
    end_phy_offset : int
        Where the file's contents end: behind it is room for more records, or the end of the file.
    """

    bounds: Offsets
    damage: list[DamageRange]
    blanks: list[tuple[int, int]]
    end_phy_offset: int

    @classmethod
    def of(cls, file: LogFile, shape: LogShape) -> FileUnits:
        """Walk one file."""
        damage: list[DamageRange] = []
        blanks: list[tuple[int, int]] = []
        walk = LogWalk(
            [file], ColumnScan(["phy_offset"], batch_rows=65_536), damage, shape=shape, blanks=True
        )
        found: list[Offsets] = []
        for rows in walk.run():
            if isinstance(rows, Blank):
                blanks.append((rows.phy_offset, file.end_offset))
            else:
                # A copy, because the scan uses the buffer again.
                found.append(np.array(rows.buffer("phy_offset")).view(np.int64))
                if file.dledger:
                    # The head of a DLedger entry does not belong to the record before it.
                    found.append(found[-1] - DLEDGER_HEAD)
        ends = [damaged.end_phy_offset for damaged in damage if damaged.kind not in ABSENT]
        end = max([walk.end_phy_offset, *(end for _, end in blanks), *ends])
        more = [walk.end_phy_offset, end, *(start for start, _ in blanks), *ends]
        more += [damaged.start_phy_offset for damaged in damage]
        bounds = np.unique(np.concatenate([*found, np.array(more, np.int64)]))
        return cls(bounds, damage, blanks, end)

    @classmethod
    def of_all(cls, files: Sequence[LogFile], shape: LogShape) -> FileUnits:
        """Walk files one after the other."""
        parts = [cls.of(file, shape) for file in files]
        return cls(
            np.unique(np.concatenate([part.bounds for part in parts])),
            [damaged for part in parts for damaged in part.damage],
            [blank for part in parts for blank in part.blanks],
            max(part.end_phy_offset for part in parts),
        )

    @cached_property
    def _damage_arrays(self) -> tuple[Offsets, Offsets]:
        """The starts of the damaged ranges, and the greatest end of the ranges up to each of them."""
        ranges = sorted(
            (damaged.start_phy_offset, damaged.end_phy_offset) for damaged in self.damage
        )
        starts, ends = np.array(ranges, np.int64).reshape(-1, 2).T
        return starts, np.maximum.accumulate(ends)

    def is_damaged(self, start: int, end: int) -> bool:
        """Return True if a damaged range overlaps [start, end)."""
        starts, reach = self._damage_arrays
        before = int(np.searchsorted(starts, end))
        return before > 0 and int(reach[before - 1]) > start


def content_end(tail: tuple[LogFile, LogShape]) -> int:
    """Return the CommitLog offset at which the contents of a file end: `FileUnits.end_phy_offset`, without reading bodies."""
    file, shape = tail
    damage: list[DamageRange] = DamageList()
    blank_end = 0
    walk = LogWalk(
        [file],
        HeaderScan(65_536),
        damage,
        shape=shape,
        blanks=True,
        skips=True,
        long_records=LongRecords(check_crc=False),
    )
    for rows in walk.run():
        if isinstance(rows, Blank):
            blank_end = file.end_offset
    ends = [damaged.end_phy_offset for damaged in damage if damaged.kind not in ABSENT]
    return max([walk.end_phy_offset, blank_end, *ends])


class Cells:
    """The smallest ranges that are whole records, or damage, on both sides.

    Parameters
    ----------
    left, right : FileUnits
    edges : sequence of int
        Further offsets at which a range begins or ends.
    """

    def __init__(self, left: FileUnits, right: FileUnits, edges: Sequence[int]) -> None:
        self._left, self._right = left, right
        common = np.intersect1d(left.bounds, right.bounds, assume_unique=True)
        self._bounds = np.union1d(common, np.array(edges, np.int64))
        # The bytes behind the first eight of a BLANK have no meaning.
        ends = dict(right.blanks)
        self._padding = [
            (start + 8, min(end, ends[start])) for start, end in left.blanks if start in ends
        ]

    def of(self, positions: Offsets) -> set[int]:
        """Return the numbers of the cells that hold these positions: CommitLog offsets that both sides have."""
        for start, end in self._padding:
            positions = positions[(positions < start) | (positions >= end)]
        return set((np.searchsorted(self._bounds, positions, side="right") - 1).tolist())

    def ranges(self, cells: Iterable[int]) -> list[tuple[int, int, str]]:
        """Return start, end and kind of cells that differ."""
        found: list[tuple[int, int, str]] = []
        for cell in sorted(cells):
            start, end = int(self._bounds[cell]), int(self._bounds[cell + 1])
            sides = self._left.is_damaged(start, end), self._right.is_damaged(start, end)
            found.append((start, end, _KINDS[sides]))
        return found


_KINDS = {
    (False, False): "different",
    (True, False): "damaged_left",
    (False, True): "damaged_right",
    (True, True): "damaged_both",
}
