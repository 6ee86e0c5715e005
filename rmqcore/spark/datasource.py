"""The data source ``rmqstore`` of PySpark.

Spark makes it anew in short-lived processes on the driver: one for the schema, one that plans a read. Nothing is kept between
them, and whatever one of them raises fails the query before a job starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import DataSource, DataSourceReader

from rmqcore.errors import StoreError
from rmqcore.spark.options import SourceOptions
from rmqcore.spark.schema import columns_of, columns_of_schema, spark_schema
from rmqcore.spark.shipped import ShippedPushingReader, ShippedReader
from rmqcore.spark.shipped_map import send_code_along
from rmqcore.spark.tables import open_table

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Answer = TypeVar("Answer")


class RmqStoreDataSource(DataSource):  # type: ignore[misc, unused-ignore]
    """Stores of RocketMQ as tables; options in `rmqcore.spark.option_table`, columns in `rmqcore.spark.table_columns`."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self.parsed = _short_errors(lambda: SourceOptions.parse(dict(options)))

    @classmethod
    def name(cls) -> str:
        """What ``spark.read.format`` takes."""
        return "rmqstore"

    def schema(self) -> StructType:
        """All columns of the table, or those that the option ``columns`` names. Finds the stores, to fail early."""
        columns = _short_errors(lambda: columns_of(self.parsed))
        options = self.parsed
        if options.starting_offsets == "latest":
            # For streams; whether one is wanted Spark does not say here. `reader` looks at it again.
            options = replace(options, starting_offsets="earliest")
        _short_errors(lambda: open_table(options, columns))
        return spark_schema(columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read."""
        columns = _short_errors(lambda: columns_of_schema(schema, self.parsed))
        table = _short_errors(lambda: open_table(self.parsed, columns))
        send_code_along("rmqcore.spark.shipped")
        # Only our own helpers set the option, since they also set what Spark wants for it.
        return ShippedPushingReader(table) if self.parsed.pushdown else ShippedReader(table)

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802 - Spark's name
        """A stream of messages."""
        from rmqcore.spark.stream_shipped import RefusedStream, stream_reader

        try:
            return stream_reader(schema, self.parsed)
        except (StoreError, ValueError, OSError) as error:
            return RefusedStream(error.with_traceback(None))


def _short_errors(call: Callable[[], Answer]) -> Answer:
    """Errors of ours without the calls that led to them, which Spark prints before the one line that says what is wrong."""
    try:
        return call()
    except (StoreError, ValueError, OSError) as error:
        raise error.with_traceback(None) from None
