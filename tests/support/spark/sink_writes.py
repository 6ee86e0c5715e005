"""Writes into folders of stores as Spark does them, without a JVM: the driver plans, tasks write, the driver commits."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.pandas.types import from_arrow_schema

import rmqcore
from rmqcore.spark.source.datasource import RmqStoreDataSource
from rmqcore.spark.storage.locations import find_stores

SMALL = {
    "mappedFileSizeCommitLog": "64k",
    "mappedFileSizeConsumeQueue": "2000",
    "maxHashSlotNum": "64",
    "maxIndexNum": "256",
}
Rows: TypeAlias = Any
"""A `pyarrow.Table`."""


def orders(count: int, first: int = 0) -> Rows:
    """A frame of messages whose bodies are numbers."""
    numbers = range(first, first + count)
    return pa.table(
        {
            "topic": ["Orders"] * count,
            "body": [str(number).encode() for number in numbers],
            "keys": [f"K{number}" for number in numbers],
        },
        pa.schema({"topic": pa.string(), "body": pa.binary(), "keys": pa.string()}),
    )


class SinkWrite:
    """A write, as the process that plans it holds it."""

    def __init__(
        self, out: Path | str, schema: pa.Schema, *, overwrite: bool = False, **options: Any
    ) -> None:
        source = RmqStoreDataSource({"path": str(out), **SMALL, **options})
        # It crosses to tasks and to the process that commits.
        self._sent: bytes = cloudpickle.dumps(  # type: ignore[no-untyped-call, unused-ignore]
            source.writer(from_arrow_schema(schema), overwrite)
        )

    @property
    def writer(self) -> Any:
        return pickle.loads(self._sent)

    @property
    def writer_job(self) -> str:
        """The name of the folder in which its tasks stage their stores."""
        job: str = pickle.loads(self.writer.sent).folder.job
        return job

    def task(self, rows: Rows, batch_rows: int = 7) -> Any:
        """Write a partition; give what the task sends to the driver."""
        batches: Iterable[pa.RecordBatch] = rows.to_batches(max_chunksize=batch_rows)
        return pickle.loads(pickle.dumps(self.writer.write(iter(batches))))

    def commit(self, messages: Sequence[Any]) -> None:
        self.writer.commit(list(messages))


def write(out: Path, *partitions: Rows, overwrite: bool = False, **options: Any) -> None:
    """Write a frame of some partitions."""
    sink = SinkWrite(out, partitions[0].schema, overwrite=overwrite, **options)
    sink.commit([sink.task(rows) for rows in partitions])


def bodies(out: Path) -> list[str]:
    """The bodies of all messages that count, in the order of stores and logs."""
    return [
        bytes(message.body).decode()
        for store in find_stores(out)
        for message in rmqcore.read(store.root).messages()
    ]


def numbers(count: int, first: int = 0) -> list[str]:
    return [str(number) for number in range(first, first + count)]
