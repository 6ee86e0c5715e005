"""Comparison of the CommitLogs of two stores, for example a master's and its slave's."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rmqcore.errors.exit_codes import DAMAGED, OK
from rmqcore.offline.diff.difference import Difference, differences, lacking
from rmqcore.offline.diff.pieces import differing_pieces, differing_units
from rmqcore.offline.diff.plan import Side, bytes_tasks, open_ended, units_tasks
from rmqcore.offline.diff.units import content_end
from rmqcore.shown.report import Report
from rmqcore.spark.jobs.job_source import JobSource
from rmqcore.spark.runtime.tasks import run_tasks
from rmqcore.spark.storage.locations import StoreLocation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "start_phy_offset bigint, end_phy_offset bigint, kind string, left_path string, right_path string"


@dataclass(frozen=True)
class CompareReport(Report):
    """How two stores differ.

    Attributes
    ----------
    left, right : str
        Where the stores lie.
    compared_bytes : int
        Number of bytes at offsets that both stores have.
    differences : list of Difference
        Sorted by offset.
    seconds : float
        Wall time.
    """

    left: str
    right: str
    compared_bytes: int
    differences: list[Difference]
    seconds: float

    @property
    def exit_code(self) -> int:
        """0, or 2 when the stores differ."""
        return DAMAGED if self.differences else OK

    def as_dict(self) -> dict[str, Any]:
        """The attributes as plain JSON values, with a rate."""
        return {
            "left": self.left,
            "right": self.right,
            "compared_bytes": self.compared_bytes,
            "differences": [difference.as_dict() for difference in self.differences],
            "seconds": round(self.seconds, 3),
            "bytes_per_second": round(self.compared_bytes / max(self.seconds, 1e-9)),
            "exit_code": self.exit_code,
        }


def compare(
    spark: SparkSession,
    left: str | os.PathLike[str],
    right: str | os.PathLike[str],
    **options: Any,
) -> DataFrame:
    """Return the ranges in which two stores differ, one per row; see `run_compare`.

    The job runs at once. The columns are those of `Difference`; equal stores yield no row.
    """
    report = run_compare(spark, left, right, **options)
    rows = [tuple(difference.as_dict().values()) for difference in report.differences]
    return spark.createDataFrame(rows, SCHEMA)


def run_compare(
    spark: SparkSession,
    left: str | os.PathLike[str],
    right: str | os.PathLike[str],
    **options: Any,
) -> CompareReport:
    """Compare the CommitLogs of two stores, byte by byte at the same offsets.

    A range that differs consists of whole records, or damaged ranges, on both sides. The bytes behind a BLANK's header and the
    room behind the log's end are not compared. Files may be of different sizes, and a store may begin or end before the
    other.

    Parameters
    ----------
    spark : SparkSession
    left, right : str or path-like
        Each names a single store.
    **options
        ``maxPartitionBytes`` and ``storage.*``.

    Raises
    ------
    ValueError
        A wrong option, or a path that stands for several stores.
    NotAStoreError, FileNotFoundError
        A path does not lead to a store.
    StoreError
        A task failed.
    """
    began = time.monotonic()
    stores = [_one_store(path, options) for path in (left, right)]
    most_bytes = JobSource.open(left, options, "corrupt").options.max_partition_bytes
    sides = _sides(spark, stores)
    tasks = bytes_tasks(*sides, most_bytes)
    pieces = zip(tasks, run_tasks(spark, differing_pieces, tasks), strict=True)
    doubtful = units_tasks(*sides, [(task, found) for task, found in pieces if found])
    found = [
        found_range for part in run_tasks(spark, differing_units, doubtful) for found_range in part
    ]
    return CompareReport(
        left=stores[0].root,
        right=stores[1].root,
        compared_bytes=sum(task.end - task.start for task in tasks),
        differences=differences([*found, *lacking(sides)], sides),
        seconds=time.monotonic() - began,
    )


def _one_store(path: str | os.PathLike[str], options: dict[str, Any]) -> StoreLocation:
    stores = JobSource.open(path, options, "corrupt").stores
    if len(stores) != 1:
        names = ", ".join(store.broker for store in stores)
        raise ValueError(
            f"{os.fspath(path)} matches {len(stores)} stores ({names}): name one of them"
        )
    return stores[0]


def _sides(spark: SparkSession, stores: list[StoreLocation]) -> tuple[Side, Side]:
    """Return the files of both stores, and the ends of their logs, found by a walk over the newest file of each."""
    files = [store.log_files() for store in stores]
    walked = [open_ended(of_store) for of_store in files]
    found = iter(run_tasks(spark, content_end, [tail for of_store in walked for tail in of_store]))
    left, right = (
        Side.of(of_store, {file.file_from_offset: next(found) for file, _ in of_walked})
        for of_store, of_walked in zip(files, walked, strict=True)
    )
    return left, right
