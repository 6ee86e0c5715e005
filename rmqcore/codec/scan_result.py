"""Results of scanning a buffer, for `rmqcore.codec`: one batch of columns, or several batches in turn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from rmqcore._native.scan import places as _places
from rmqcore._native.scan import scan as _scan
from rmqcore._native.scan.batch import Batch, stream_capsule
from rmqcore.errors import CorruptMessageError


class ScanResult:
    """The records of a buffer as columns, and the end of the scan.

    Supports the Arrow PyCapsule protocol: ``pyarrow.record_batch(result)``, ``polars.DataFrame(result)``.

    Attributes
    ----------
    batch : Batch
    num_rows : int
    end_pos : int
        Position in the buffer behind the last record.
    stop_reason : str
        ``"end"`` of the buffer, ``"blank"``, ``"zero"`` (only zeros follow) or ``"error"``.
    error : CorruptMessageError or None
        Error at `end_pos`; a record that the end of the buffer cuts is an error too.
    """

    def __init__(
        self, batch: Batch, end_pos: int, stop_reason: str, error: CorruptMessageError | None
    ) -> None:
        self.batch = batch
        self.end_pos = end_pos
        self.stop_reason = stop_reason
        self.error = error

    @property
    def num_rows(self) -> int:
        """Records in the batch."""
        return self.batch.num_rows

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return self.batch.column_names

    def __len__(self) -> int:
        return self.batch.num_rows

    def __arrow_c_schema__(self) -> object:
        return self.batch.__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self.batch.__arrow_c_array__(requested_schema)

    def __repr__(self) -> str:
        return f"<ScanResult of {self.num_rows} rows, {self.stop_reason} at {self.end_pos}>"


class ScanBatches:
    """The records of a buffer as batches of columns, made one after the other, and the end of the scan.

    An iterator of `Batch`, and a stream of the Arrow PyCapsule protocol
    (``pyarrow.RecordBatchReader.from_stream(batches)``, ``polars.DataFrame(batches)``), which yields the batches not
    returned yet. The next batch reuses the memory of a batch without references. The buffer is held until the last
    batch, `close`, or the end of a ``with`` block.

    Attributes
    ----------
    column_names : tuple of str
    end_pos : int
        Position in the buffer behind the last record so far.
    stop_reason : str or None
        None while more batches may follow, then as in `ScanResult`.
    error : CorruptMessageError or None
        Error at `end_pos`, after the scan has ended there.

    Notes
    -----
    Thread safety: one thread at a time; batches may be used anywhere.
    """

    def __init__(
        self, view: memoryview, sink: _scan.ColumnScan, base_offset: int, *, verify_crc: bool
    ) -> None:
        self.end_pos = 0
        self.stop_reason: str | None = None
        self.error: CorruptMessageError | None = None
        self._columns = sink.columns
        self._view = view
        self._closed = False
        self._rows = self._read(sink, base_offset, verify_crc=verify_crc)

    def _read(
        self, sink: _scan.ColumnScan, base_offset: int, *, verify_crc: bool
    ) -> Iterator[Batch]:
        view, length = self._view, len(self._view)
        while self.stop_reason is None and not self._closed:
            stop = sink.feed(
                view,
                length,
                self.end_pos,
                base_offset,
                base_offset + length,
                check_place=False,
                check_crc=verify_crc,
            )
            self.end_pos = stop.pos
            if stop.code != _scan.FULL:
                self.stop_reason, self.error = end_of_scan(stop, length, base_offset)
                self.close()
            if sink.pending_rows:
                yield sink.take()

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return self._columns.names

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        return next(self._rows)

    def close(self) -> None:
        """Release the buffer; batches stay valid, and no more follow."""
        self._closed = True
        self._view.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __arrow_c_schema__(self) -> object:
        return self._columns.schema_capsule()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        # The interface allows a stream to keep its own schema if another is requested: the consumer casts.
        return stream_capsule(self, self._columns)

    def __repr__(self) -> str:
        return f"<ScanBatches, {self.stop_reason or 'under way'} at {self.end_pos}>"


def end_of_scan(
    stop: _places.Place, length: int, base_offset: int
) -> tuple[str, CorruptMessageError | None]:
    """Return why a scan of a buffer of `length` bytes ended, as `ScanResult` names it, and the error there."""
    code = stop.code
    if code in (_places.SHORT_FILE, _scan.FULL, _scan.END) and stop.pos == length:
        return "end", None
    if code in (_places.BLANK, _places.BLANKSIZE):  # the buffer need not end where the file does
        return "blank", None
    if code == _places.ZERO:
        return "zero", None
    return "error", CorruptMessageError("<buffer>", base_offset + stop.pos, *stop.describe())
