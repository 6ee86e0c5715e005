"""Data sources that the Spark bench compares ours with: rows as tuples, tasks and triggers without rows, rows that cost nothing.

Their classes are defined inside functions, so that workers get them by value: workers cannot import `bench`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def tuple_source(source: type[Any]) -> type[Any]:
    """Make a data source that gives the rows of another data source, each as a tuple."""
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


def made_source(tasks: int, rows: int, *, batch_rows: int) -> type[Any]:
    """Make a data source of topics, queues and sizes that no task reads from anywhere: each gives one batch again and again.

    What a query over it takes is what Spark takes for so many rows from Python.
    """
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class MadeReader(DataSourceReader):
        def partitions(self) -> list[InputPartition]:
            return [InputPartition(number) for number in range(tasks)]

        def read(self, partition: InputPartition) -> Iterator[Any]:  # noqa: ARG002
            import numpy as np
            import pandas as pd  # every task with Arrow loads it
            import pyarrow as pa

            from rmqcore.spark.runtime.workers import freeze_worker_heap

            del pd
            freeze_worker_heap()
            numbers = np.arange(batch_rows, dtype=np.int32)
            topics = pa.array([f"topic-{number:04}" for number in range(250)])
            arrays = [
                topics.take(pa.array(numbers % 250)),
                pa.array(numbers % 4),
                pa.array(280 + numbers % 280),
            ]
            batch = pa.RecordBatch.from_arrays(arrays, ["topic", "queue_id", "msg_size"])
            left = rows // tasks
            while left > 0:
                yield batch.slice(0, left)
                left -= batch_rows

    class MadeSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return "made_rows"

        def schema(self) -> str:
            return "topic string, queue_id int, msg_size int"

        def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002
            return MadeReader()

    return MadeSource


def empty_stream(triggers: int, tasks: int) -> type[Any]:
    """Make a stream whose triggers have tasks without a row: what a trigger takes then is Spark's own."""
    from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
    from pyspark.sql.streaming.datasource import ReadMaxRows, SupportsTriggerAvailableNow

    class EmptyStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc, unused-ignore]
        def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's names
            return {"trigger": 0}

        def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: N802, ARG002
            return {"trigger": min(triggers, start["trigger"] + 1)}

        def getDefaultReadLimit(self) -> Any:  # noqa: N802
            return ReadMaxRows(1)

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
            pass

        def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
            return {"trigger": triggers}

        def partitions(self, start: Any, end: Any) -> list[InputPartition]:  # noqa: ARG002
            return [InputPartition(number) for number in range(tasks)]

        def read(self, partition: InputPartition) -> Iterator[Any]:  # noqa: ARG002
            import pandas as pd
            import pyarrow as pa

            from rmqcore.spark.runtime.workers import freeze_worker_heap

            del pd
            freeze_worker_heap()
            yield from pa.Table.from_pylist([], pa.schema([("x", pa.int64())])).to_batches()

    class EmptyStream(DataSource):
        @classmethod
        def name(cls) -> str:
            return "empty_triggers"

        def schema(self) -> str:
            return "x bigint"

        def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802, ARG002
            return EmptyStreamReader()

    return EmptyStream


def dropping_sink() -> type[Any]:
    """Make a data source that is written to and drops all rows: what its workers take is Spark's handing over."""
    from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

    class DroppingWriter(DataSourceArrowWriter):
        def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
            for _batch in iterator:
                pass
            return WriterCommitMessage()

    class DroppingSink(DataSource):
        @classmethod
        def name(cls) -> str:
            return "dropping"

        def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:  # noqa: ARG002
            return DroppingWriter()

    return DroppingSink
