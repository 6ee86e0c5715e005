"""Data sources that the Spark bench compares ours with: rows as tuples, and tasks that do nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def tuple_source(source: type[Any]) -> type[Any]:
    """Make a data source that gives the rows of another data source, each as a tuple.

    Its classes are defined inside this function, so that workers get them by value: workers cannot import `bench`.
    """
    from pyspark.sql.datasource import DataSourceReader

    class TupleReader(DataSourceReader):
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def partitions(self) -> Any:
            return self._inner.partitions()

        def read(self, partition: Any) -> Iterator[tuple[Any, ...]]:
            for batch in self._inner.read(partition):
                yield from zip(*map(values, batch.columns), strict=True)

    def values(column: Any) -> list[Any]:
        found: list[Any] = column.to_pylist()
        return [dict(pairs) for pairs in found] if str(column.type).startswith("map<") else found

    class TupleSource(source):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return "rmqstore_tuples"

        def reader(self, schema: Any) -> Any:
            return TupleReader(super().reader(schema))

    return TupleSource


def empty_source(tasks: int, *, freeze: bool) -> type[Any]:
    """Make a data source whose tasks give no row; with `freeze` they freeze the worker's heap first, as our tasks do."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class EmptyReader(DataSourceReader):
        def partitions(self) -> list[InputPartition]:
            return [InputPartition(number) for number in range(tasks)]

        def read(self, partition: InputPartition) -> Iterator[Any]:  # noqa: ARG002
            import pandas as pd  # every task with Arrow loads it
            import pyarrow as pa

            del pd
            if freeze:
                from rmqcore.spark.runtime.workers import freeze_worker_heap

                freeze_worker_heap()
            yield from pa.Table.from_pylist([], pa.schema([("x", pa.int64())])).to_batches()

    class EmptySource(DataSource):
        @classmethod
        def name(cls) -> str:
            return "empty_tasks"

        def schema(self) -> str:
            return "x bigint"

        def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002
            return EmptyReader()

    return EmptySource
