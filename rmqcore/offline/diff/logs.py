"""The comparison of two logs on this machine: bytes by threads, file by file, in bounded memory."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby

from rmqcore.disk.paths import StorePaths
from rmqcore.offline.diff.difference import lacking
from rmqcore.offline.diff.pieces import (
    BytesTask,
    Range,
    differing_pieces,
    differing_units,
    joined,
)
from rmqcore.offline.diff.plan import Side, bytes_tasks, open_ended, units_tasks
from rmqcore.offline.diff.units import content_end
from rmqcore.offline.log.log_files import list_log_files
from rmqcore.offline.log.walk import Progress

TASK_BYTES = 64 << 20
MOST_WAITING = 16
"""Tasks that are compared, or begun, ahead of the one whose records are looked at."""
MOST_RANGES = 100_000

ComparedBytes = tuple[BytesTask, list[Range]]


class LogsDiff:
    """Compares the logs of two stores.

    Parameters
    ----------
    a, b : StorePaths
    threads : ThreadPoolExecutor
    progress : callable, optional

    Attributes
    ----------
    sides : (Side, Side)
    ranges : list of (int, int, str)
        Start, end and kind of ranges that differ, as of `differing_units` and `lacking`; the first `MOST_RANGES` by offset.
    count, differing_bytes : int
        Of all ranges.
    compared_bytes : int
    gone : set of str
        Files that were deleted before they were compared.
    """

    def __init__(
        self, a: StorePaths, b: StorePaths, threads: ThreadPoolExecutor, progress: Progress | None
    ) -> None:
        self.sides = _side(a), _side(b)
        self.ranges: list[tuple[int, int, str]] = []
        self.count = self.differing_bytes = self.compared_bytes = 0
        self.gone: set[str] = set()
        self._threads = threads
        self._progress = progress

    def compare(self) -> None:
        """Compare everything that both have."""
        left, right = self.sides
        tasks = bytes_tasks(left, right, TASK_BYTES)
        total = sum(task.end - task.start for task in tasks)
        starts = {file.file_from_offset for file in left.files}
        common = sorted(starts & {file.file_from_offset for file in right.files})

        def block(one: ComparedBytes) -> int:
            return bisect_right(common, one[0].start)

        # Records are looked at from one place where a file begins on both sides to the next.
        for _, group in groupby(self._compared(tasks, total), block):
            doubtful = units_tasks(left, right, [one for one in group if one[1]])
            for task in doubtful:
                try:
                    self._add(differing_units(task))
                except FileNotFoundError as error:
                    self.gone.add(str(error.filename))
        for one in lacking(self.sides):
            self._add([one])
        self.ranges = joined(self.ranges)

    def _compared(self, tasks: list[BytesTask], total: int) -> Iterator[ComparedBytes]:
        """Each task with the pieces that differ, in order."""
        waiting: deque[tuple[BytesTask, Future[list[Range]]]] = deque()
        for task in tasks:
            waiting.append((task, self._threads.submit(self._pieces, task)))
            if len(waiting) >= MOST_WAITING:
                yield self._next(waiting, total)
        while waiting:
            yield self._next(waiting, total)

    def _next(
        self, waiting: deque[tuple[BytesTask, Future[list[Range]]]], total: int
    ) -> ComparedBytes:
        task, answer = waiting.popleft()
        found = answer.result()
        self.compared_bytes += task.end - task.start
        if self._progress is not None:
            self._progress(self.compared_bytes, total)
        return task, found

    def _pieces(self, task: BytesTask) -> list[Range]:
        try:
            return differing_pieces(task)
        except FileNotFoundError as error:  # the cleaner was faster
            self.gone.add(str(error.filename))
            return []

    def _add(self, found: list[tuple[int, int, str]]) -> None:
        """Add ranges; the first may continue where the last one ended."""
        last = self.ranges[-1:]
        merged = joined([*last, *found])
        self.count += len(merged) - len(last)
        self.differing_bytes += sum(end - start for start, end, _ in found)
        if len(self.ranges) < MOST_RANGES:
            self.ranges[-1:] = merged
            del self.ranges[MOST_RANGES:]


def _side(paths: StorePaths) -> Side:
    """The files of a store, and where its log ends: that takes a walk over the newest file."""
    files = list_log_files(paths)
    return Side.of(
        files,
        {file.file_from_offset: content_end((file, shape)) for file, shape in open_ended(files)},
    )
