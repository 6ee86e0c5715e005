"""The first step of an export: a task divides the rows of a split among partitions. A later run recognizes the finished split.

The rows wait in one file, as Arrow IPC messages; the manifest beside the file says where the rows of each partition
lie. The second step (`rmqcore.spark.jobs.export_files`) makes Parquet of a partition's rows in all splits: so a small
partition gets one file, whatever the number of splits and topics.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt

from rmqcore.disk.inside.folder import Folder
from rmqcore.offline.export.parquet_parts import RowChunk, known_days
from rmqcore.offline.export.parquet_writer import Compression, parquet_writer
from rmqcore.offline.export.part_files import Partition
from rmqcore.offline.log.damage import DamageRange, damage_of_fields
from rmqcore.spark.jobs.job_source import to_send
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.output.finished import MANIFEST, file_size, finish_once, read_finished
from rmqcore.spark.reading.read_split import read_split
from rmqcore.spark.rows.columns import Column
from rmqcore.spark.splits.split import Split
from rmqcore.spark.splits.split_report import SplitReport
from rmqcore.vocabulary.units import DAY_MS

if TYPE_CHECKING:
    import pyarrow as pa

DAY_US = DAY_MS * 1000
ROWS = "rows.arrow"
CHUNK_BYTES = 48 * 1024 * 1024
"""Bytes of rows that a task gathers before it divides them among partitions; memory holds about twice as many."""
SAMPLE_BYTES = 1024 * 1024
"""Bytes of rows that a task compresses to measure how much smaller Parquet is."""


@dataclass(frozen=True, slots=True)
class Run:
    """Rows of one partition that lie together in the file of a split.

    Attributes
    ----------
    topic : str
    day : int
        Days since 1970-01-01 in UTC; -1 for a time outside of the calendar.
    pos, byte_count : int
        Place in the file.
    """

    topic: str
    day: int
    pos: int
    byte_count: int

    @property
    def partition(self) -> Partition:
        """Topic and day."""
        return self.topic, self.day


@dataclass(frozen=True)
class SplitRows:
    """The rows that a task has divided.

    Attributes
    ----------
    rows, stored_bytes, file_bytes : int
        Number of messages, bytes of their records in the store, and bytes of the file.
    runs : list of Run
        In the order of the file.
    ratio : float
        How many times smaller Parquet made a sample of the rows.
    damage : list of dict
        Damaged ranges of the split, as `to_send` returns them.
    start_phy_offset, end_phy_offset, read_to, is_skipped
        As `SplitReport`.
    """

    rows: int
    stored_bytes: int
    file_bytes: int
    runs: list[Run]
    ratio: float
    damage: list[dict[str, Any]]
    start_phy_offset: int | None
    end_phy_offset: int
    read_to: int | None
    is_skipped: bool

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Read the manifest of a finished split; return None if the folder or one of its files is missing.

        Raises
        ------
        LinkError, StoreFormatError
            The folder or one of its files is a link, or the manifest names a file outside.
        """
        found = read_finished(folder)
        try:
            rows = cls(**{**found, "runs": [Run(*run) for run in found["runs"]]}) if found else None
        except (TypeError, KeyError):
            return None
        return rows if rows and file_size(folder, ROWS) == rows.file_bytes else None

    @property
    def ranges(self) -> list[DamageRange]:
        """The damaged ranges."""
        return [damage_of_fields(fields) for fields in self.damage]

    @property
    def report(self) -> SplitReport:
        """The task's report of its split."""
        return SplitReport(
            self.start_phy_offset,
            self.end_phy_offset,
            self.rows,
            self.stored_bytes,
            tuple(self.ranges),
            self.read_to,
            self.is_skipped,
        )


@dataclass(frozen=True)
class ExportTask:
    """A split, and how it is written.

    Attributes
    ----------
    split : Split
    columns : tuple of Column
        ``topic`` and ``store_timestamp`` must be among them: they decide the partition.
    options : SourceOptions
    compression : {"zstd", "snappy", "none"}
    job_folder : str
        The folder that the driver has made.
    name : str
        The name of the split's folder in it.
    """

    split: Split
    columns: tuple[Column, ...]
    options: SourceOptions
    compression: Compression
    job_folder: str
    name: str


def export_split(task: ExportTask) -> SplitRows:
    """Divide the rows of a split, and rename the folder to the split's name when it is complete."""
    return finish_once(
        Path(task.job_folder), task.name, lambda folder: _write(task, folder), SplitRows.read
    )


def _write(task: ExportTask, attempt: Folder) -> SplitRows:
    reports: list[SplitReport] = []
    rows = stored_bytes = 0
    opened = attempt.open_file(ROWS, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with os.fdopen(opened.fileno(), "wb", closefd=False) as file:
        divided = _Divided(file, task.compression)
        for batch in read_split(task.split, task.columns, task.options, reports=reports):
            rows += batch.num_rows
            stored_bytes += _sum(batch, "msg_size")
            divided.add(batch)
            del batch  # the next one may be large, too
        divided.end()
    opened.close()
    (report,) = reports
    written = SplitRows(
        rows,
        stored_bytes,
        divided.pos,
        divided.runs,
        divided.ratio,
        [found.as_dict() for found in to_send(report.damage)],
        report.start_phy_offset,
        report.end_phy_offset,
        report.read_to,
        report.is_skipped,
    )
    fields = asdict(written) | {"runs": [list(asdict(run).values()) for run in written.runs]}
    attempt.write(MANIFEST, json.dumps(fields, default=str).encode())
    return written


class _Divided:
    """Writes rows to a file, those of a partition together as far as memory allows."""

    def __init__(self, file: BinaryIO, compression: Compression) -> None:
        self._file = file
        self._compression = compression
        self._chunk = RowChunk(days_of_us, CHUNK_BYTES)
        self.pos = 0
        self.runs: list[Run] = []
        self.ratio = 0.0

    def add(self, batch: pa.RecordBatch) -> None:
        if self._chunk.lacks_room(batch):
            self.end()
        is_full = self._chunk.add(batch)
        del batch
        if is_full:
            self.end()

    def end(self) -> None:
        """Write what waits."""
        for (topic, day), rows in self._chunk.take():
            if not self.ratio:
                self.ratio = self._measured(rows)
            message = rows.serialize()
            self._file.write(message)
            self.runs.append(Run(topic, day, self.pos, message.size))
            self.pos += message.size

    def _measured(self, rows: pa.RecordBatch) -> float:
        import pyarrow as pa

        count = max(1, rows.num_rows * SAMPLE_BYTES // max(SAMPLE_BYTES, rows.nbytes))
        sample = pa.Table.from_batches([rows.slice(0, count)])
        sink = BytesIO()
        with parquet_writer(sink, sample.schema, self._compression) as writer:
            writer.write_table(sample)
        return float(sample.nbytes / sink.tell())


def days_of_us(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Return the days of the rows by ``store_timestamp``."""
    import pyarrow as pa

    times = batch.column("store_timestamp").cast(pa.int64()).fill_null(-1)
    return known_days(times.to_numpy() // DAY_US)


def _sum(batch: pa.RecordBatch, name: str) -> int:
    if name not in batch.schema.names:
        return 0
    return int(batch.column(name).to_numpy().sum(dtype=np.int64))
