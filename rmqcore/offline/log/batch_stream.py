"""Batches of columns as an Arrow stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rmqcore._native.scan.batch import Batch, ColumnList, stream_capsule
from rmqcore.shown.html_tables import values_html


class BatchStream:
    """Batches of a scan, read as they are asked for.

    Takes part in the Arrow PyCapsule protocol: ``pyarrow.RecordBatchReader.from_stream(s)``, ``pyarrow.table(s)``,
    ``polars.DataFrame(s)`` and DuckDB take it as it is. Iterating gives `Batch` objects. Each use reads anew from the
    beginning.

    Attributes
    ----------
    column_names : tuple of str

    Notes
    -----
    Thread safety: each iterator or stream belongs to one thread at a time; batches may be used anywhere.
    """

    def __init__(self, columns: ColumnList, batches: Callable[[], Iterator[Batch]]) -> None:
        self._columns = columns
        self._batches = batches

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return self._columns.names

    def __iter__(self) -> Iterator[Batch]:
        return self._batches()

    def __repr__(self) -> str:
        return f"<BatchStream of {', '.join(self.column_names)}>"

    def _repr_html_(self) -> str:
        return values_html("BatchStream", {"columns": self.column_names})

    def __arrow_c_schema__(self) -> object:
        return self._columns.schema_capsule()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        # The protocol allows the own schema whatever is requested; the consumer casts.
        return stream_capsule(self._batches(), self._columns)
