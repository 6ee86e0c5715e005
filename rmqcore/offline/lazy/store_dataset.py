"""A store as a data set of pyarrow, as far as DuckDB asks for one: columns and filters reach the scan."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from rmqcore.offline.frames.columns import FrameColumns
from rmqcore.offline.lazy.arrow_filter import conditions_of
from rmqcore.offline.lazy.process_end import SCANS
from rmqcore.offline.lazy.store_rows import StoreRows
from rmqcore.offline.log.conditions import Conditions


class StoreDataset(ds.InMemoryDataset):  # type: ignore[misc] # pyarrow has no types
    """A data set of which DuckDB asks the schema, and a scanner for each query.

    DuckDB knows by pyarrow's class that columns and filters can be handed down. All that it does not ask for is that of a data
    set without rows.

    Parameters
    ----------
    rows : StoreRows
    columns : FrameColumns
    """

    def __init__(self, rows: StoreRows, columns: FrameColumns) -> None:
        super().__init__([], schema=columns.arrow_schema())
        self._rows = rows

    def scanner(
        self,
        columns: list[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        **_options: Any,
    ) -> StoreScanner:
        """Return a scanner of some columns of the rows that pass a filter."""
        names = self.schema.names if columns is None else columns
        return StoreScanner(self._rows, self.schema, names, filter)


class StoreScanner:
    """One read of a store.

    Parameters
    ----------
    rows : StoreRows
    schema : pyarrow.Schema
        All columns that there are.
    names : list of str
        Those that are wanted.
    given : pyarrow.compute.Expression, optional
        A filter, over any column.
    """

    def __init__(
        self, rows: StoreRows, schema: pa.Schema, names: list[str], given: pc.Expression | None
    ) -> None:
        self._rows = rows
        self._given = given
        self._schema = schema
        self.projected_schema = pa.schema([schema.field(name) for name in names])

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows, batch by batch, as they are asked for."""
        return pa.RecordBatchReader.from_batches(
            self.projected_schema, SCANS.watched(self._batches())
        )

    def _batches(self) -> Generator[pa.RecordBatch]:
        names = self.projected_schema.names
        # A filter does not say which columns it is over, but it prints their names.
        text = str(self._given)
        needed = FrameColumns(name for name in self._schema.names if name in names or name in text)
        schema = needed.arrow_schema()
        narrowed = Conditions() if self._given is None else conditions_of(self._given, schema)
        for batch in self._rows.batches(needed.scanned, narrowed):
            rows = pa.Table.from_batches([needed.arrow_batch(batch, schema)])
            if self._given is not None:
                rows = rows.filter(self._given)
            yield from rows.select(names).to_batches()
