"""Raw records in an Arrow column, decoded into a struct column by the scan that reads stores."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rmqcore import codec
from rmqcore._native import scan
from rmqcore._native.value_columns import TRAILING
from rmqcore.errors import CorruptMessageError
from rmqcore.spark.udf_arrow import Mode, kernels, narrow, nulls
from rmqcore.spark.udf_columns import DEFAULT, TYPES, scan_columns, spark_array, struct_of

BATCH_ROWS = 1 << 14
CHECKED = ("crc_ok", "corrupt_reason")
"""Columns that the check of each value gives, not the scan."""


class RecordDecoder:
    """Decodes columns of raw records; keeps the scan's memory from call to call.

    A value is sound when it is exactly one record. One that is none, or holds more or less, is malformed: its struct is null,
    or, with the column ``corrupt_reason``, all its fields but that one.

    Parameters
    ----------
    struct : pyarrow.StructType
        The columns wanted, with their Spark types.
    mode : str
        FAILFAST: the first malformed value raises.
    verify_crc : bool
        A record whose body fails its CRC is malformed too. Without it the record is decoded, ``crc_ok`` is false and
        ``corrupt_reason`` says so.

    Thread safety: one thread at a time.
    """

    def __init__(
        self, struct: pa.StructType, *, mode: Mode = "PERMISSIVE", verify_crc: bool = False
    ) -> None:
        self._struct = struct
        self._mode = mode
        self._verify_crc = verify_crc
        self._names = [field.name for field in struct]
        self._checks_crc = verify_crc or any(name in CHECKED for name in self._names)
        self._scan = None
        self._stored = [name for name in self._names if name not in CHECKED]
        if self._stored:
            columns = scan_columns(self._stored)
            self._scan = scan.ColumnScan(columns, batch_rows=BATCH_ROWS, batch_bytes=1 << 30)

    def decode(self, array: pa.Array) -> pa.StructArray:
        """The struct of each value.

        Raises
        ------
        CorruptMessageError
            In mode FAILFAST: a malformed value, with its row in the array, field, expected and found.
        """
        array = narrow(array)
        codes = np.empty(len(array), np.int32)
        kernels(array).check_records(codes.data, check_crc=self._checks_crc)
        null = nulls(array)
        present = np.ones(len(array), np.bool_) if null is None else ~null
        sound = present & (codes > TRAILING)
        decoded = sound if self._verify_crc else present & (sound | (codes == scan.BODYCRC))
        if self._mode == "FAILFAST" and not np.array_equal(decoded, present):
            raise reason(array, int(np.argmax(present & ~decoded)))
        columns = self._columns(array, decoded)
        if "crc_ok" in self._names:
            columns["crc_ok"] = pa.array(sound, mask=~decoded)
        shown = decoded
        if "corrupt_reason" in self._names:
            columns["corrupt_reason"] = reasons(array, present & ~sound)
            shown = present
        return pa.StructArray.from_arrays(
            [columns[name] for name in self._names],
            fields=list(self._struct),
            mask=None if shown.all() else pa.array(~shown),
        )

    def _columns(self, array: pa.Array, decoded: NDArray[np.bool_]) -> dict[str, pa.Array]:
        """What the scan gives, null in the rows that are not decoded."""
        if self._scan is None:
            return {}
        count = int(np.count_nonzero(decoded))
        whole = count == len(array)
        records = array if whole else array.filter(pa.array(decoded))
        batches = list(_scanned(self._scan, records))
        if sum(batch.num_rows for batch in batches) != count:
            raise RuntimeError("the column changed while it was decoded")
        rows = None if whole else pa.array(np.cumsum(decoded) - 1, mask=~decoded)
        columns = {}
        for name in self._stored:
            parts = [spark_array(name, batch) for batch in batches]
            column = pa.concat_arrays(parts) if len(parts) > 1 else parts[0]
            columns[name] = column if rows is None else column.take(rows)
        return columns


_kept = threading.local()


def decode(raw: pa.Array, names: tuple[str, ...], mode: Mode, *, verify_crc: bool) -> pa.Array:
    """The struct of each raw record, by a decoder that this thread keeps."""
    key = (names, mode, verify_crc)
    decoders: dict[object, RecordDecoder] = _kept.__dict__.setdefault("decoders", {})
    if key not in decoders:
        decoders[key] = RecordDecoder(struct_of(names), mode=mode, verify_crc=verify_crc)
    return decoders[key].decode(raw)


def corrupt_reason(raw: pa.Array) -> pa.Array:
    """What is wrong with each value, null for one record whose body has its CRC."""
    return decode(raw, ("corrupt_reason",), "PERMISSIVE", verify_crc=False).field(0)


def check_columns(columns: Iterable[str] | None) -> tuple[str, ...]:
    """The fields of the struct.

    Raises
    ------
    ValueError
        A name that is no column of a raw record, one given twice, or none at all.
    """
    if columns is None:
        return DEFAULT
    if isinstance(columns, str):
        raise TypeError(f"columns: expected an iterable of names, got the str {columns!r}")
    names = tuple(columns)
    unknown = [name for name in names if name not in TYPES]
    if unknown:
        raise ValueError(
            f"columns: a raw record has no {', '.join(map(repr, unknown))}; there are {', '.join(TYPES)}"
        )
    if not names or len(set(names)) != len(names):
        raise ValueError("columns: at least one name, and each once")
    return names


def _scanned(sink: scan.ColumnScan, records: pa.Array) -> Iterator[pa.RecordBatch]:
    """Batches of values that are one record each and lie one behind the other, as Arrow lays out an array without nulls."""
    _, offsets, data = records.buffers()
    if len(records) == 0:
        yield pa.record_batch(sink.take())
        return
    ends = np.frombuffer(offsets, np.int32)
    pos, end = (int(ends[records.offset + row]) for row in (0, len(records)))
    code = scan.FULL
    while code == scan.FULL:
        pos, code, _, _ = sink.feed(data, end, pos, 0, end, check_place=False, check_crc=False)
        yield pa.record_batch(sink.take())


def reasons(array: pa.Array, rows: NDArray[np.bool_]) -> pa.Array:
    """The texts of `reason` in these rows, null in the others."""
    texts: list[str | None] = [None] * len(array)
    for row in np.flatnonzero(rows).tolist():
        error = reason(array, row)
        texts[row] = f"{error.field} is {error.found}, expected {error.expected}"
    return pa.array(texts, pa.string())


def reason(array: pa.Array, row: int) -> CorruptMessageError:
    """Why a value is not exactly one record whose body has its CRC."""
    value = array[row].as_buffer()
    where = f"<row {row} of the batch>"
    try:
        codec.decode(value)
        size = codec.check(value)
    except CorruptMessageError as error:
        return CorruptMessageError(where, 0, error.field, error.expected, error.found)
    return CorruptMessageError(where, 0, "TOTALSIZE", f"the value's {len(value)} bytes", size)
