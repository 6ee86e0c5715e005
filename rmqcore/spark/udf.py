"""Arrow UDFs over binary and text columns: the codec for tables of records and bodies from anywhere.

Each takes a column (or its name) and gives a Column; `register` makes them functions of SQL.

On PySpark 4.1 and later they are `pyspark.sql.functions.arrow_udf`. On 4.0 and 3.5, which have none, they are pandas UDFs around
the same kernels: slower, and a struct cannot be null there, so a malformed record is a struct whose fields are all null.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from rmqcore.spark import udf_arrow, udf_records
from rmqcore.spark.schema import spark_schema
from rmqcore.spark.udf_columns import chosen
from rmqcore.spark.udf_vectorized import Kernel, Udf, vectorized

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

__all__ = [
    "body_crc",
    "decode_message",
    "decode_properties",
    "decompress_body",
    "java_hash",
    "register",
    "tags_code",
]


def decode_message(
    column: Column | str,
    *,
    columns: Iterable[str] | None = None,
    mode: str = "PERMISSIVE",
    verify_crc: bool = False,
) -> Column:
    """Decode raw records into a struct.

    Parameters
    ----------
    column : Column or str
        Binary: in each row the bytes of exactly one record of a CommitLog.
    columns : iterable of str, optional
        Fields of the struct, in order: names of the columns of ``table=messages``, but those that tell of a store
        (``broker``, ``resynced``, ``_file``). The default is that table's, without ``broker``. On request also ``msg_id``,
        ``tags_code``, ``magic``, ``raw``, ``crc_ok``, ``corrupt_reason``. Few fields are faster than all.
    mode : str
        ``PERMISSIVE``: of a malformed record, which also is one with bytes behind it, the struct is null; with
        ``corrupt_reason`` among `columns` the struct is there, that field says what is wrong and all others are null.
        ``FAILFAST``: it fails the query with field, expected and found.
    verify_crc : bool
        Whether a body that fails its CRC makes a record malformed. Without it such a record is decoded, with ``crc_ok`` false
        and its ``corrupt_reason``.

    Raises
    ------
    ValueError
        An unknown column or mode.
    """
    return _decoder(columns, mode, verify_crc=verify_crc)(column)


def body_crc(column: Column | str) -> Column:
    """Compute the CRC of bodies (binary) as records store it, int: CRC-32 & 0x7FFFFFFF. Null stays null.

    Source: RocketMQ 5.5.0 UtilAll#crc32.
    """
    return _function("body_crc")(column)


def java_hash(column: Column | str) -> Column:
    """Compute Java's ``String.hashCode`` of texts, int. Null stays null."""
    return _function("java_hash")(column)


def tags_code(column: Column | str) -> Column:
    """Compute the tags code of a ConsumeQueue entry from TAGS (string), bigint: the hash, 0 for null and the empty text.

    Source: RocketMQ 5.5.0 MessageExtBrokerInner#tagsString2tagsCode.
    """
    return _function("tags_code")(column)


def decode_properties(column: Column | str) -> Column:
    """Decode properties strings (binary or string) into map<string,string>, as `rmqcore.codec.decode_properties`.

    Null stays null.
    """
    return _function("decode_properties")(column)


def decompress_body(
    body: Column | str, sys_flag: Column | str, *, mode: str = "PERMISSIVE"
) -> Column:
    """Undo what SYSFLAG says was done to a body (binary); one that is not compressed stays as it is.

    Null when either is null.

    Parameters
    ----------
    mode : str
        ``PERMISSIVE``: null for a body that is not what its SYSFLAG says. ``FAILFAST``: it fails the query. A body that needs
        the extra ``rmqcore[compress]`` on an executor without it fails the query in both.

    Raises
    ------
    ValueError
        An unknown mode.
    """
    from pyspark.sql import functions as F  # noqa: N812 # as everybody writes it

    return _function("decompress_body")(body, sys_flag, F.lit(udf_arrow.check_mode(mode)))


def register(
    spark: SparkSession, prefix: str = "rmq_", *, columns: Iterable[str] | None = None
) -> list[str]:
    """Make the UDFs functions of SQL, for this session, and answer their names.

    Parameters
    ----------
    prefix : str
        In front of each name: ``rmq_decode_message(raw)``, ``rmq_body_crc(body)``, ``rmq_java_hash(text)``,
        ``rmq_tags_code(tags)``, ``rmq_decode_properties(bytes)``, ``rmq_decompress_body(body, sys_flag)``.
        ``rmq_decode_message`` and ``rmq_decompress_body`` take the mode as one argument more: ``'FAILFAST'``.
    columns : iterable of str, optional
        Fields of the struct of ``decode_message``.

    Notes
    -----
    ``rmq_corrupt_reason(raw)`` comes with them: null for a sound record, else what is wrong with it.
    """
    functions = {"decode_message": _decoder(columns, None, verify_crc=False)}
    functions.update((name, _function(name)) for name in _KERNELS)
    names = []
    for name, function in functions.items():
        spark.udf.register(prefix + name, function)
        names.append(prefix + name)
    return names


_KERNELS: dict[str, tuple[Kernel, str]] = {
    "body_crc": (udf_arrow.body_crc, "int"),
    "java_hash": (udf_arrow.java_hash, "int"),
    "tags_code": (udf_arrow.tags_code, "bigint"),
    "decode_properties": (udf_arrow.decode_properties, "map<string,string>"),
    "decompress_body": (udf_arrow.decompress_body, "binary"),
    "corrupt_reason": (udf_records.corrupt_reason, "string"),
}
"""Name -> what it calls on the executor, and its Spark type."""


def _function(name: str) -> Udf:
    return vectorized(*_KERNELS[name])


def _decoder(columns: Iterable[str] | None, mode: str | None, *, verify_crc: bool) -> Udf:
    """With `mode` None the UDF takes it as an optional second argument."""
    fields = chosen(columns)
    fixed = None if mode is None else udf_arrow.check_mode(mode)

    def decode_message(raw: pa.Array, mode: pa.Array = None) -> pa.Array:
        how = fixed or udf_arrow.any_mode(mode)
        return udf_records.decode(raw, fields, how, verify_crc=verify_crc)

    return vectorized(decode_message, spark_schema(fields))
