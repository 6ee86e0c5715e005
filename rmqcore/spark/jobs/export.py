"""Export of whole stores to Parquet; the workers write the files, so no row is sent to Spark."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from rmqcore.offline.export.parquet_writer import Compression
from rmqcore.offline.log.damage import DamageRange
from rmqcore.spark.jobs.export_task import ExportTask, SplitParts, export_split
from rmqcore.spark.jobs.job_source import JobSource, with_gaps
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.output.export_folder import ExportFolder
from rmqcore.spark.rows.columns import Column
from rmqcore.spark.rows.read_split import check_damage
from rmqcore.spark.rows.schema import columns_of
from rmqcore.spark.runtime.tasks import run_tasks
from rmqcore.spark.splits.planning import SplitPlan
from rmqcore.spark.splits.split import Split
from rmqcore.spark.splits.split_report import check_chain
from rmqcore.spark.storage.locations import Paths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONED_BY = ("topic", "store_timestamp")
_VERSION = 1


@dataclass(frozen=True)
class ExportReport:
    """What an export wrote, and what it could not.

    Attributes
    ----------
    stores : list of str
        Where the stores lie.
    out : str
    rows, stored_bytes : int
        Messages written, and the bytes of their records in the store (0 without the column ``msg_size``).
    files, file_bytes, partitions : int
        The number of part files, their bytes, and the number of folders that they are in.
    splits, kept_splits : int
        The number of tasks, and how many of them an interrupted export of the same had finished.
    damage : list of (str, DamageRange)
        Damaged ranges of the stores, with the broker.
    seconds : float
        Wall time.
    """

    stores: list[str]
    out: str
    rows: int
    stored_bytes: int
    files: int
    file_bytes: int
    partitions: int
    splits: int
    kept_splits: int
    damage: list[tuple[str, DamageRange]]
    seconds: float

    @property
    def exit_code(self) -> int:
        """0, or 2 when a store is damaged."""
        return 2 if self.damage else 0

    def as_dict(self) -> dict[str, Any]:
        """The attributes as plain JSON values, with a rate."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        damage = [{"broker": broker, **found.as_dict()} for broker, found in self.damage]
        rate = round(self.rows / max(self.seconds, 1e-9))
        return {
            **fields,
            "damage": damage,
            "seconds": round(self.seconds, 3),
            "rows_per_second": rate,
            "exit_code": self.exit_code,
        }


def export_parquet(
    spark: SparkSession,
    path: Paths,
    out: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    compression: Compression = "zstd",
    body: Literal["none"] | None = None,
    **options: Any,
) -> ExportReport:
    """Write the messages of stores into ``out/topic=NAME/day=YYYY-MM-DD/part-NNNNN.parquet``.

    ``spark.read.parquet(out)`` reads it back: the columns of ``table=messages``, and ``day`` (UTC, of the store time). No file
    appears under these names before all are written, then ``_SUCCESS`` and ``_manifest.json``. A killed export leaves the splits
    that it had finished below ``out/_temporary``; an export of the same stores with the same options goes on with them.

    Parameters
    ----------
    spark : SparkSession
    path : str, path-like or a list of them
        Stores.
    out : str or path-like
        A new or empty folder that driver and workers share, or with `overwrite` the folder of an earlier export.
    overwrite : bool
    compression : {"zstd", "snappy", "none"}
    body : "none", optional
        Leave bodies out.
    **options
        Options of ``table=messages``: ``topics``, ``startingTimestamp``, ``columns``, ``maxPartitionBytes``, ... Each split
        writes a file for each of its topics and days: with many topics larger splits make fewer files.

    Raises
    ------
    TargetNotEmptyError
        `out` is not empty and `overwrite` is off.
    ValueError
        A wrong option, a `body` or `compression` that Parquet does not have, columns without topic or store_timestamp.
    NotAStoreError, FileNotFoundError
        A path that is no store.
    SplitError
        The splits that were read do not fit together. Nothing is in `out` then.
    StoreError
        A task failed: a file cannot be read or written, the disk is full.
    """
    began = time.monotonic()
    source = JobSource.open(path, options)
    columns = _columns(source.options, body)
    if compression not in get_args(Compression):
        raise ValueError(
            f"compression {compression!r}: expected one of {', '.join(get_args(Compression))}"
        )
    plans = source.plans()
    splits = [split for plan in plans for split in plan.splits]
    names = [_split_name(split) for split in splits]
    with ExportFolder(
        out,
        _job_name(source.options, columns, compression),
        stores=source.stores,
        overwrite=overwrite,
    ) as folder:
        kept = {
            name: parts
            for split, name in zip(splits, names, strict=True)
            if not _may_grow(split) and (parts := SplitParts.read(folder.job_folder / name))
        }
        tasks = [
            ExportTask(split, columns, source.options, compression, str(folder.job_folder), name)
            for split, name in zip(splits, names, strict=True)
            if name not in kept
        ]
        # A task takes a folder with its split's name for the work of a faster attempt of the same job.
        folder.make_room(task.name for task in tasks)
        done = {task.name: parts for task, parts in zip(tasks, run_tasks(spark, export_split, tasks), strict=True)}  # fmt: skip
        written = [(kept | done)[name] for name in names]
        check_chain(splits, [parts.report for parts in written])
        places = _places(names, written)
        report = ExportReport(
            stores=[plan.location.root for plan in plans],
            out=str(folder.out),
            rows=sum(parts.rows for parts in written),
            stored_bytes=sum(parts.stored_bytes for parts in written),
            files=len(places),
            file_bytes=sum(parts.file_bytes for parts in written),
            partitions=len({place.rpartition("/")[0] for _, place in places}),
            splits=len(splits),
            kept_splits=len(kept),
            damage=_damage(plans, splits, written, source.options),
            seconds=time.monotonic() - began,
        )
        folder.commit(places, {"version": _VERSION, **_lasting(report)})
    return replace(report, seconds=time.monotonic() - began)


