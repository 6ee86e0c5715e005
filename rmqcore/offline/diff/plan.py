"""The ranges of the CommitLog that each of two stores has, and the tasks that compare the ranges of both."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rmqcore.offline.diff.pieces import BytesTask, Range, UnitsTask
from rmqcore.offline.log.log_files import LogFile, LogShape


@dataclass(frozen=True)
class Side:
    """A store of the two.

    Attributes
    ----------
    files : list of LogFile
        The files up to the file in which the log ends.
    shape : LogShape
    ends : list of int
        The CommitLog offset at which the contents of each file end.
    """

    files: list[LogFile]
    shape: LogShape
    ends: list[int]

    @classmethod
    def of(cls, files: Sequence[LogFile], walked_ends: Mapping[int, int]) -> Side:
        """Make a side of all files of a log; `walked_ends`: first offset of an `open_ended` file -> where its contents end."""
        shape = LogShape.of(list(files))
        used = [file for file in files if file.file_from_offset <= shape.tail_from]
        ends = [
            min(file.end_offset, walked_ends.get(file.file_from_offset, file.end_offset))
            for file in used
        ]
        for number, file in enumerate(used[1:]):
            ends[number] = min(ends[number], file.file_from_offset)
        return cls(used, shape, ends)

    def ranges(self) -> list[Range]:
        """Return the ranges that the store has; neighbouring files make one range."""
        found: list[Range] = []
        for file, end in zip(self.files, self.ends, strict=True):
            start = file.file_from_offset
            if end <= start:
                continue
            if found and found[-1][1] == start:
                start = found.pop()[0]
            found.append((start, end))
        return found

    def file_at(self, phy_offset: int) -> LogFile:
        """Return the file that holds a byte of the store."""
        starts = [file.file_from_offset for file in self.files]
        return self.files[bisect_right(starts, phy_offset) - 1]


def open_ended(files: Sequence[LogFile]) -> list[tuple[LogFile, LogShape]]:
    """Return the files whose end only a walk finds: the file in which the log ends, and short files."""
    shape = LogShape.of(list(files))
    return [
        (file, shape)
        for file in files
        if file.file_from_offset == shape.tail_from
        or (file.size < shape.file_size and file.file_from_offset < shape.tail_from)
    ]


def minus(first: Iterable[Range], second: Sequence[Range]) -> list[Range]:
    """Return what `first` covers and `second` does not; both are ascending and disjoint."""
    found: list[Range] = []
    for start, end in first:
        at = start
        for taken_start, taken_end in second:
            if taken_end <= at or taken_start >= end:
                continue
            if taken_start > at:
                found.append((at, taken_start))
            at = max(at, taken_end)
        if at < end:
            found.append((at, end))
    return found


def in_both(first: Sequence[Range], second: Sequence[Range]) -> list[Range]:
    """Return what both cover."""
    return minus(first, minus(first, second))


def bytes_tasks(left: Side, right: Side, most_bytes: int) -> list[BytesTask]:
    """Cut what both sides have where a file of either begins, and into parts of at most `most_bytes`."""
    starts = sorted({file.file_from_offset for side in (left, right) for file in side.files})
    tasks: list[BytesTask] = []
    for start, end in in_both(left.ranges(), right.ranges()):
        first = bisect_right(starts, start)
        cuts = [start, *(cut for cut in starts[first:] if cut < end), end]
        for begin, stop in pairwise(cuts):
            left_file, right_file = left.file_at(begin), right.file_at(begin)
            tasks += [
                BytesTask(left_file, right_file, at, min(at + most_bytes, stop))
                for at in range(begin, stop, most_bytes)
            ]
    return tasks


def units_tasks(
    left: Side, right: Side, differing: Sequence[tuple[BytesTask, list[Range]]]
) -> list[UnitsTask]:
    """Group the pieces that differ with all files up to the next places where a file begins on both sides."""
    of_left = {file.file_from_offset for file in left.files}
    common = sorted(of_left & {file.file_from_offset for file in right.files})
    edges = sorted({edge for side in (left, right) for held in side.ranges() for edge in held})
    by_block: dict[int, list[tuple[BytesTask, list[Range]]]] = {}
    for task, pieces in differing:
        by_block.setdefault(bisect_right(common, task.start), []).append((task, pieces))
    tasks: list[UnitsTask] = []
    for block, given in by_block.items():
        low = common[block - 1] if block else 0
        high = common[block] if block < len(common) else None
        files = [
            [
                file
                for file in side.files
                if file.end_offset > low and (high is None or file.file_from_offset < high)
            ]
            for side in (left, right)
        ]
        tasks.append(UnitsTask(files[0], files[1], left.shape, right.shape, edges, given))
    return tasks
