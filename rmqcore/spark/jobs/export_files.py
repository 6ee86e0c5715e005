"""The second step of an export: Parquet files of the rows that the first step divided, each of one topic and one day.

A file ends when the bytes written reach its target size.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rmqcore.disk.inside.folder import Folder
from rmqcore.errors import StoreError
from rmqcore.offline.export.parquet_writer import Compression, parquet_writer, rows_a_step
from rmqcore.offline.export.part_files import Partition
from rmqcore.spark.output.finished import MANIFEST, file_size, finish_once, read_finished
from rmqcore.spark.rows.columns import Column
from rmqcore.spark.rows.schema import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

MIB = 1024 * 1024
TARGET_FILE_BYTES = 128 * MIB
LEAST_TARGET = 64 * 1024
ROW_GROUP_BYTES = 32 * MIB
"""Bytes of rows that make a row group; memory holds about twice as many."""
SHARES = 16
"""Shares of an export that would fill fewer files of the target size: with fewer shares few cores would write."""
LEAST_SHARE = 4
"""The smallest share is the target size divided by this: an export too small for `SHARES` such shares has fewer."""


@dataclass(frozen=True, slots=True)
class WaitingRows:
    """Rows of one partition that wait in a file.

    Attributes
    ----------
    topic : str
    day : int
    path : str
        The file: Arrow IPC messages, or Parquet if `pos` is None.
    pos : int or None
    byte_count : int
        Bytes in memory; an estimate for a Parquet file.
    """

    topic: str
    day: int
    path: str
    pos: int | None
    byte_count: int

    @property
    def partition(self) -> Partition:
        """Topic and day."""
        return self.topic, self.day


@dataclass(frozen=True, slots=True)
class PartFile:
    """A Parquet file that a task has written.

    Attributes
    ----------
    name : str
        In the folder of the task's work.
    topic : str
    day : int
    rows, byte_count : int
    bounds : dict
        The least and the greatest ``phy_offset`` and ``store_timestamp`` (microseconds). A column that is missing, or
        has nulls, has no entry.
    """

    name: str
    topic: str
    day: int
    rows: int
    byte_count: int
    bounds: dict[str, list[int]]

    @property
    def partition(self) -> Partition:
        """Topic and day."""
        return self.topic, self.day


@dataclass(frozen=True)
class WrittenFiles:
    """The files of one task."""

    files: list[PartFile]

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Read the manifest of finished files; return None if the folder or one of its files is missing."""
        found = read_finished(folder)
        try:
            files = [PartFile(**file) for file in found["files"]] if found else None
        except (TypeError, KeyError):
            return None
        if files is None or any(file_size(folder, file.name) != file.byte_count for file in files):
            return None
        return cls(files)


@dataclass(frozen=True)
class FilesTask:
    """Pieces that become files, with the columns and the compression of the files.

    Attributes
    ----------
    pieces : tuple of WaitingRows
        The pieces of a partition are neighbours, in the order of their rows in the files.
    columns : tuple of Column
    compression : {"zstd", "snappy", "none"}
    target_bytes : int
        Bytes at which a file ends.
    job_folder, name : str
        The folder that the driver has made, and the name of its subfolder for the files.
    """

    pieces: tuple[WaitingRows, ...]
    columns: tuple[Column, ...]
    compression: Compression
    target_bytes: int
    job_folder: str
    name: str


def check_target(target_file_bytes: int) -> int:
    """Check the size that files are to have.

    Raises
    ------
    ValueError
        It is below 64 KiB.
    """
    if target_file_bytes < LEAST_TARGET:
        raise ValueError(f"target_file_bytes {target_file_bytes}: expected {LEAST_TARGET} or more")
    return target_file_bytes


def shares(
    pieces: Iterable[WaitingRows], target_bytes: int, ratio: float
) -> list[tuple[WaitingRows, ...]]:
    """Divide pieces among tasks: a task has several small partitions, or a part of a large one.

    Parameters
    ----------
    pieces : iterable of WaitingRows
        Within a partition in the order of their rows in the files.
    target_bytes : int
    ratio : float
        How many times smaller Parquet is than rows in memory.
    """
    ordered = sorted(pieces, key=lambda piece: piece.partition)
    whole = target_bytes * ratio
    total = sum(piece.byte_count for piece in ordered)
    most = min(max(total / SHARES, whole / LEAST_SHARE), whole)
    found: list[list[WaitingRows]] = [[]]
    room = most
    for _, group in groupby(ordered, key=lambda piece: piece.partition):
        of_partition = list(group)
        if sum(piece.byte_count for piece in of_partition) > room and found[-1]:
            found.append([])
            room = most
        for piece in of_partition:
            if piece.byte_count > room and found[-1]:
                found.append([])
                room = most
            found[-1].append(piece)
            room -= piece.byte_count
    return [tuple(share) for share in found if share]