def _columns(options: SourceOptions, body: str | None) -> tuple[Column, ...]:
    if body not in (None, "none"):
        raise ValueError(f"body {body!r}: Parquet holds bodies as they are stored, or none")
    columns = columns_of(options)
    names = {column.name for column in columns}
    lacking = [name for name in PARTITIONED_BY if name not in names]
    if lacking:
        raise ValueError(
            f"columns lack {' and '.join(lacking)}, by which the export is partitioned"
        )
    return tuple(column for column in columns if body is None or column.name != "body")


def _job_name(options: SourceOptions, columns: Sequence[Column], compression: str) -> str:
    """Name the job by its options, columns and compression; the stores are in the names of the splits."""
    # `storage` is not in the repr: its secrets do not change the export.
    said = [repr(options), repr(columns), compression, str(_VERSION)]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:16]


def _split_name(split: Split) -> str:
    """Name a split by its file and range; the name changes when the file is changed."""
    file = split.file
    try:
        changed = os.stat(file.path).st_mtime_ns
    except OSError:  # the file is on another filesystem, or deleted
        changed = 0
    said = [
        split.broker, file.location, file.size, changed, split.start, split.end, split.aligned, split.max_record_size,
        split.shape.file_size, _may_grow(split), split.cuts, split.last_end, split.walk_to_start,
    ]  # fmt: skip
    return "split-" + hashlib.sha256(repr(said).encode()).hexdigest()[:24]


def _may_grow(split: Split) -> bool:
    """Whether the file is the newest, to which a broker may have added since."""
    return split.file.file_from_offset >= split.shape.tail_from


def _places(names: Sequence[str], written: Sequence[SplitParts]) -> list[tuple[str, str]]:
    """Give each file's path in the job's folder and its place, numbered in the order of the log."""
    parts = [
        (f"{name}/{part}", folder)
        for name, of_split in zip(names, written, strict=True)
        for part, folder in of_split.places
    ]
    return [
        (part, f"{folder}/part-{number:05}.parquet") for number, (part, folder) in enumerate(parts)
    ]


def _damage(
    plans: Sequence[SplitPlan],
    splits: Sequence[Split],
    written: Sequence[SplitParts],
    options: SourceOptions,
) -> list[tuple[str, DamageRange]]:
    for plan in plans:
        for gap in plan.gaps:
            check_damage(gap, plan.location.broker, options)
    found = (
        (split.broker, damage)
        for split, parts in zip(splits, written, strict=True)
        for damage in parts.ranges
    )
    return with_gaps(plans, found)


def _lasting(report: ExportReport) -> dict[str, Any]:
    """Give the fields for the manifest, which are the same in every run of the same export."""
    fields = report.as_dict()
    for name in ("seconds", "rows_per_second", "kept_splits", "out", "exit_code"):
        del fields[name]
    return fields
