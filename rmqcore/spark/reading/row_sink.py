"""The native scan together with the parts that turn its batches into rows for Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.offline.log.conditions import Conditions
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.reading.arrow_rows import ArrowRows
from rmqcore.spark.reading.bodies import PlainBodies
from rmqcore.spark.reading.row_choice import RowChoice
from rmqcore.spark.rows.columns import Column


class RowSink:
    """Scans records of a file and returns the rows that conditions and options choose.

    Parameters
    ----------
    broker, file : str
        The names of store and file.
    columns : tuple of Column
    options : SourceOptions
    conditions : Conditions
    stop_offset : int, optional
        CommitLog offset at which the scan stops.

    Attributes
    ----------
    scan : ColumnScan
    rows : ArrowRows
    """

    def __init__(
        self,
        broker: str,
        file: str,
        columns: tuple[Column, ...],
        options: SourceOptions,
        conditions: Conditions,
        stop_offset: int | None = None,
    ) -> None:
        self._choice = RowChoice(options, broker)
        bodies = None
        if options.decompress_body:
            bodies = PlainBodies(file, options.mode, options.batch_bytes)
        self.rows = ArrowRows(columns, broker, file, options.batch_rows, bodies)
        self.scan = ColumnScan(
            sorted({*self.rows.native, *self._choice.native}),
            filter=conditions.native(),
            stop_offset=stop_offset,
            batch_rows=options.batch_rows,
            batch_bytes=options.batch_bytes,
        )

    def batches(self, batch: Batch) -> Iterator[Any]:
        """Return the chosen rows of a batch of the scan as ``pyarrow.RecordBatch``."""
        return self.rows.batches(batch, self._choice.mask(batch, self.scan))
