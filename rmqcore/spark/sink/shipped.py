"""The writers that Spark pickles and sends to its Python workers, together with their code.

See `rmqcore.spark.runtime.shipping`. A copy of the writer that planned a batch commits it; for a stream a new writer
does.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter
from pyspark.sql.types import StructType

from rmqcore.spark.runtime.shipping import call_sent

_StreamBase: Any = getattr(datasource, "DataSourceStreamArrowWriter", DataSourceStreamWriter)


class ShippedWriter(DataSourceArrowWriter):  # type: ignore[misc, unused-ignore]
    """A batch write: holds a `rmqcore.spark.sink.stores_write.StoresWrite` on the driver, its pickled bytes in a task."""

    def __init__(self, write: Any) -> None:
        self.sent = pickle.dumps(write)

    def write(self, iterator: Iterator[Any]) -> Any:
        """Write the rows of a partition."""
        return call_sent(self.sent, "write", iterator)

    def commit(self, messages: list[Any]) -> None:
        """Commit the stores that the tasks have written."""
        call_sent(self.sent, "commit", messages)

    def abort(self, messages: list[Any]) -> None:
        """Remove the stores that the tasks have written."""
        call_sent(self.sent, "abort", messages)


class ShippedStreamWriter(_StreamBase):  # type: ignore[misc, unused-ignore]
    """The write of a stream's batches. PySpark before 4.1 passes rows, later versions pass Arrow batches."""

    def __init__(self, write: Any, schema: StructType) -> None:
        self.sent = pickle.dumps(write)
        self.schema = schema

    def write(self, iterator: Iterator[Any]) -> Any:
        """Write the rows of a partition."""
        if _StreamBase is DataSourceStreamWriter:
            return call_sent(self.sent, "write_rows", iterator, self.schema)
        return call_sent(self.sent, "write", iterator)

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Commit a batch, unless it is committed already."""
        call_sent(self.sent, "commit", messages, batchId)

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803, ARG002
        """Remove the stores that the tasks of a batch have written."""
        call_sent(self.sent, "abort", messages)
