"""A task of an export: it writes a split as Parquet, and a later run recognizes the finished split.

A task writes into a folder of its own attempt and gives that folder the split's name when all files are there, the manifest
too. So a folder with that name is complete, even if tasks were killed or several attempts ran.
"""

from __future__ import annotations

import json
import stat
import uuid
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from rmqcore.disk.inside.folder import Folder
from rmqcore.errors import StoreError
from rmqcore.offline.export.parquet_parts import ParquetParts, known_days
from rmqcore.offline.export.parquet_writer import Compression
from rmqcore.offline.log.damage import DamageRange, damage_of_fields
from rmqcore.spark.jobs.job_source import to_send
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.rows.columns import Column
from rmqcore.spark.rows.read_split import read_split
from rmqcore.spark.splits.split import Split
from rmqcore.spark.splits.split_report import SplitReport

if TYPE_CHECKING:
    import pyarrow as pa

DAY_US = 86_400_000_000
MANIFEST = "manifest.json"
CHUNK_BYTES = 48 * 1024 * 1024
"""Bytes of rows that a task gathers before it divides them among partitions; too few for a row group, rows are written twice.

A worker took four times that and 230 MiB at its peak, 420 MiB in all; with 96 MiB it took 590 MiB, and was no faster.
"""


@dataclass(frozen=True)
class SplitParts:
    """The files that a task has written.

    Attributes
    ----------
    rows, stored_bytes, file_bytes : int
        The number of messages, bytes of their records in the store, and bytes of the Parquet files.
    places : list of (str, str)
        The name of each file in the split's folder, and its partition.
    damage : list of dict
        Damaged ranges of the split, as `to_send` gives them.
    start_phy_offset, end_phy_offset, read_to, is_skipped
        As `SplitReport`.
    """

    rows: int
    stored_bytes: int
    file_bytes: int
    places: list[tuple[str, str]]
    damage: list[dict[str, Any]]
    start_phy_offset: int | None
    end_phy_offset: int
    read_to: int | None
    is_skipped: bool

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Read the manifest of a finished split; None when there is no such folder, or one of its files is missing.

        Raises
        ------
        LinkError, StoreFormatError
            The folder or one of its files is a link, or the manifest names a file outside.
        """
        try:
            split = Folder(folder.parent).folder(folder.name)
            found = json.loads(split.read(MANIFEST))
            parts = cls(**{**found, "places": [tuple(place) for place in found["places"]]})
            size = sum(_file_size(split, name) for name, _ in parts.places)
        except (FileNotFoundError, TypeError, ValueError, KeyError):
            return None
        return parts if size == parts.file_bytes else None

    @property
    def ranges(self) -> list[DamageRange]:
        """The damaged ranges."""
        return [damage_of_fields(fields) for fields in self.damage]

    @property
    def report(self) -> SplitReport:
        """What the task said of its split."""
        return SplitReport(
            self.start_phy_offset, self.end_phy_offset, self.rows, self.stored_bytes, tuple(self.ranges), self.read_to,
            self.is_skipped,
        )  # fmt: skip


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


def export_split(task: ExportTask) -> SplitParts:
    """Write a split, and give the folder the split's name when it is complete."""
    job = Path(task.job_folder)
    if not job.is_dir():
        raise StoreError(
            f"{job} is not here: the job has ended, or it is no folder that driver and workers share"
        )
    attempt = f"attempt-{uuid.uuid4().hex}"
    with Folder(job) as inside:
        inside.make(attempt)
        try:
            parts = _write(task, inside.folder(attempt))
            try:
                inside.move(attempt, task.name)
            except OSError:  # not empty: another attempt of this split was faster
                faster = SplitParts.read(job / task.name)
                if faster is None:
                    raise
                return faster
        finally:
            with suppress(OSError, StoreError):  # the end of the job removes it
                inside.remove(attempt)
    return parts


def _write(task: ExportTask, attempt: Folder) -> SplitParts:
    reports: list[SplitReport] = []
    rows = stored_bytes = 0
    parts = ParquetParts(attempt.path, task.compression, days_of_us, chunk_bytes=CHUNK_BYTES)
    for batch in read_split(task.split, task.columns, task.options, reports=reports):
        parts.write(batch)
        rows += batch.num_rows
        stored_bytes += _sum(batch, "msg_size")
    parts.close()
    attempt.remove("spill")
    (report,) = reports
    written = SplitParts(
        rows,
        stored_bytes,
        sum(path.stat().st_size for path, _ in parts.names.places),
        [(path.name, place.rpartition("/")[0]) for path, place in parts.names.places],
        [found.as_dict() for found in to_send(report.damage)],
        report.start_phy_offset,
        report.end_phy_offset,
        report.read_to,
        report.is_skipped,
    )
    attempt.write(MANIFEST, json.dumps(asdict(written), default=str).encode())
    return written


def _file_size(folder: Folder, name: str) -> int:
    status = folder.status(str(name))
    if status is None or not stat.S_ISREG(status.st_mode):
        raise FileNotFoundError(name)
    return status.st_size


def days_of_us(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Give the days of the rows by ``store_timestamp``."""
    import pyarrow as pa

    times = batch.column("store_timestamp").cast(pa.int64()).fill_null(-1)
    return known_days(times.to_numpy() // DAY_US)


def _sum(batch: pa.RecordBatch, name: str) -> int:
    if name not in batch.schema.names:
        return 0
    return int(batch.column(name).to_numpy().sum(dtype=np.int64))
