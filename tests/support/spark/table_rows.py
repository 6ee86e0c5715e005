"""Tables that grow with a log: runs in this process, and all their rows, as readers of each format find them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

import rmqcore
from rmqcore.spark.jobs import export as export_job
from rmqcore.spark.lake import compact as compact_job
from rmqcore.spark.lake.export_table import TableReport, export_table
from rmqcore.spark.lake.manifest import table_files

NO_SPARK: Any = None
Row = tuple[str, int, str, bytes]
"""Broker, CommitLog offset, topic and body."""
COLUMNS = ["broker", "phy_offset", "topic", "body"]


def run_here(patch: pytest.MonkeyPatch, attempts: Callable[[], int] = lambda: 1) -> None:
    """Run tasks in this process, each so many times: the first answers count, as when Spark has a task done twice."""

    def run(_spark: Any, work: Callable[[Any], Any], payloads: Sequence[Any]) -> list[Any]:
        answers = []
        for payload in payloads:
            sent = pickle.dumps((work, payload))
            each = []
            for _ in range(attempts()):
                own_work, own = pickle.loads(sent)
                each.append(own_work(own))
            answers.append(each[0])
        return answers

    for job in (export_job, compact_job):
        patch.setattr(job, "run_tasks", run)


def grow(store: Path | str | list[str], out: Path, **given: Any) -> TableReport:
    """Run an export in this process."""
    return export_table(NO_SPARK, cast("Any", store), out, **given)


def rows_of(out: Path, format: str = "parquet") -> list[Row]:
    """All rows of a table, in its order for Parquet, else sorted."""
    if format == "delta":
        import deltalake

        tables = [deltalake.DeltaTable(str(out)).to_pyarrow_table(columns=COLUMNS)]
    elif format == "iceberg":
        tables = [iceberg_rows(out)]
    else:
        import pyarrow.parquet as pq

        tables = [pq.ParquetFile(path).read(COLUMNS) for path in in_order(table_files(out))]
    rows = [
        (row["broker"], row["phy_offset"], row["topic"], row["body"])
        for table in tables
        for row in table.to_pylist()
    ]
    return rows if format == "parquet" else sorted(rows)


def in_order(paths: Sequence[str]) -> list[str]:
    """Files by folder and number."""

    def key(path: str) -> tuple[str, list[int]]:
        folder, _, name = path.rpartition("/")
        return folder, [int(number) for number in name.removesuffix(".parquet").split("-")[1:]]

    return sorted(paths, key=key)


def iceberg_rows(out: Path) -> Any:
    """The rows of an Iceberg table with a catalog of its own."""
    for table in iceberg_table(out):
        return table.scan(selected_fields=tuple(COLUMNS)).to_arrow()
    raise AssertionError


def iceberg_table(out: Path) -> Iterator[Any]:
    """The table, for one turn of a loop."""
    from pyiceberg.catalog.sql import SqlCatalog

    path = str(out / "_rmqcore" / "catalog.db").replace("%", "%25")
    catalog = SqlCatalog("rmqcore", uri=f"sqlite:///{path}", warehouse=str(out))
    try:
        yield catalog.load_table("rmqcore.messages")
    finally:
        catalog.close()


def rows_in(store: Path, broker: str = "b", end: int | None = None) -> list[Row]:
    """The rows that a table has of a store, up to an offset."""
    return [
        (broker, message.phy_offset, message.topic, message.body)
        for message in rmqcore.read(store).messages()
        if end is None or message.phy_offset < end
    ]
