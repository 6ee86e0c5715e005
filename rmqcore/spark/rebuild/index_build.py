"""The second stage of an index rebuild: consecutive index files, from the keys of some splits.

Files are written through a mapping, as in an open store: a task needs page cache, but no buffer of the file's size.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rmqcore._native.index.index_reader import IndexHeader
from rmqcore._native.index.mapped_index import PUT_DONE, PUT_FULL
from rmqcore._native.scan.batch import Batch
from rmqcore.engine.index.index_file import IndexFile
from rmqcore.errors import StoreError
from rmqcore.maintenance.rebuild.queue_runs import longs
from rmqcore.spark.output.attempt import Attempt
from rmqcore.spark.output.part_output import StagedFile
from rmqcore.spark.reading.settle import settle
from rmqcore.spark.rebuild.index_plan import IndexTask, key_scan


@dataclass(frozen=True)
class BuiltIndexFile:
    """An index file that has no name yet.

    Attributes
    ----------
    number : int
        Its number among the store's index files.
    begin_timestamp_ms : int
        Store time of its first message.
    file : StagedFile
    """

    number: int
    begin_timestamp_ms: int
    file: StagedFile


class IndexBuild:
    """Called once for each `IndexTask`.

    Parameters
    ----------
    job_folder : Path
    slot_count, capacity : int
        maxHashSlotNum and maxIndexNum.
    """

    def __init__(self, job_folder: Path, slot_count: int, capacity: int) -> None:
        self._job_folder = job_folder
        self._geometry = slot_count, capacity

    def __call__(self, task: IndexTask) -> list[BuiltIndexFile]:
        """Build the files.

        Raises
        ------
        StoreError
            The number of keys in a split differs from the count.
        """
        attempt = Attempt(self._job_folder)
        writer = IndexWriter(attempt, *self._geometry, task)
        for split, keys in task.splits:
            found = 0
            for batch in key_scan(settle(split)).run():
                found += int(key_offsets(batch)[-1])
                writer.put(batch)
                if writer.done:
                    break
            if found != keys and not writer.done:
                raise StoreError(
                    f"{split.file.name} changed while it was read: {keys} keys from {split.start} on, then {found}"
                )
        built = writer.finish()
        attempt.sync()
        return built


class IndexWriter:
    """Fills one file after the other.

    Attributes
    ----------
    done : bool
        All files of the task are full, and more keys follow.
    """

    def __init__(self, attempt: Attempt, slot_count: int, capacity: int, task: IndexTask) -> None:
        self.done = False
        self._attempt = attempt
        self._geometry = slot_count, capacity
        self._task = task
        self._skip = task.skip
        self._before: IndexHeader | None = None
        self._file: IndexFile | None = None
        self._built: list[BuiltIndexFile] = []

    def put(self, batch: Batch) -> None:
        """Put the keys of the next batch."""
        row, key = self._begin(batch)
        if row == len(batch):
            return
        file = self._file or self._next_file()
        while not self.done:
            row, key, code = file.native.put(batch, row, key)
            if code == PUT_DONE:
                return
            if code != PUT_FULL:
                file.make_room()
                continue
            self._close_file()
            self.done = len(self._built) == self._task.file_count
            if not self.done:
                file = self._next_file()

    def finish(self) -> list[BuiltIndexFile]:
        """Return all files of the task; files for which no keys are left stay empty."""
        self._close_file()
        while len(self._built) < self._task.file_count:
            self._next_file()
            self._close_file()
        return self._built

    # ---- where the first file begins ----------------------------------------------------------------

    def _begin(self, batch: Batch) -> tuple[int, int]:
        """Return the row and key of a batch at which the first file begins."""
        if self._skip == 0:
            return 0, 0
        offsets = key_offsets(batch)
        passed = min(self._skip, int(offsets[-1]))
        self._skip -= passed
        if passed:
            last = _row_of(offsets, passed - 1)
            time = int(longs(batch, "store_timestamp_ms")[last])
            phy_offset = int(longs(batch, "phy_offset")[last])
            # A file takes over only the end fields of the file before it.
            self._before = IndexHeader(0, time, 0, phy_offset, 0, 1)
        if passed == offsets[-1]:
            return len(batch), 0
        row = _row_of(offsets, passed)
        return row, passed - int(offsets[row])

    # ---- files --------------------------------------------------------------------------------------

    def _next_file(self) -> IndexFile:
        number = self._task.first_file + len(self._built)
        path = self._attempt.folder / f"{number:017d}"
        self._file = IndexFile.create(path, *self._geometry, self._before)
        return self._file

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is None:
            return
        file.flush()
        header = file.native.header
        self._before = header
        keys = header.index_count - 1
        places = (header.begin_phy_offset, header.end_phy_offset) if keys else (-1, -1)
        staged = self._attempt.stage(file.path, keys, *places)
        number = self._task.first_file + len(self._built)
        self._built.append(BuiltIndexFile(number, header.begin_timestamp_ms, staged))


def key_offsets(batch: Batch) -> npt.NDArray[np.int32]:
    """Return where each row's keys begin, and the end of the last row's."""
    return np.frombuffer(batch.buffer("key_hashes", "offsets"), np.int32)


def _row_of(offsets: npt.NDArray[np.int32], key: int) -> int:
    """Return the row that has a key of the batch."""
    return int(np.searchsorted(offsets, key, side="right")) - 1
