"""One split of a store read as Arrow batches for Spark: what runs in a task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rmqcore._native.scan import Batch, ColumnScan
from rmqcore.errors import CorruptMessageError, DataLossError
from rmqcore.offline.damage import DamageRange
from rmqcore.spark.arrow_rows import ArrowRows
from rmqcore.spark.bodies import PlainBodies
from rmqcore.spark.conditions import Conditions
from rmqcore.spark.options import SourceOptions
from rmqcore.spark.row_choice import RowChoice
from rmqcore.spark.split_scan import SplitScan, stop_offset
from rmqcore.spark.splits import Split
from rmqcore.spark.table_columns import Column


def read_split(
    split: Split,
    columns: tuple[Column, ...],
    options: SourceOptions,
    conditions: Conditions | None = None,
    damage: list[DamageRange] | None = None,
) -> Iterator[Any]:
    """Give the messages of a split as ``pyarrow.RecordBatch``.

    Parameters
    ----------
    split : Split
    columns : tuple of Column
        What the batches have, in this order; see `rmqcore.spark.schema`.
    options : SourceOptions
    conditions : Conditions, optional
        Beside those of the options: filters of Spark, the range of a stream's batch.
    damage : list of DamageRange, optional
        Gets the split's damage at the end.

    Raises
    ------
    CorruptMessageError
        Damage, in mode FAILFAST; a failing CRC, with verifyCrc=fail.
    DataLossError
        The file was deleted since the split was planned, with failOnDataLoss.
    SplitError
        The next split begins elsewhere than this one ends.
    """
    wanted = Conditions.of(options, split.broker)
    if conditions is not None:
        wanted = wanted.and_also(conditions)
    choice = RowChoice(options, split.broker)
    bodies = None
    if options.decompress_body:
        bodies = PlainBodies(split.file.name, options.mode, options.batch_bytes)
    rows = ArrowRows(columns, split.broker, split.file.name, options.batch_rows, bodies)
    sink = ColumnScan(
        sorted({*rows.native, *choice.native}),
        filter=wanted.native(),
        stop_offset=stop_offset(split, wanted.end_phy_offset),
        batch_rows=options.batch_rows,
        batch_bytes=options.batch_bytes,
    )
    scan: SplitScan[Batch] = SplitScan(split, sink, verify_crc=options.mode == "DROPMALFORMED")
    rows.resynced = scan.resynced
    seen = 0
    for batch in scan.run():
        seen = _note_damage(scan, seen, wanted, options, rows)
        yield from rows.batches(batch, choice.mask(batch, sink))
    _note_damage(scan, seen, wanted, options, rows)
    if damage is not None:
        damage += scan.damage


def _note_damage(
    scan: SplitScan[Batch], seen: int, wanted: Conditions, options: SourceOptions, rows: ArrowRows
) -> int:
    """Look at damage that is new; answer how much of it was looked at."""
    for found in scan.damage[seen:]:
        if wanted.overlaps(found):
            check_damage(found, scan.split.broker, options)
        if found.kind == "crc":
            rows.failed_crcs[found.start_phy_offset] = found
    return len(scan.damage)


def check_damage(found: DamageRange, broker: str, options: SourceOptions) -> None:
    """Raise where the options say that damage fails a query.

    A torn tail is what any unclean exit leaves, and what an owner in the middle of a write shows: it fails none.
    """
    if found.kind == "missing_file" and options.fail_on_data_loss and found.found != "missing":
        raise DataLossError(broker, found.start_phy_offset, None, f"{found.path} was deleted")
    fails_crc = found.kind == "crc" and options.verify_crc == "fail"
    if fails_crc or (options.mode == "FAILFAST" and found.kind != "torn_tail"):
        raise CorruptMessageError(
            f"{broker}: {found.path}",
            found.start_phy_offset,
            found.field,
            found.expected,
            found.found,
        )
