"""The columns of a read, from its options or a user's schema, and the schemas of Spark and Arrow for them.

Spark compares the Arrow batches of a source with its schema exactly: order, widths, nullable, 32-bit lengths
(and before 4.2 fails without a message when they differ). So this module makes both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from rmqcore.errors.near_names import did_you_mean
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.rows.columns import TABLE_COLUMNS, Column, ColumnType

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def columns_of(options: SourceOptions) -> tuple[Column, ...]:
    """Return the columns of a read without a schema, in order.

    Raises
    ------
    ValueError
        The option ``columns`` names a column that the table lacks, or a column twice.
    """
    known = known_columns(options)
    if options.columns is None:
        return tuple(
            column
            for column in known.values()
            if not column.on_request or (column.name == "crc_ok" and options.verify_crc == "column")
        )
    return _chosen(options, options.columns)


def known_columns(options: SourceOptions) -> dict[str, Column]:
    """Return all columns of the table by name."""
    found = {column.name: column for column in TABLE_COLUMNS[options.table]}
    if options.table == "messages" and options.properties == "string":
        found["properties"] = replace(
            found["properties"], type="string", doc="All properties, as stored."
        )
    elif options.table == "messages" and options.properties == "none":
        del found["properties"]
    return found


def columns_of_schema(schema: StructType, options: SourceOptions) -> tuple[Column, ...]:
    """Return the columns of a user's schema.

    Raises
    ------
    ValueError
        The schema has a column that the table lacks, a column of another type, or a column that may not be null; or the option
        ``columns`` names other columns. The message lists everything that is wrong.
    """
    names = [field.name for field in schema.fields]
    chosen = _chosen(options, names)
    if options.columns is not None and list(options.columns) != names:
        raise ValueError(
            f"the schema names columns {', '.join(names)}, the option columns names "
            f"{', '.join(options.columns)}: use one of them"
        )
    wrong = [
        f"column {column.name} is {column.type}, but the schema has {found}"
        for column, field in zip(chosen, schema.fields, strict=True)
        if (found := field.dataType.simpleString()) != column.type
    ]
    wrong += [
        f"column {field.name} is NOT NULL in the schema, but every column of this source is "
        "nullable"
        for field in schema.fields
        if not field.nullable
    ]
    if wrong:
        raise ValueError("; ".join(wrong))
    return chosen


def _chosen(options: SourceOptions, names: Iterable[str]) -> tuple[Column, ...]:
    known = known_columns(options)
    chosen = list(names)
    for name in chosen:
        if name not in known:
            raise ValueError(_unknown(name, known, options))
        if chosen.count(name) > 1:
            raise ValueError(f"column {name} is repeated")
    if not chosen:
        raise ValueError(
            f"the list of columns is empty; table {options.table} has {', '.join(known)}"
        )
    return tuple(known[name] for name in chosen)


def _unknown(name: str, known: dict[str, Column], options: SourceOptions) -> str:
    if name == "properties" and options.table == "messages":
        return "column properties was requested, but the option properties is none"
    meant = did_you_mean(name, known, otherwise=f"; it has {', '.join(known)}")
    return f"table {options.table} has no column {name}{meant}"


def spark_schema(columns: Iterable[Column]) -> StructType:
    """Return the schema as Spark's StructType; it needs no session."""
    from pyspark.sql import types

    by_name: dict[str, Any] = {
        "string": types.StringType(),
        "int": types.IntegerType(),
        "bigint": types.LongType(),
        "timestamp": types.TimestampType(),
        "binary": types.BinaryType(),
        "boolean": types.BooleanType(),
        "map<string,string>": types.MapType(types.StringType(), types.StringType()),
    }
    return types.StructType(
        [types.StructField(column.name, by_name[column.type]) for column in columns]
    )


def arrow_schema(columns: Iterable[Column]) -> Any:
    """Return the schema of the Arrow batches that Spark accepts for `spark_schema`."""
    import pyarrow as pa

    by_name = {
        "string": pa.string(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "binary": pa.binary(),
        "boolean": pa.bool_(),
        "map<string,string>": pa.map_(pa.string(), pa.string()),
    }
    return pa.schema([(column.name, by_name[column.type]) for column in columns])


def columns_named(named: Iterable[Sequence[str]]) -> tuple[Column, ...]:
    """Return columns with only a name and a type, as an exported table has them."""
    return tuple(Column(name, cast("ColumnType", of_type), "") for name, of_type in named)
