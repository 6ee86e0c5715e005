"""Table ``segments``: a row for each CommitLog file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rmqcore.offline.log.log_files import LogFile, LogShape
from rmqcore.spark.rows.columns import MAX_MS
from rmqcore.spark.splits.time_pruning import first_store_timestamp
from rmqcore.spark.tables.table import TableRead, batches_of_rows

FILES_A_TASK = 256
"""CommitLog files per task; each file costs a small read."""


@dataclass(frozen=True)
class SegmentsPart:
    """Some files of one store, sorted by offset; those from `empty_from` on held no record yet when the store was pinned."""

    broker: str
    files: tuple[LogFile, ...]
    shape: LogShape
    empty_from: int


class SegmentsRead(TableRead):
    """A read of ``segments``."""

    def planned_parts(self) -> list[SegmentsPart]:
        """Return the files of each store, at most `FILES_A_TASK` in a part."""
        parts = []
        for store in self.stores:
            files = store.log_files()
            shape = store.log_shape(files)
            empty_from = max(shape.tail_from + 1, store.log_end())
            for begin in range(0, len(files), FILES_A_TASK):
                some = tuple(files[begin : begin + FILES_A_TASK])
                parts.append(SegmentsPart(store.broker, some, shape, empty_from))
        return parts

    def read(self, part: SegmentsPart) -> Iterator[Any]:
        """Read the beginning of each file."""
        timed = any(column.name == "first_store_timestamp" for column in self.columns)
        rows = (self._row(part, file, timed=timed) for file in part.files)
        yield from batches_of_rows(self.columns, rows, self.options.batch_rows)

    @staticmethod
    def _row(part: SegmentsPart, file: LogFile, *, timed: bool) -> dict[str, Any]:
        timed = timed and file.file_from_offset < part.empty_from
        first_ms = first_store_timestamp(file) if timed else None
        if first_ms is not None and abs(first_ms) > MAX_MS:
            first_ms = None
        return {
            "broker": part.broker,
            "file": file.path.name,
            "file_from_offset": file.file_from_offset,
            "file_size": file.size,
            "first_store_timestamp": None if first_ms is None else first_ms * 1000,
            "is_tail": file.file_from_offset == part.shape.tail_from,
            "is_sealed": file.file_from_offset < part.shape.tail_from,
            "missing_bytes": max(0, part.shape.file_size - file.size),
            "path": file.location,
        }
