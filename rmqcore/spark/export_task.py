"""One split written as Parquet: what a task of an export does, and how a finished one is known again.

A task writes into a folder of its own attempt and gives it the split's name when all is there, manifest included. So what
bears that name is whole, whoever was killed and however many attempts there were.
"""

from __future__ import annotations

import json
import shutil
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from rmqcore.errors import StoreError
from rmqcore.offline.damage import DamageRange
from rmqcore.offline.parquet_parts import Compression, ParquetParts, known_days
from rmqcore.spark.options import SourceOptions
from rmqcore.spark.reading import read_split
from rmqcore.spark.splits import Split
from rmqcore.spark.table_columns import Column

if TYPE_CHECKING:
    import pyarrow as pa

DAY_US = 86_400_000_000
MANIFEST = "manifest.json"
CHUNK_BYTES = 48 * 1024 * 1024
"""What a task gathers before it gives each partition its rows; what is then too little for a row group is written twice.

A worker took four times that and 230 MiB at its peak, 420 in all; with 96 MiB it was 590, and no faster.
"""


@dataclass(frozen=True)
class SplitParts:
    """What a task has written.

    Attributes
    ----------
    rows, stored_bytes, file_bytes : int
        Messages, bytes of their records in the store, and bytes of the Parquet files.
    places : list of (str, str)
        Name of each file in the split's folder, and the partition that it is for.
    damage : list of dict
        Damaged ranges of the split.
    """

    rows: int
    stored_bytes: int
    file_bytes: int
    places: list[tuple[str, str]]
    damage: list[dict[str, Any]]

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """What a finished split's folder holds; None where there is none, or a file of it is gone."""
        try:
            found = json.loads((folder / MANIFEST).read_bytes())
            parts = cls(**{**found, "places": [tuple(place) for place in found["places"]]})
            size = sum((folder / name).stat().st_size for name, _ in parts.places)
        except (FileNotFoundError, TypeError, ValueError, KeyError):
            return None
        return parts if size == parts.file_bytes else None

    @property
    def ranges(self) -> list[DamageRange]:
        """The damaged ranges."""
        return [DamageRange(**one) for one in self.damage]


@dataclass(frozen=True)
class ExportTask:
    """A split and what to write of it.

    Attributes
    ----------
    split : Split
    columns : tuple of Column
        ``topic`` and ``store_timestamp`` among them: they say the partition.
    options : SourceOptions
    compression : {"zstd", "snappy", "none"}
    job_folder : str
        Made by the driver.
    name : str
        Of the split's folder in there.
    """

    split: Split
    columns: tuple[Column, ...]
    options: SourceOptions
    compression: Compression
    job_folder: str
    name: str


def export_split(task: ExportTask) -> SplitParts:
    """Write a split, and let its folder take its name."""
    job = Path(task.job_folder)
    if not job.is_dir():
        raise StoreError(
            f"{job} is not here: the job has ended, or it is no folder that driver and workers share"
        )
    attempt = job / f"attempt-{uuid.uuid4().hex}"
    attempt.mkdir()
    try:
        parts = _write(task, attempt)
        finished = job / task.name
        try:
            attempt.rename(finished)
        except OSError:  # not empty: another attempt of this split was faster
            other = SplitParts.read(finished)
            if other is None:
                raise
            return other
    finally:
        shutil.rmtree(attempt, ignore_errors=True)
    return parts


def _write(task: ExportTask, folder: Path) -> SplitParts:
    damage: list[DamageRange] = []
    rows = stored_bytes = 0
    parts = ParquetParts(folder, task.compression, days_of_us, chunk_bytes=CHUNK_BYTES)
    for batch in read_split(task.split, task.columns, task.options, damage=damage):
        parts.write(batch)
        rows += batch.num_rows
        stored_bytes += _sum(batch, "msg_size")
    parts.close()
    shutil.rmtree(folder / "spill", ignore_errors=True)
    written = SplitParts(
        rows,
        stored_bytes,
        sum(path.stat().st_size for path, _ in parts.names.places),
        [(path.name, place.rpartition("/")[0]) for path, place in parts.names.places],
        [found.as_dict() for found in damage],
    )
    (folder / MANIFEST).write_text(json.dumps(asdict(written), default=str))
    return written


def days_of_us(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Days of the rows by ``store_timestamp``."""
    import pyarrow as pa

    times = batch.column("store_timestamp").cast(pa.int64()).fill_null(-1)
    return known_days(times.to_numpy() // DAY_US)


def _sum(batch: pa.RecordBatch, name: str) -> int:
    if name not in batch.schema.names:
        return 0
    return int(batch.column(name).to_numpy().sum(dtype=np.int64))
