"""The columns of frames: those of `StoreReader.batches`, and times as timestamps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqcore._native.scan.batch import COLUMNS, PUBLIC_COLUMNS, Batch, ColumnList
from rmqcore.errors.near_names import with_the_meant
from rmqcore.offline.log.batch_stream import BatchStream

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

TIMES = {"store_timestamp": "store_timestamp_ms", "born_timestamp": "born_timestamp_ms"}
"""Columns of frames that are points in time, and the columns of batches that they are made of."""
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999, which Python, SQL and every frame can show. Another time, of a damaged record, is null: Polars panics
where it prints one, and DuckDB ends the query."""

_TIME_OF = {ms: name for name, ms in TIMES.items()}
DEFAULT_COLUMNS = tuple(_TIME_OF.get(name, name) for name in PUBLIC_COLUMNS)


class FrameColumns:
    """The columns of a frame.

    Parameters
    ----------
    names : iterable of str, optional
        Columns of `StoreReader.batches`, and ``store_timestamp`` and ``born_timestamp``; None stands for all but ``raw``, with
        these two in the place of the times as numbers.

    Attributes
    ----------
    names : tuple of str
        In the order wanted.
    scanned : tuple of str
        The columns of batches that they are made of.

    Raises
    ------
    ValueError
        An unknown column, or one that is named twice.
    """

    def __init__(self, names: Iterable[str] | None = None) -> None:
        if isinstance(names, str):
            raise TypeError(f"columns: expected an iterable of names, got the str {names!r}")
        self.names = DEFAULT_COLUMNS if names is None else tuple(names)
        known = [*COLUMNS, *TIMES]
        unknown = [name for name in self.names if name not in known]
        if unknown:
            raise ValueError(
                f"columns: unknown column {with_the_meant(unknown, known)}; known are "
                f"{', '.join(known)}"
            )
        if len(set(self.names)) < len(self.names):
            raise ValueError("columns: a name is repeated")
        self.scanned = tuple(dict.fromkeys(TIMES.get(name, name) for name in self.names))
        self._list = ColumnList(self.scanned)

    @property
    def _empty(self) -> BatchStream:
        return BatchStream(self._list, lambda: iter(()))

    # ---- pyarrow ------------------------------------------------------------------------------------

    def arrow_schema(self) -> pa.Schema:
        """The types of the columns in Arrow; a time is ``timestamp[ms, tz=UTC]``."""
        import pyarrow as pa

        scanned = pa.schema(self._empty)
        return pa.schema(
            [
                pa.field(name, pa.timestamp("ms", "UTC")) if name in TIMES else scanned.field(name)
                for name in self.names
            ]
        )

    def arrow_batch(self, batch: Batch, schema: pa.Schema) -> pa.RecordBatch:
        """The columns as a record batch, over the memory of the batch."""
        import pyarrow as pa

        rows = pa.record_batch(batch)
        columns = [
            _arrow_times(rows.column(TIMES[name])) if name in TIMES else rows.column(name)
            for name in self.names
        ]
        if not columns:
            return rows
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    # ---- Polars -------------------------------------------------------------------------------------

    def polars_schema(self) -> pl.Schema:
        """The types of the columns in Polars; a time is ``Datetime("ms", "UTC")``."""
        import polars as pl

        return self.polars_frame(pl.DataFrame(self._empty)).schema

    def polars_frame(self, scanned: pl.DataFrame) -> pl.DataFrame:
        """The columns of a frame that has the scanned ones."""
        return scanned.select([_polars_column(name) for name in self.names])


def _arrow_times(ms: Any) -> Any:
    import pyarrow as pa

    kind = pa.timestamp("ms", "UTC")
    values = ms.to_numpy()
    if not len(values) or (values.min() >= FIRST_MS and values.max() <= LAST_MS):
        return ms.view(kind)  # the same memory
    bad = (values < FIRST_MS) | (values > LAST_MS)
    return pa.array(np.where(bad, 0, values), pa.int64(), mask=bad).view(kind)


def _polars_column(name: str) -> pl.Expr:
    import polars as pl

    if name not in TIMES:
        return pl.col(name)
    ms = pl.col(TIMES[name])
    in_years = pl.when(ms.is_between(FIRST_MS, LAST_MS)).then(ms)
    return in_years.cast(pl.Datetime("ms", "UTC")).alias(name)
