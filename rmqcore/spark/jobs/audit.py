"""Audit of whole stores: the place, lengths and CRC of every record, and the gaps between records."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqcore._native.scan.scan import ColumnScan
from rmqcore.errors.exit_codes import DAMAGED, OK
from rmqcore.offline.log.damage import DamageRange
from rmqcore.shown.report import Report
from rmqcore.spark.jobs.job_source import JobSource, to_send, with_gaps
from rmqcore.spark.reading.settle import settle
from rmqcore.spark.reading.split_scan import SplitScan
from rmqcore.spark.runtime.tasks import run_tasks
from rmqcore.spark.splits.split import Split
from rmqcore.spark.splits.split_report import (
    Reported,
    SplitReport,
    by_file,
    fits_together,
    in_order,
    left_over,
)
from rmqcore.spark.storage.locations import Paths

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH_ROWS = 65_536
DAMAGE_SCHEMA = (
    "broker string, start_phy_offset bigint, end_phy_offset bigint, kind string, path string, field string, "
    "expected string, found string"
)


@dataclass(frozen=True)
class AuditReport(Report):
    """Findings of an audit.

    Attributes
    ----------
    stores : list of str
        Where the stores lie.
    files, splits : int
        Number of CommitLog files, and of the splits in which they were read.
    rewalked_files : int
        Number of files that were walked from their beginning because their splits did not fit together.
    records, record_bytes : int
        Number of well-formed records, including those that fail their CRC, and their bytes.
    log_bytes : int
        Bytes of the files.
    damage : list of (str, DamageRange)
        Broker and damaged range, by store and offset; see `StoreReader.damage`. A split contributes at most 1,000
        ranges and one `MoreDamage` for all others; ``table=corrupt`` has every range as a row.
    seconds : float
        Wall time.
    """

    stores: list[str]
    files: int
    splits: int
    rewalked_files: int
    records: int
    record_bytes: int
    log_bytes: int
    damage: list[tuple[str, DamageRange]]
    seconds: float

    @property
    def damaged_bytes(self) -> int:
        """Bytes in the damaged ranges."""
        return sum(found.byte_count for _, found in self.damage)

    @property
    def exit_code(self) -> int:
        """0, or 2 when a store is damaged."""
        return DAMAGED if self.damage else OK

    def as_dict(self) -> dict[str, Any]:
        """The attributes as plain JSON values, with rates."""
        seconds = max(self.seconds, 1e-9)
        return {
            "stores": self.stores,
            "files": self.files,
            "splits": self.splits,
            "rewalked_files": self.rewalked_files,
            "records": self.records,
            "record_bytes": self.record_bytes,
            "log_bytes": self.log_bytes,
            "damage": [{"broker": broker, **found.as_dict()} for broker, found in self.damage],
            "damaged_bytes": self.damaged_bytes,
            "seconds": round(self.seconds, 3),
            "records_per_second": round(self.records / seconds),
            "bytes_per_second": round(self.record_bytes / seconds),
            "exit_code": self.exit_code,
        }


def audit(spark: SparkSession, path: Paths, **options: Any) -> DataFrame:
    """Return the damaged ranges of stores, one per row; `run_audit` returns totals too.

    The job runs at once. Columns: ``broker, start_phy_offset, end_phy_offset`` (exclusive), ``kind, path, field,
    expected, found``.
    """
    report = run_audit(spark, path, **options)
    rows = [damage_row(broker, found) for broker, found in report.damage]
    return spark.createDataFrame(rows, DAMAGE_SCHEMA)


def run_audit(spark: SparkSession, path: Paths, **options: Any) -> AuditReport:
    """Check every record of whole stores: lengths, place, CRC, and the chain from each to the next.

    Parameters
    ----------
    spark : SparkSession
    path : str, path-like or a list of them
        Stores; see `rmqcore.spark.storage.locations.find_stores`.
    **options
        Options of ``table=corrupt`` that choose what is read and how it is cut: ``maxPartitionBytes``, ``splitMode``,
        ...

    Raises
    ------
    ValueError
        A wrong option.
    NotAStoreError, FileNotFoundError
        A path does not lead to a store.
    StoreError
        A task failed: a file cannot be read.
    """
    began = time.monotonic()
    plans = JobSource.open(path, options, "corrupt", spark=spark).plans()
    splits = [split for plan in plans for split in plan.splits]
    # The driver sees both sides of every cut. So a task ends at its own end without a look at the boundary. A second
    # round reads the splits whose boundary does not hold, and the driver has a file walked from its beginning if the
    # two sides of a cut differ.
    first = _audited(spark, [replace(split, cuts=1, check_end=False) for split in splits])
    groups = list(by_file(first))
    left = [split for group in groups for split in left_over(group)]
    second = _audited(spark, left) if left else []
    parts = list(by_file(in_order(first, second)))
    doubtful = [_whole_file(group) for group in parts if not fits_together(group)]
    walked = iter(_audited(spark, doubtful) if doubtful else [])
    parts = [group if fits_together(group) else [next(walked)] for group in parts]
    reports = [(split.broker, report) for group in parts for split, report in group]
    found = ((broker, damage) for broker, report in reports for damage in report.damage)
    return AuditReport(
        stores=[plan.location.root for plan in plans],
        files=len(parts),
        splits=len(splits),
        rewalked_files=len(doubtful),
        records=sum(report.records for _, report in reports),
        record_bytes=sum(report.record_bytes for _, report in reports),
        log_bytes=sum(group[0][0].file.size for group in parts),
        damage=with_gaps(plans, found),
        seconds=time.monotonic() - began,
    )


def audit_split(split: Split) -> SplitReport:
    """Walk a split. The scan itself compares CRCs."""
    settled = settle(split)
    sink = ColumnScan(["msg_size"], stop_offset=settled.stop_offset(), batch_rows=BATCH_ROWS)
    scan = SplitScan(settled, sink)
    records = record_bytes = 0
    for batch in scan.run():
        records += batch.num_rows
        sizes = np.asarray(batch.buffer("msg_size")).view(np.int32)
        record_bytes += int(sizes.sum(dtype=np.int64))
    report = scan.report(records, record_bytes)
    return replace(report, damage=to_send(report.damage))


def _audited(spark: SparkSession, splits: Sequence[Split]) -> list[Reported]:
    return list(zip(splits, run_tasks(spark, audit_split, splits), strict=True))


def _whole_file(parts: Sequence[Reported]) -> Split:
    first, last = parts[0][0], parts[-1][0]
    return replace(first, start=first.file.file_from_offset, end=last.end, aligned=True, cuts=1)


def damage_row(broker: str, found: DamageRange) -> tuple[str, int, int, str, str, str, str, str]:
    """Return damage as a row of `DAMAGE_SCHEMA`."""
    return (
        broker,
        found.start_phy_offset,
        found.end_phy_offset,
        found.kind,
        found.path,
        found.field,
        str(found.expected),
        str(found.found),
    )
