"""The data source ``rmqstore`` of PySpark.

Spark makes it in a short-lived process on the driver, requests the schema and keeps the source pickled; further
short-lived processes plan reads with it. So all reads of a frame use the ends that the stores had when the frame was
loaded. An error in any of these processes fails the query before a job starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter

from rmqcore.errors import StoreError
from rmqcore.spark.options.catalog_tables import (
    keep_options,
    names_new_table,
    options_of_new_table,
    options_of_read,
)
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.rows.schema import columns_of, columns_of_schema, spark_schema
from rmqcore.spark.runtime.shipping import send_code_along
from rmqcore.spark.source.shipped import ShippedPushingReader, ShippedReader
from rmqcore.spark.storage.store_pin import StorePin
from rmqcore.spark.tables.tables import open_table

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Answer = TypeVar("Answer")


class RmqStoreDataSource(DataSource):  # type: ignore[misc, unused-ignore]
    """Stores of RocketMQ as tables; options in `rmqcore.spark.options.table`, columns in `rmqcore.spark.rows.columns`."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self.options = options
        self.pins: tuple[tuple[str, StorePin], ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without `parsed`: `reader` may change the options."""
        return {name: value for name, value in self.__dict__.items() if name != "parsed"}

    @cached_property
    def parsed(self) -> SourceOptions:
        """The options of a read; those of a write differ."""
        return _short_errors(lambda: SourceOptions.parse(dict(self.options)))

    @classmethod
    def name(cls) -> str:
        """Return the name for ``spark.read.format``."""
        return "rmqstore"

    def schema(self) -> StructType:
        """Return all columns of the table, or those in the option ``columns``; find the stores too, and their ends."""
        is_new_table = names_new_table(self.options)
        if is_new_table:
            self.options = _short_errors(lambda: options_of_new_table(self.options))
        columns = _short_errors(lambda: columns_of(self.parsed))
        if self.parsed.starting_offsets == "latest":
            # Only a stream may begin there. Here it is unknown whether Spark plans a stream; `reader` checks again.
            options = replace(self.parsed, starting_offsets="earliest")
            _short_errors(lambda: open_table(options, columns))
        else:
            self.pins = _short_errors(lambda: open_table(self.parsed, columns).pin())
        schema = spark_schema(columns)
        return keep_options(schema, self.options) if is_new_table else schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a batch read of the stores as of the call of `schema`; as they are now if a user gave the schema."""
        self.options = _short_errors(lambda: options_of_read(self.options, schema))
        columns = _short_errors(lambda: columns_of_schema(schema, self.parsed))
        options = replace(self.parsed, pins=self.pins or self.parsed.pins)
        table = _short_errors(lambda: open_table(options, columns))
        send_code_along("rmqcore.spark.source.shipped")
        # Spark keeps the plan of a read that accepted filters, and uses it for every later query over the frame.
        return ShippedPushingReader(table) if self.parsed.pushdown else ShippedReader(table)

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802 - Spark's name
        """Return a stream of messages."""
        from rmqcore.spark.stream.shipped import RefusedStream, stream_reader

        try:
            self.options = options_of_read(self.options, schema)
            return stream_reader(schema, self.parsed)
        except (StoreError, ValueError, OSError) as error:
            return RefusedStream(error.with_traceback(None))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a batch write into a folder of stores."""
        from rmqcore.spark.sink.shipped import ShippedWriter

        return ShippedWriter(self._write(schema, overwrite=overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802
        """Return a write of a stream's batches into a folder of stores."""
        from rmqcore.spark.sink.shipped import ShippedStreamWriter

        return ShippedStreamWriter(self._write(schema, overwrite=overwrite), schema)

    def _write(self, schema: StructType, *, overwrite: bool) -> Any:
        from rmqcore.spark.options.sink_options import SinkOptions
        from rmqcore.spark.sink.stores_write import StoresWrite

        send_code_along("rmqcore.spark.sink.shipped")
        return _short_errors(
            lambda: StoresWrite.plan(
                schema, SinkOptions.parse(dict(self.options)), overwrite=overwrite
            )
        )


def _short_errors(call: Callable[[], Answer]) -> Answer:
    """Call, and raise errors without their traceback, which Spark would print before the message."""
    try:
        return call()
    except (StoreError, ValueError, TypeError, OSError) as error:
        raise error.with_traceback(None) from None
