"""Which ranges of the CommitLog each of two stores has, and how those that both have are cut into tasks."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rmqcore.offline.files import LogFile, LogShape
from rmqcore.spark.compare_bytes import BytesTask, Range, UnitsTask


@dataclass(frozen=True)
class Side:
    """One store.

    Attributes
    ----------
    files : list of LogFile
        Up to the one in which the log ends.
    shape : LogShape
    ends : list of int
        CommitLog offset at which what each file holds ends.
    """

    files: list[LogFile]
    shape: LogShape
    ends: list[int]

    @classmethod
    def of(cls, files: Sequence[LogFile], walked_ends: Mapping[int, int]) -> Side:
        """Of all files of a log, and where what those of `open_ended` hold ends, by their first offsets."""
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
        """What the store has, neighbouring files as one range."""
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
        """The file that holds a byte which the store has."""
        starts = [file.file_from_offset for file in self.files]
        return self.files[bisect_right(starts, phy_offset) - 1]


def open_ended(files: Sequence[LogFile]) -> list[tuple[LogFile, LogShape]]:
    """Files of which only a walk tells where what they hold ends: the one in which the log does, and short ones."""
    shape = LogShape.of(list(files))
    return [
        (file, shape)
        for file in files
        if file.file_from_offset == shape.tail_from
        or (file.size < shape.file_size and file.file_from_offset < shape.tail_from)
    ]


def minus(these: Iterable[Range], those: Sequence[Range]) -> list[Range]:
    """What is in the first ranges and not in the second, both ascending and disjoint."""
    found: list[Range] = []
    for start, end in these:
        at = start
        for other_start, other_end in those:
            if other_end <= at or other_start >= end:
                continue
            if other_start > at:
                found.append((at, other_start))
            at = max(at, other_end)
        if at < end:
            found.append((at, end))
    return found


def in_both(these: Sequence[Range], those: Sequence[Range]) -> list[Range]:
    """What both have."""
    return minus(these, minus(these, those))


def bytes_tasks(left: Side, right: Side, most_bytes: int) -> list[BytesTask]:
    """What both have, cut where a file of either begins and into parts of at most `most_bytes`."""
    starts = sorted({file.file_from_offset for side in (left, right) for file in side.files})
    tasks: list[BytesTask] = []
    for start, end in in_both(left.ranges(), right.ranges()):
        first = bisect_right(starts, start)
        cuts = [start, *(cut for cut in starts[first:] if cut < end), end]
        for begin, stop in pairwise(cuts):
            one, other = left.file_at(begin), right.file_at(begin)
            tasks += [
                BytesTask(one, other, at, min(at + most_bytes, stop))
                for at in range(begin, stop, most_bytes)
            ]
    return tasks


def units_tasks(
    left: Side, right: Side, differing: Sequence[tuple[BytesTask, list[Range]]]
) -> list[UnitsTask]:
    """Pieces that differ, together with all files up to the next places where one begins on both sides."""
    of_left = {file.file_from_offset for file in left.files}
    common = sorted(of_left & {file.file_from_offset for file in right.files})
    edges = sorted({edge for side in (left, right) for one in side.ranges() for edge in one})
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
