"""The columns that a raw record alone can give, with their types, and how the scan's columns become them."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

TIME = pa.timestamp("us", tz="UTC")
MAP = pa.map_(pa.string(), pa.string())
TYPES: dict[str, pa.DataType] = {
    "topic": pa.string(),
    "queue_id": pa.int32(),
    "queue_offset": pa.int64(),
    "phy_offset": pa.int64(),
    "msg_size": pa.int32(),
    "store_timestamp": TIME,
    "born_timestamp": TIME,
    "tags": pa.string(),
    "keys": pa.string(),
    "uniq_key": pa.string(),
    "body": pa.binary(),
    "properties": MAP,
    "sys_flag": pa.int32(),
    "flag": pa.int32(),
    "body_crc": pa.int32(),
    "reconsume_times": pa.int32(),
    "prepared_transaction_offset": pa.int64(),
    "store_host": pa.string(),
    "born_host": pa.string(),
    "msg_id": pa.string(),
    "tags_code": pa.int64(),
    "magic": pa.int32(),
    "raw": pa.binary(),
    "crc_ok": pa.bool_(),
    "corrupt_reason": pa.string(),
}
DEFAULT = tuple(TYPES)[: tuple(TYPES).index("msg_id")]
DDL = {
    pa.string(): "string",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.binary(): "binary",
    pa.bool_(): "boolean",
    TIME: "timestamp",
    MAP: "map<string,string>",
}
MOST_MS = (2**63 - 1) // 1000


def struct_of(names: Iterable[str]) -> pa.StructType:
    """The Arrow struct of these columns."""
    return pa.struct([pa.field(name, TYPES[name]) for name in names])


def struct_ddl(names: Iterable[str]) -> str:
    """The same in Spark's words."""
    return f"struct<{','.join(f'{name}:{DDL[TYPES[name]]}' for name in names)}>"


def scan_columns(names: Iterable[str]) -> list[str]:
    """What the scan calls them."""
    return [f"{name}_ms" if TYPES[name] == TIME else name for name in names]


def spark_array(name: str, batch: pa.RecordBatch) -> pa.Array:
    """The column of a scan's batch in its Spark type."""
    if TYPES[name] == TIME:
        ms = batch.column(f"{name}_ms")
        fits = pc.and_(pc.less_equal(ms, MOST_MS), pc.greater_equal(ms, -MOST_MS))
        ms = pc.if_else(fits, ms, pa.scalar(None, pa.int64()))
        return pc.multiply(ms, 1000).cast(TIME)
    array = batch.column(name)
    if name == "keys":
        some = pc.greater(pc.list_value_length(array), 0)
        return pc.if_else(some, pc.binary_join(array, " "), pa.scalar(None, pa.string()))
    return array.cast(TYPES[name])
