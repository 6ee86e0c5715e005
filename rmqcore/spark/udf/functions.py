"""Arrow UDFs over binary and text columns: the codec for tables of records and bodies from anywhere.

Each function accepts a column (or its name) and returns a Column; `register` makes them functions of SQL.

On PySpark 4.1 and later they are `pyspark.sql.functions.arrow_udf`. PySpark 4.0 and 3.5 lack Arrow UDFs: there they are
pandas UDFs around the same kernels, which are slower and cannot return a null struct, so a malformed record is a struct
of null fields.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from rmqcore.spark.rows.schema import spark_schema
from rmqcore.spark.udf import kernels, records
from rmqcore.spark.udf.records import chosen
from rmqcore.spark.udf.vectorized import Kernel, Udf, vectorized

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
        Fields of the struct, in order: names of columns of ``table=messages``, without the columns that tell of a store
        (``broker``, ``resynced``, ``_file``). The default is that table's, without ``broker``. On request also ``msg_id``,
        ``tags_code``, ``magic``, ``raw``, ``crc_ok``, ``corrupt_reason``. Few fields are faster than all.
    mode : str
        What becomes of a malformed record; a record with bytes behind it is malformed too. ``PERMISSIVE``: the struct is null,
        but with ``corrupt_reason`` among `columns` that field says what is wrong and all other fields are null.
        ``FAILFAST``: the query fails, and its error says field, expected and found.
    verify_crc : bool
        Whether a body that fails its CRC makes a record malformed. If not, the record is decoded, its ``crc_ok`` is
        false and
        its ``corrupt_reason`` says why.

    Raises
    ------
    ValueError
        A column or the mode is unknown.
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
    """Decompress a body (binary) as its SYSFLAG says; a body that is not compressed stays as it is.

    Null when the body or its SYSFLAG is null.

    Parameters
    ----------
    mode : str
        What becomes of a body that is not compressed as its SYSFLAG says. ``PERMISSIVE``: it becomes null. ``FAILFAST``: the
        query fails. In both modes the query fails when a body needs the extra ``rmqcore[compress]`` and an executor lacks it.

    Raises
    ------
    ValueError
        The mode is unknown.
    """
    from pyspark.sql import functions as F  # noqa: N812 # as everybody writes it

    return _function("decompress_body")(body, sys_flag, F.lit(kernels.check_mode(mode)))


def register(
    spark: SparkSession, prefix: str = "rmq_", *, columns: Iterable[str] | None = None
) -> list[str]:
    """Make the UDFs functions of SQL, for this session, and return their names.

    Parameters
    ----------
    prefix : str
        In front of each name: ``rmq_decode_message(raw)``, ``rmq_body_crc(body)``, ``rmq_java_hash(text)``,
        ``rmq_tags_code(tags)``, ``rmq_decode_properties(bytes)``, ``rmq_decompress_body(body, sys_flag)``.
        ``rmq_decode_message`` and ``rmq_decompress_body`` accept the mode as a further argument: ``'FAILFAST'``.
    columns : iterable of str, optional
        Fields of the struct of ``decode_message``.

    Notes
    -----
    ``rmq_corrupt_reason(raw)`` is registered too: null for a sound record, else a text that says what is wrong with it.
    """
    functions = {"decode_message": _decoder(columns, None, verify_crc=False)}
    functions.update((name, _function(name)) for name in _KERNELS)
    names = []
    for name, function in functions.items():
        spark.udf.register(prefix + name, function)
        names.append(prefix + name)
    return names


_KERNELS: dict[str, tuple[Kernel, str]] = {
    "body_crc": (kernels.body_crc, "int"),
    "java_hash": (kernels.java_hash, "int"),
    "tags_code": (kernels.tags_code, "bigint"),
    "decode_properties": (kernels.decode_properties, "map<string,string>"),
    "decompress_body": (kernels.decompress_body, "binary"),
    "corrupt_reason": (records.corrupt_reason, "string"),
}
"""Name -> the kernel that the executor calls, and the Spark type of its result."""


def _function(name: str) -> Udf:
    return vectorized(*_KERNELS[name])


def _decoder(columns: Iterable[str] | None, mode: str | None, *, verify_crc: bool) -> Udf:
    """Make the UDF that decodes records; with `mode` None it accepts the mode as an optional second argument."""
    fields = chosen(columns)
    fixed = None if mode is None else kernels.check_mode(mode)

    def decode_message(raw: pa.Array, mode: pa.Array = None) -> pa.Array:
        how = fixed or kernels.any_mode(mode)
        return records.decode(raw, fields, how, verify_crc=verify_crc)

    return vectorized(decode_message, spark_schema(fields))
