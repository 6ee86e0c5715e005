"""What a split's task reads: settled from the bytes around the file's boundaries, before the first record is read.

**A boundary counts only if the bytes around it prove where a record begins.** Otherwise the task of the split behind it
reads nothing, and the task before continues to the next proven boundary, or to the end. Both tasks test the same bytes
by the same rule, so they agree; each boundary is tested at most twice, and all tasks together walk over the file once
(docs/spark-splits.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rmqcore.spark.reading.split_start import (
    SplitStart,
    ask_boundary,
    check_reaches,
    find_split_start,
    walk_to,
)
from rmqcore.spark.splits.split import Split, boundaries, last_boundary


@dataclass(frozen=True, slots=True)
class SettledSplit:
    """A split, and the part of the file that its task reads.

    Attributes
    ----------
    split : Split
    start : SplitStart or None
        None if the split's boundary does not count: nothing is read.
    end : int or None
        As `Split.end`, or a later boundary if those between do not count.
    told : int or None
        Where the task of the split from `end` on begins, by the bytes there; None if that is unknown, or was not looked
        up.
    is_gone : bool
        The file was deleted since it was listed, or cut before the split.
    is_cut : bool
        The file was cut since it was listed, near `end` or before it: the bytes behind `end` may be left to no task.
    """

    split: Split
    start: SplitStart | None
    end: int | None
    told: int | None = None
    is_gone: bool = False
    is_cut: bool = False

    @property
    def is_skipped(self) -> bool:
        """True if the boundary does not count: the task of an earlier split reads this part."""
        return self.start is None and not self.is_gone

    def stop_offset(self, end_phy_offset: int | None = None) -> int | None:
        """Return the CommitLog offset at which a sink must stop: `end`, or a smaller limit of the reader."""
        ends = [end for end in (self.end, end_phy_offset) if end is not None]
        return min(ends, default=None)


def settle(split: Split) -> SettledSplit:
    """Test the boundaries of a split for where its task begins and ends.

    Raises
    ------
    OSError
        The file exists, and cannot be opened.
    """
    try:
        start = _find_start(split)
        if start is None:
            return SettledSplit(split, None, split.end)
        return _with_end(split, start)
    except FileNotFoundError:  # the owner of a live store has cleaned or cut it since it was listed
        return SettledSplit(split, None, split.end, is_gone=True)


def _find_start(split: Split) -> SplitStart | None:
    if split.aligned:
        return SplitStart(split.start, resynced=False)
    if split.walk_to_start:
        check_reaches(split.file, split.start)
        return walk_to(split.file, split.shape, split.start)
    return find_split_start(split.file, split.shape, split.start, split.max_record_size)


def _with_end(split: Split, start: SplitStart) -> SettledSplit:
    for boundary in later_boundaries(split):
        answer = ask_boundary(split.file, split.shape, boundary, split.max_record_size)
        if not answer.is_none:
            return SettledSplit(split, start, boundary, answer.phy_offset, is_cut=answer.is_cut)
    return SettledSplit(split, start, split.farthest_end)


def later_boundaries(split: Split) -> Iterator[int]:
    """Yield the boundaries at which a split's task may have to end, in order; its own end is the first."""
    file, end, last_end = split.file, split.end, split.last_end
    if split.cuts == 1 or end is None or end == last_end:
        return
    last = last_boundary(file, split.shape, split.max_record_size)
    if last_end is not None:
        last = min(last, last_end - 1)
    number = -(-(end - file.file_from_offset) * split.cuts // file.size)
    yield from boundaries(file, split.cuts, last, number)
