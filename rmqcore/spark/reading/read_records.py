"""Reading single records of a store, at known places, as the same Arrow batches as those of whole splits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from rmqcore._native.format.codec import MessageView
from rmqcore._native.scan import places, scan
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.offline.log.conditions import Conditions
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.log_files import LogFile
from rmqcore.offline.log.window import record_at
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.reading.row_sink import RowSink
from rmqcore.spark.rows.columns import Column
from rmqcore.spark.storage.locations import StoreLocation


def read_records(
    store: StoreLocation,
    phy_offsets: Iterable[int],
    columns: tuple[Column, ...],
    options: SourceOptions,
    conditions: Conditions,
) -> Iterator[Any]:
    """Yield the records at some places as ``pyarrow.RecordBatch``, without those that conditions or options exclude.

    Parameters
    ----------
    store : StoreLocation
    phy_offsets : iterable of int
        CommitLog offsets where records begin. A record that has been deleted since is left out.
    columns : tuple of Column
    options : SourceOptions
    conditions : Conditions
        They replace the conditions that the options state.
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
    sink = RowSink(broker, file.name, columns, options, conditions)
    for view in views:
        if _feed(sink.scan, file, view, sink.rows.failed_crcs) == scan.FULL:
            yield from sink.batches(sink.scan.take())
    if sink.scan.pending_rows:
        yield from sink.batches(sink.scan.take())


def _feed(
    sink: ColumnScan, file: LogFile, view: MessageView, failed_crcs: dict[int, DamageRange]
) -> int:
    """Feed a record to the scan as a walk would."""
    raw, at = view.raw, view.phy_offset
    place = sink.feed(raw, len(raw), 0, at, file.end_offset)
    if place.code == places.BODYCRC:
        failed_crcs[at] = DamageRange(
            at, at + len(raw), "crc", file.name, "BODYCRC", place.expected, place.found
        )
        place = sink.feed(raw, len(raw), 0, at, file.end_offset, trusted=at)
    return place.code
