"""Reading a split of a store as Arrow batches for Spark, as a task does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rmqcore._native.scan.batch import Batch
from rmqcore.errors import CorruptMessageError, DataLossError
from rmqcore.offline.log.conditions import Conditions
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.missing_log import LOG_MISSING
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.output.damage_folder import note_damage
from rmqcore.spark.reading.arrow_rows import ArrowRows
from rmqcore.spark.reading.row_sink import RowSink
from rmqcore.spark.reading.settle import settle
from rmqcore.spark.reading.split_scan import SplitScan
from rmqcore.spark.rows.columns import Column
from rmqcore.spark.rows.conditions import conditions_of
from rmqcore.spark.splits.split import Split
from rmqcore.spark.splits.split_report import SplitReport

LOSSES = ("missing_file", LOG_MISSING)
"""Kinds of damage that the option failOnDataLoss makes errors."""


def read_split(
    split: Split,
    columns: tuple[Column, ...],
    options: SourceOptions,
    conditions: Conditions | None = None,
    reports: list[SplitReport] | None = None,
) -> Iterator[Any]:
    """Yield the messages of a split as ``pyarrow.RecordBatch``.

    Parameters
    ----------
    split : Split
    columns : tuple of Column
        The columns of the batches, in this order; see `rmqcore.spark.rows.schema`.
    options : SourceOptions
    conditions : Conditions, optional
        Conditions beside those of the options: filters of Spark, the range of a stream's batch.
    reports : list of SplitReport, optional
        The function appends the split's report at the end; it does not count records that conditions leave out.

    Raises
    ------
    CorruptMessageError
        The mode is FAILFAST and the split is damaged, or verifyCrc=fail and a body fails its CRC.
    DataLossError
        The file was deleted since the split was planned, and failOnDataLoss is on.
    SplitError
        The next split begins elsewhere than this one ends.
    """
    wanted = conditions_of(options, split.broker)
    if conditions is not None:
        wanted = wanted.and_also(conditions)
    settled = settle(split)
    sink = RowSink(
        split.broker,
        split.file.name,
        columns,
        options,
        wanted,
        settled.stop_offset(wanted.end_phy_offset),
    )
    drops = options.mode == "DROPMALFORMED"
    scan: SplitScan[Batch] = SplitScan(settled, sink.scan, verify_crc=drops)
    rows = sink.rows
    rows.resynced = scan.resynced
    seen = records = record_bytes = 0
    for batch in scan.run():
        seen = _note_damage(scan, seen, wanted, options, rows)
        records += len(batch)
        record_bytes += batch.nbytes
        yield from sink.batches(batch)
    # All of it once more: at the file's end the scan may have replaced the damage it met by the damage known to the
    # plan.
    _note_damage(scan, 0, wanted, options, rows)
    if options.damage_folder is not None:
        met = (found for found in scan.damage if wanted.overlaps(found))
        note_damage(options.damage_folder, split.broker, met)
    if reports is not None:
        reports.append(scan.report(records, record_bytes))


def _note_damage(
    scan: SplitScan[Batch], seen: int, wanted: Conditions, options: SourceOptions, rows: ArrowRows
) -> int:
    """Check the damage from number `seen` on; return the number of damaged ranges checked so far."""
    for found in scan.damage[seen:]:
        if wanted.overlaps(found):
            check_damage(found, scan.split.broker, options)
        if found.kind == "crc":
            rows.failed_crcs[found.start_phy_offset] = found
    return len(scan.damage)


def check_damage(found: DamageRange, broker: str, options: SourceOptions) -> None:
    """Raise if the options make a query fail for this damage.

    A torn tail never fails a query: an unclean exit leaves one, and so does a broker in the middle of a write.
    """
    if found.kind == LOG_MISSING and options.fail_on_data_loss:
        raise DataLossError(
            broker,
            found.start_phy_offset,
            None,
            f"{found.field} is {found.found}, expected {found.expected}",
        )
    if found.kind == "missing_file" and options.fail_on_data_loss:
        between = found.found == "missing"
        raise DataLossError(
            broker,
            found.start_phy_offset,
            found.end_phy_offset if between else None,
            f"{found.expected} is missing between others"
            if between
            else f"{found.path} was deleted or cut",
        )
    fails_crc = found.kind == "crc" and options.verify_crc == "fail"
    if fails_crc or (options.mode == "FAILFAST" and found.kind != "torn_tail"):
        raise CorruptMessageError(
            f"{broker}: {found.path}",
            found.start_phy_offset,
            found.field,
            found.expected,
            found.found,
        )
