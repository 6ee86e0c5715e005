"""Single records of a store, read at known places, as the same Arrow batches that whole splits give."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from rmqcore._native import scan
from rmqcore._native.codec import MessageView
from rmqcore._native.scan import ColumnScan
from rmqcore.offline.damage import DamageRange
from rmqcore.offline.files import LogFile
from rmqcore.offline.window import record_at
from rmqcore.spark.arrow_rows import ArrowRows
from rmqcore.spark.bodies import PlainBodies
from rmqcore.spark.conditions import Conditions
from rmqcore.spark.locations import StoreLocation
from rmqcore.spark.options import SourceOptions
from rmqcore.spark.row_choice import RowChoice
from rmqcore.spark.table_columns import Column


def read_records(
    store: StoreLocation,
    phy_offsets: Iterable[int],
    columns: tuple[Column, ...],
    options: SourceOptions,
    conditions: Conditions,
) -> Iterator[Any]:
    """Give the records at some places as ``pyarrow.RecordBatch``, those for which the conditions and options hold.

    Parameters
    ----------
    store : StoreLocation
    phy_offsets : iterable of int
        Where records begin. One that is gone by now is left out.
    columns : tuple of Column
    options : SourceOptions
    conditions : Conditions
        In the place of those that the options state.
    """
    files = store.log_files()
    found = (
        (file, view)
        for phy_offset in sorted(set(phy_offsets))
        for file in files
        if file.file_from_offset <= phy_offset < file.end_offset
        and (view := record_at([file], phy_offset)) is not None
    )
    for file, pairs in groupby(found, key=lambda pair: pair[0]):
        yield from _of_file(
            store.broker, file, (view for _, view in pairs), columns, options, conditions
        )


def _of_file(
    broker: str,
    file: LogFile,
    views: Iterable[MessageView],
    columns: tuple[Column, ...],
    options: SourceOptions,
    conditions: Conditions,
) -> Iterator[Any]:
    choice = RowChoice(options, broker)
    bodies = None
    if options.decompress_body:
        bodies = PlainBodies(file.name, options.mode, options.batch_bytes)
    rows = ArrowRows(columns, broker, file.name, options.batch_rows, bodies)
    sink = ColumnScan(
        sorted({*rows.native, *choice.native}),
        filter=conditions.native(),
        batch_rows=options.batch_rows,
        batch_bytes=options.batch_bytes,
    )
    for view in views:
        if _feed(sink, file, view, rows.failed_crcs) == scan.FULL:
            batch = sink.take()
            yield from rows.batches(batch, choice.mask(batch, sink))
    if sink.pending_rows:
        batch = sink.take()
        yield from rows.batches(batch, choice.mask(batch, sink))


def _feed(
    sink: ColumnScan, file: LogFile, view: MessageView, failed_crcs: dict[int, DamageRange]
) -> int:
    """Give a record to the scan as a walk would."""
    raw, at = view.raw, view.phy_offset
    _, code, found, expected = sink.feed(raw, len(raw), 0, at, file.end_offset)
    if code == scan.BODYCRC:
        failed_crcs[at] = DamageRange(
            at, at + len(raw), "crc", file.name, "BODYCRC", expected, found
        )
        _, code, _, _ = sink.feed(raw, len(raw), 0, at, file.end_offset, trusted=at)
    return code
