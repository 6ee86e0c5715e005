"""Where the first record at or after an offset of a file begins."""

from __future__ import annotations

from dataclasses import dataclass

from rmqcore._native.scan import ColumnScan
from rmqcore.offline.damage import DamageRange
from rmqcore.offline.files import LogFile, LogShape
from rmqcore.offline.walk import LogWalk


@dataclass(frozen=True)
class SplitStart:
    """A place where a split's walk begins.

    Attributes
    ----------
    phy_offset : int or None
        CommitLog offset of the first record or damage at or after the boundary; None when the file's log ends before.
    resynced : bool
        The record there was found by search, behind damage.
    """

    phy_offset: int | None
    resynced: bool


def find_split_start(
    file: LogFile, shape: LogShape, boundary: int, max_record_size: int
) -> SplitStart:
    """Find where the first record at or after a boundary begins, as a walk from the file's beginning would meet it."""
    del max_record_size
    return walk_to(file, shape, boundary)


def walk_to(file: LogFile, shape: LogShape, boundary: int) -> SplitStart:
    """Walk a file from its beginning to the first record at or after a boundary: the authority."""
    damage: list[DamageRange] = []
    sink = ColumnScan(["phy_offset"], stop_offset=boundary)
    walk = LogWalk([file], sink, damage, stop=boundary, shape=shape)
    for _ in walk.run():
        pass
    if walk.end_phy_offset < boundary:
        return SplitStart(None, resynced=False)
    last = damage[-1] if damage else None
    resynced = (
        last is not None and last.kind != "crc" and last.end_phy_offset == walk.end_phy_offset
    )
    return SplitStart(walk.end_phy_offset, resynced)
