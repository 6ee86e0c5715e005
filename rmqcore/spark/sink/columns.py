"""The columns of a frame for the fields of a message, checked by the frame's schema before any task runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqcore.errors.near_names import did_you_mean
from rmqcore.spark.options.sink_options import SinkOptions
from rmqcore.spark.rows.columns import MESSAGES

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_TIMES = ("timestamp", "timestamp_ntz", "bigint")
FIELDS: dict[str, tuple[str, ...]] = {
    "topic": ("string",),
    "body": ("binary", "string"),
    "queue_id": _INTEGERS,
    "tags": ("string",),
    "keys": ("string", "array<string>"),
    "uniq_key": ("string",),
    "properties": ("map<string,string>",),
    "born_timestamp": _TIMES,
    "born_host": ("string",),
    "store_host": ("string",),
    "flag": _INTEGERS,
    "sys_flag": _INTEGERS,
    "reconsume_times": _INTEGERS,
    "prepared_transaction_offset": _INTEGERS,
}
"""Field of a message -> the Spark types that its column may have."""
NOT_WRITTEN = {column.name for column in MESSAGES} - set(FIELDS) | {"day", "topic_dir"}
"""Columns of the table ``messages`` and of an export with the place of a message: the new store sets these anew."""


@dataclass(frozen=True)
class WriteColumns:
    """The columns of a frame that are written.

    Attributes
    ----------
    named : dict
        Field of a message -> name of the frame's column.
    hash_column : str or None
        The column that decides the queue.
    """

    named: dict[str, str]
    hash_column: str | None = None


def write_columns(schema: StructType, options: SinkOptions) -> WriteColumns:
    """Find the fields of a message among a frame's columns.

    Raises
    ------
    ValueError
        A column is missing, unknown or given twice; the message names it.
    TypeError
        A column has another type; the message names column, expected and found.
    """
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if len({name.lower() for name in types}) != len(schema.fields):
        raise ValueError(f"two columns have the same name: {', '.join(schema.fieldNames())}")
    find = _finder(types)
    named = {}
    for wanted, column in options.columns.items():
        if wanted not in FIELDS:
            raise ValueError(f"option column.{wanted}: expected one of {', '.join(FIELDS)}")
        named[wanted] = find(column, f"option column.{wanted}")
    by_option = set(named.values())
    for column in types:
        if column in by_option:
            continue
        if column.lower() in FIELDS and column.lower() not in named:
            named[column.lower()] = column
    if options.topic is not None:
        named.pop("topic", None)
    for optional in set(named) - {"topic", "body"}:
        if types[named[optional]] == "void":  # only nulls
            del named[optional]
    hash_column = (
        find(options.hash_column, "hashColumn") if options.queue_selector == "hash" else None
    )
    _refuse_unknown(types, {*named.values(), hash_column, *by_option})
    _check(types, named, options)
    if hash_column is not None:
        _check_type(hash_column, types[hash_column], ("string", *_INTEGERS))
    return WriteColumns(named, hash_column)


def _finder(types: dict[str, str]) -> Callable[[str, str], str]:
    by_lower = {name.lower(): name for name in types}

    def find(column: str, why: str) -> str:
        if column.lower() not in by_lower:
            raise ValueError(f"{why}: unknown column {column}; known are {', '.join(types)}")
        return by_lower[column.lower()]

    return find


def _refuse_unknown(types: dict[str, str], used: set[str | None]) -> None:
    for column in types:
        if column in used or column.lower() in NOT_WRITTEN or column.lower() in FIELDS:
            continue
        meant = did_you_mean(column, FIELDS, otherwise=".")
        raise ValueError(
            f"column {column} is not a field of a message{meant} Drop it, or map it to a field "
            f"with the option column.FIELD={column}. Fields: {', '.join(FIELDS)}"
        )


def _check(types: dict[str, str], named: dict[str, str], options: SinkOptions) -> None:
    for wanted in ("topic", "body"):
        if wanted not in named and not (wanted == "topic" and options.topic is not None):
            fixed = ", or the option topic" if wanted == "topic" else ""
            taken = [field for field, column in named.items() if column.lower() == wanted]
            if taken:
                raise ValueError(
                    f"column {wanted} is missing: the option column.{taken[0]} writes the column of this name as "
                    f"{taken[0]}; expected an option column.{wanted}{fixed}"
                )
            raise ValueError(
                f"column {wanted} is missing: expected a column {wanted}, an option column.{wanted}{fixed}; found "
                f"{', '.join(types)}"
            )
    for wanted, column in named.items():
        _check_type(column, types[column], FIELDS[wanted])
    if options.queue_selector == "column" and "queue_id" not in named:
        raise ValueError(
            f"queueSelector=column: expected a column queue_id, found {', '.join(types)}"
        )


def _check_type(column: str, found: str, expected: tuple[str, ...]) -> None:
    plain = found.partition(" ")[0]  # a string may name its collation
    if plain not in expected:
        raise TypeError(f"column {column}: expected {' or '.join(expected)}, found {found}")
