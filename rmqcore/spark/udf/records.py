"""Raw records in an Arrow column, decoded into a struct column by the scan that reads stores."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rmqcore import codec
from rmqcore._native.scan import places, scan
from rmqcore._native.scan.value_columns import TRAILING
from rmqcore.errors import CorruptMessageError
from rmqcore.errors.near_names import with_the_meant
from rmqcore.spark.reading.arrow_rows import ArrowRows
from rmqcore.spark.rows.columns import TABLE_COLUMNS, Column
from rmqcore.spark.rows.schema import arrow_schema
from rmqcore.spark.udf.kernels import Mode, kernels, narrow, nulls

OF_A_STORE = ("broker", "resynced", "_file")
"""Columns that describe the store of a record: a raw record does not have them."""
COLUMNS = {
    column.name: column for column in TABLE_COLUMNS["messages"] if column.name not in OF_A_STORE
}
DEFAULT = tuple(name for name, column in COLUMNS.items() if not column.on_request)
BATCH_ROWS = 1 << 14
CHECKED = ("crc_ok", "corrupt_reason")
"""Columns that come from the check of each value, not from the scan."""


def chosen(columns: Iterable[str] | None) -> tuple[Column, ...]:
    """Return the fields of the struct.

    Raises
    ------
    ValueError
        A name is not a column of a raw record or is given twice, or no name is given.
    TypeError
        The names are given as a single text.
    """
    if isinstance(columns, str):
        raise TypeError(f"columns: expected an iterable of names, got the str {columns!r}")
    names = DEFAULT if columns is None else tuple(columns)
    unknown = [name for name in names if name not in COLUMNS]
    if unknown:
        raise ValueError(
            f"columns: a raw record has no {with_the_meant(unknown, COLUMNS)}; known are "
            f"{', '.join(COLUMNS)}"
        )
    if not names or len(set(names)) != len(names):
        raise ValueError("columns: expected at least one name, and each only once")
    return tuple(COLUMNS[name] for name in names)


class RecordDecoder:
    """Decodes columns of raw records; keeps the scan's memory from call to call.

    A value is sound when it is exactly one record. Any other value is malformed: its struct is null, or with the column
    ``corrupt_reason`` all fields of its struct but this one are null.

    Parameters
    ----------
    columns : tuple of Column
        The fields of the struct.
    mode : str
        FAILFAST: the first malformed value raises an error.
    verify_crc : bool
        Whether a record whose body fails its CRC is malformed too. If not, the record is decoded, its ``crc_ok`` is false and
        its ``corrupt_reason`` says why.

    Thread safety: one thread at a time.
    """

    def __init__(
        self,
        columns: tuple[Column, ...],
        *,
        mode: Mode = "PERMISSIVE",
        verify_crc: bool = False,
    ) -> None:
        self._schema = arrow_schema(columns)
        self._mode = mode
        self._verify_crc = verify_crc
        self._checks_crc = verify_crc or any(name in CHECKED for name in self._schema.names)
        stored = tuple(column for column in columns if column.name not in CHECKED)
        self._empty = (
            pa.RecordBatch.from_pylist([], schema=arrow_schema(stored)) if stored else None
        )
        self._rows = ArrowRows(stored, "", "", BATCH_ROWS)
        self._scan = scan.ColumnScan(self._rows.native, batch_rows=BATCH_ROWS, batch_bytes=1 << 30)

    def decode(self, array: pa.Array) -> pa.StructArray:
        """Return the struct of each value.

        Raises
        ------
        CorruptMessageError
            A value is malformed, in mode FAILFAST; the error names its row in the array, field, expected and found.
        """
        array = narrow(array)
        codes = np.empty(len(array), np.int32)
        kernels(array).check_records(codes.data, check_crc=self._checks_crc)
        null = nulls(array)
        present = np.ones(len(array), np.bool_) if null is None else ~null
        sound = present & (codes > TRAILING)
        decoded = sound if self._verify_crc else present & (sound | (codes == places.BODYCRC))
        if self._mode == "FAILFAST" and not np.array_equal(decoded, present):
            raise reason(array, int(np.argmax(present & ~decoded)))
        columns = self._columns(array, decoded)
        if "crc_ok" in self._schema.names:
            columns["crc_ok"] = pa.array(sound, mask=~decoded)
        shown = decoded
        if "corrupt_reason" in self._schema.names:
            columns["corrupt_reason"] = reasons(array, present & ~sound)
            shown = present
        return pa.StructArray.from_arrays(
            [columns[name] for name in self._schema.names],
            fields=list(self._schema),
            mask=None if shown.all() else pa.array(~shown),
        )

    def _columns(self, array: pa.Array, decoded: NDArray[np.bool_]) -> dict[str, pa.Array]:
        """Return the columns of the scan, with nulls in the rows that are not decoded."""
        if self._empty is None:
            return {}
        count = int(np.count_nonzero(decoded))
        records = array if count == len(array) else array.filter(pa.array(decoded))
        batches = list(self._scanned(records)) or [self._empty]
        if sum(batch.num_rows for batch in batches) != count:
            raise RuntimeError("the column changed while it was decoded")
        # `take` by these row numbers puts nulls between the decoded rows.
        rows = None if count == len(array) else pa.array(np.cumsum(decoded) - 1, mask=~decoded)
        columns = {}
        for name in self._empty.schema.names:
            parts = [batch.column(name) for batch in batches]
            column = pa.concat_arrays(parts) if len(parts) > 1 else parts[0]
            columns[name] = column if rows is None else column.take(rows)
        return columns

    def _scanned(self, records: pa.Array) -> Iterator[pa.RecordBatch]:
        """Scan values that are one record each. Like a CommitLog, and any Arrow array without nulls, they have no gaps."""
        if len(records) == 0:
            return
        _, offsets, data = records.buffers()
        ends = np.frombuffer(offsets, np.int32)
        pos, end = (int(ends[records.offset + row]) for row in (0, len(records)))
        code = scan.FULL
        while code == scan.FULL:
            place = self._scan.feed(data, end, pos, 0, end, check_place=False, check_crc=False)
            pos, code = place.pos, place.code
            yield from self._rows.batches(self._scan.take(), None)


_kept = threading.local()


def decode(
    raw: pa.Array, columns: tuple[Column, ...], mode: Mode, *, verify_crc: bool
) -> pa.StructArray:
    """Return the struct of each raw record, by a decoder that this thread keeps."""
    key = (columns, mode, verify_crc)
    decoders: dict[object, RecordDecoder] = _kept.__dict__.setdefault("decoders", {})
    if key not in decoders:
        decoders[key] = RecordDecoder(columns, mode=mode, verify_crc=verify_crc)
    return decoders[key].decode(raw)


def corrupt_reason(raw: pa.Array) -> pa.Array:
    """Return a text for each value that describes its fault; null for a record whose body matches its CRC."""
    return decode(raw, chosen(["corrupt_reason"]), "PERMISSIVE", verify_crc=False).field(0)


def reasons(array: pa.Array, rows: NDArray[np.bool_]) -> pa.Array:
    """Return the texts of `reason` in these rows, null in the others."""
    texts: list[str | None] = [None] * len(array)
    for row in np.flatnonzero(rows).tolist():
        error = reason(array, row)
        texts[row] = f"{error.field} is {error.found}, expected {error.expected}"
    return pa.array(texts, pa.string())


def reason(array: pa.Array, row: int) -> CorruptMessageError:
    """Return the error of a value that is not exactly one record whose body matches its CRC."""
    value = array[row].as_buffer()
    where = f"<row {row} of the batch>"
    try:
        codec.decode(value)
        size = codec.check(value)
    except CorruptMessageError as error:
        return CorruptMessageError(where, 0, error.field, error.expected, error.found)
    return CorruptMessageError(where, 0, "TOTALSIZE", f"the value's {len(value)} bytes", size)