def share_name(share: Sequence[WaitingRows], target_bytes: int) -> str:
    """Return a name for the work on a share, made of its pieces and the target size."""
    said = repr((target_bytes, share))
    return "files-" + hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def write_files(task: FilesTask) -> WrittenFiles:
    """Write the files of a share, and rename their folder to the share's name when all are written."""
    return finish_once(
        Path(task.job_folder), task.name, lambda folder: _write(task, folder), WrittenFiles.read
    )


def _write(task: FilesTask, attempt: Folder) -> WrittenFiles:
    files: list[PartFile] = []
    for partition, group in groupby(task.pieces, key=lambda piece: piece.partition):
        of_partition = _PartitionFiles(task, attempt, partition, len(files))
        for batch, byte_count in _rows(group, task.columns):
            of_partition.add(batch, byte_count)
        files += of_partition.close()
    attempt.write(MANIFEST, json.dumps({"files": [asdict(file) for file in files]}).encode())
    return WrittenFiles(files)


def _rows(
    pieces: Iterable[WaitingRows], columns: tuple[Column, ...]
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield the rows of pieces, and their approximate bytes: counting those of a slice costs a tenth of the export."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = arrow_schema(columns)
    for piece in pieces:
        if piece.pos is None:
            with pq.ParquetFile(piece.path) as file:
                groups = range(file.num_row_groups)
                # One row group after the other: a batch with the rows of many row groups would have no bound on its
                # bytes.
                for batch in (one for group in groups for one in file.iter_batches(65536, [group])):
                    rows = pa.RecordBatch.from_arrays(
                        batch.select(schema.names).columns, schema=schema
                    )
                    yield rows, rows.nbytes
            continue
        with pa.OSFile(piece.path) as file:
            file.seek(piece.pos)
            message = file.read_buffer(piece.byte_count)
        if message.size != piece.byte_count:
            raise StoreError(f"{piece.path} is shorter than its task reported")
        yield pa.ipc.read_record_batch(pa.ipc.read_message(message), schema), piece.byte_count


class _PartitionFiles:
    """The files of one partition: rows gather to row groups, and row groups to files."""

    def __init__(self, task: FilesTask, folder: Folder, partition: Partition, number: int) -> None:
        self._task = task
        self._folder = folder
        self._partition = partition
        self._number = number
        self._schema = arrow_schema(task.columns).with_metadata(
            {"topic": partition[0].encode("utf-8", "replace")}
        )
        self._group_bytes = min(ROW_GROUP_BYTES, task.target_bytes)
        self._batches: list[pa.RecordBatch] = []
        self._byte_count = 0
        self._sink: Any = None
        self._writer: Any = None
        self._bounds: list[dict[str, list[int]]] = []
        self._rows = 0
        self._files: list[PartFile] = []

    def add(self, batch: pa.RecordBatch, byte_count: int) -> None:
        step = max(1, batch.num_rows * self._group_bytes // max(byte_count, 1))
        for start in range(0, batch.num_rows, step):
            part = batch.slice(start, step)
            self._batches.append(part)
            self._byte_count += byte_count * part.num_rows // batch.num_rows
            if self._byte_count >= self._group_bytes:
                self._end_row_group()

    def close(self) -> list[PartFile]:
        self._end_row_group()
        self._end_file()
        return self._files

    def _end_row_group(self) -> None:
        import pyarrow as pa

        if not self._batches:
            return
        rows = pa.Table.from_batches(self._batches).replace_schema_metadata(self._schema.metadata)
        self._batches.clear()
        byte_count, self._byte_count = self._byte_count, 0
        if self._writer is None:
            self._sink = pa.OSFile(str(self._folder.path / self._name), "wb")
            self._writer = parquet_writer(
                self._sink,
                self._schema,
                self._task.compression,
                rows_a_step(rows.num_rows, byte_count),
            )
        self._writer.write_table(rows, row_group_size=max(1, rows.num_rows))
        self._rows += rows.num_rows
        self._bounds.append(_bounds(rows))
        if self._sink.tell() >= self._task.target_bytes:
            self._end_file()

    def _end_file(self) -> None:
        if self._writer is None:
            return
        self._writer.close()
        size = self._sink.tell()
        self._sink.close()
        self._files.append(
            PartFile(self._name, *self._partition, self._rows, size, _joined(self._bounds))
        )
        self._writer = self._sink = None
        self._bounds, self._rows = [], 0
        self._number += 1

    @property
    def _name(self) -> str:
        return f"part-{self._number:05}.parquet"


def _bounds(rows: pa.Table) -> dict[str, list[int]]:
    """The least and the greatest values of the columns by which readers look for files."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = {}
    for name in ("phy_offset", "store_timestamp"):
        if name in rows.schema.names and not rows.column(name).null_count:
            of_column = pc.min_max(rows.column(name).cast(pa.int64()))
            found[name] = [of_column["min"].as_py(), of_column["max"].as_py()]
    return found


def _joined(bounds: Sequence[dict[str, list[int]]]) -> dict[str, list[int]]:
    names = set(bounds[0]).intersection(*bounds)
    return {
        name: [min(of[name][0] for of in bounds), max(of[name][1] for of in bounds)]
        for name in sorted(names)
    }
