"""Spark's rows as Arrow batches: PySpark before 4.1 passes only rows to the writer of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

BATCH_ROWS = 10_000
_TYPES = {
    "string": pa.string(),
    "binary": pa.binary(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "array<string>": pa.list_(pa.string()),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}
"""Columns of other types are not written."""


def batches_of(rows: Iterator[Sequence[Any]], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yield the rows batch by batch, with the columns that a message may have."""
    kinds = [(field.name, field.dataType.simpleString()) for field in schema.fields]
    while taken := list(islice(rows, BATCH_ROWS)):
        arrays = {
            name: _array(values, kind)
            for (name, kind), values in zip(kinds, zip(*taken, strict=True), strict=True)
            if kind in _TYPES
        }
        yield pa.record_batch(arrays)


def _array(values: Sequence[Any], kind: str) -> pa.Array:
    if kind == "timestamp":  # Spark's rows hold times of the worker's zone, without naming it
        values = [None if value is None else value.astimezone(UTC) for value in values]
    if kind.startswith("map"):
        values = [None if value is None else list(value.items()) for value in values]
    return pa.array(values, _TYPES[kind])
