"""Statistics by topic and hour. The workers sum up their splits, so only sums are sent to Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqcore._native.scan.scan import ColumnScan
from rmqcore.offline.stats.buckets import quantile
from rmqcore.offline.stats.rules import TOP_TAGS, between, rate_seconds
from rmqcore.spark.jobs.job_source import JobSource
from rmqcore.spark.jobs.topic_totals import (
    COLUMNS,
    PARTS,
    TopicTotals,
    TotalsOfBatches,
    runs,
)
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.reading.read_split import check_damage
from rmqcore.spark.reading.row_choice import RowChoice
from rmqcore.spark.reading.settle import settle
from rmqcore.spark.reading.split_scan import SplitScan
from rmqcore.spark.rows.columns import MAX_MS
from rmqcore.spark.rows.conditions import conditions_of
from rmqcore.spark.runtime.tasks import task_frame
from rmqcore.spark.runtime.workers import freeze_worker_heap
from rmqcore.spark.splits.split import Split
from rmqcore.spark.storage.locations import Paths
from rmqcore.vocabulary.units import HOUR_MS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

BATCH_ROWS = 32_768
BATCH_BYTES = 4 * 1024 * 1024

SCHEMA = (
    "topic string, hour timestamp, messages bigint, bytes bigint, body_bytes bigint, messages_per_second double, "
    "bytes_per_second double, distinct_tags bigint, top_tags array<struct<tag: string, messages: bigint>>, "
    "latency_min_ms bigint, latency_mean_ms double, latency_p50_ms double, latency_p99_ms double, latency_max_ms bigint, "
    "first_store_timestamp timestamp, last_store_timestamp timestamp"
)
_PARTIAL = (
    "topic string, hour bigint, part tinyint, messages bigint, bytes bigint, body_bytes bigint, latency_sum double, "
    "latency_min bigint, latency_max bigint, first bigint, last bigint, bucket int, tag string, count bigint"
)


def topic_stats(spark: SparkSession, path: Paths, **options: Any) -> DataFrame:
    """Return messages, bytes, rates, tags and latency for each topic and hour of the store time.

    Parameters
    ----------
    spark : SparkSession
    path : str, path-like or a list of them
        Stores; the same topic and hour of several stores is added up.
    **options
        Options of ``table=messages`` that choose messages and cut files: ``topics``, ``queueIds``, ``tags``, ``keys``,
        ``startingTimestamp``, ``maxPartitionBytes``, ...

    Returns
    -------
    DataFrame
        ``bytes`` counts whole records, ``body_bytes`` bodies as stored. Rates are over the time between the hour's
        first and last message, and over one second if that time is shorter. ``top_tags`` are the ten most frequent,
        ``distinct_tags`` counts at most 10,000. Latency is store minus born time: minimum, mean and maximum are exact,
        the median and the 99th percentile within 1.6 % (exact up to 63 ms). ``hour`` is null if a timestamp cannot hold
        the store time.

    Raises
    ------
    ValueError
        A wrong option.
    NotAStoreError, FileNotFoundError
        A path does not lead to a store.
    """
    source = JobSource.open(path, options, spark=spark)
    payloads = [(split, source.options) for split in source.splits()]
    partial = task_frame(spark, split_totals, payloads, _PARTIAL)

    def finish(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_worker_heap()
        yield from finished(batches)

    return partial.repartition("topic", "hour").mapInArrow(finish, SCHEMA)


def split_totals(task: tuple[Split, SourceOptions]) -> Iterator[pa.RecordBatch]:
    """Yield the totals of a split as rows of `_PARTIAL`."""
    split, options = task
    wanted, choice = conditions_of(options, split.broker), RowChoice(options, split.broker)
    settled = settle(split)
    sink = ColumnScan(
        sorted({*COLUMNS, *choice.native}),
        filter=wanted.native(),
        stop_offset=settled.stop_offset(wanted.end_phy_offset),
        batch_rows=BATCH_ROWS,
        batch_bytes=BATCH_BYTES,
    )
    scan = SplitScan(settled, sink, verify_crc=options.mode == "DROPMALFORMED")
    totals, checked = TotalsOfBatches(), 0
    for batch in scan.run():
        totals.add(TopicTotals.of(batch, choice.mask(batch, sink)))
        checked = _check(scan, checked, options)
    _check(scan, 0, options)  # the end of a scan may take some back and add others
    found = totals.result()
    if found is not None:
        yield from partial_rows(found.named(sink.topics()))


def _check(scan: SplitScan[Any], checked: int, options: SourceOptions) -> int:
    for found in scan.damage[checked:]:
        check_damage(found, scan.split.broker, options)
    return len(scan.damage)


def partial_rows(totals: TopicTotals) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the three tables under one schema, which Spark can shuffle."""
    import pyarrow as pa

    schema = _partial_schema()
    for number, name in enumerate(PARTS):
        table = getattr(totals, name)
        kinds = {"part": pa.array(np.full(table.num_rows, number, np.int8))}
        nothing = pa.nulls(table.num_rows)
        columns = [
            kinds[field.name]
            if field.name in kinds
            else table.column(field.name)
            if field.name in table.column_names
            else nothing
            for field in schema
        ]
        full = pa.table(
            [column.cast(field.type) for column, field in zip(columns, schema, strict=True)],
            schema=schema,
        )
        yield from full.to_batches(max_chunksize=100_000)


def totals_of_rows(batch: pa.RecordBatch) -> TopicTotals:
    """Return the totals from which `partial_rows` made these rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    table = pa.Table.from_batches([batch])
    part = table.column("part")
    sums, latencies, tags = (table.filter(pc.equal(part, number)) for number, _ in enumerate(PARTS))
    keys = ["topic", "hour"]
    sums_columns = [
        "messages",
        "bytes",
        "body_bytes",
        "latency_sum",
        "latency_min",
        "latency_max",
        "first",
        "last",
    ]
    return TopicTotals(
        sums.select([*keys, *sums_columns]),
        latencies.select([*keys, "bucket", "count"]),
        tags.select([*keys, "tag", "count"]),
    )


def finished(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merge all totals in a partition of Spark, and yield the statistics as rows of `SCHEMA`."""
    import pyarrow as pa

    totals = TotalsOfBatches()
    for batch in batches:
        totals.add(totals_of_rows(batch))
    found = totals.result()
    if found is None:
        return
    in_order = [("topic", "ascending"), ("hour", "ascending")]
    sums = found.sums.sort_by(in_order)
    latencies = found.latencies.sort_by([*in_order, ("bucket", "ascending")])
    tags = found.tags.sort_by([*in_order, ("count", "descending"), ("tag", "ascending")])
    rows = [
        _row(row, latencies.slice(*of_latencies), tags.slice(*of_tags))
        for row, of_latencies, of_tags in zip(
            sums.to_pylist(), runs(latencies), runs(tags), strict=True
        )
    ]
    yield pa.RecordBatch.from_pylist(rows, schema=_schema())


def _row(sums: dict[str, Any], latencies: pa.Table, tags: pa.Table) -> dict[str, Any]:
    numbers, counts = latencies.column("bucket").to_pylist(), latencies.column("count").to_pylist()
    low, high = sums["latency_min"], sums["latency_max"]
    tagged = tags.filter(tags.column("tag").is_valid())
    messages = sums["messages"]
    seconds = rate_seconds(sums["first"], sums["last"])
    return {
        "topic": sums["topic"],
        "hour": _microseconds(sums["hour"] * HOUR_MS),
        "messages": messages,
        "bytes": sums["bytes"],
        "body_bytes": sums["body_bytes"],
        "messages_per_second": messages / seconds,
        "bytes_per_second": sums["bytes"] / seconds,
        "distinct_tags": tagged.num_rows,
        "top_tags": [
            {"tag": counted["tag"], "messages": counted["count"]}
            for counted in tagged.slice(0, TOP_TAGS).to_pylist()
        ],
        "latency_min_ms": low,
        "latency_mean_ms": sums["latency_sum"] / messages,
        "latency_p50_ms": between(quantile(numbers, counts, 0.5), low, high),
        "latency_p99_ms": between(quantile(numbers, counts, 0.99), low, high),
        "latency_max_ms": high,
        "first_store_timestamp": _microseconds(sums["first"]),
        "last_store_timestamp": _microseconds(sums["last"]),
    }


def _microseconds(timestamp_ms: int) -> int | None:
    return timestamp_ms * 1000 if abs(timestamp_ms) <= MAX_MS else None


def _schema() -> pa.Schema:
    import pyarrow as pa

    text, whole, real = pa.string(), pa.int64(), pa.float64()
    time = pa.timestamp("us", tz="UTC")
    tag = pa.struct([("tag", text), ("messages", whole)])
    return pa.schema(
        [
            ("topic", text),
            ("hour", time),
            ("messages", whole),
            ("bytes", whole),
            ("body_bytes", whole),
            ("messages_per_second", real),
            ("bytes_per_second", real),
            ("distinct_tags", whole),
            ("top_tags", pa.list_(tag)),
            ("latency_min_ms", whole),
            ("latency_mean_ms", real),
            ("latency_p50_ms", real),
            ("latency_p99_ms", real),
            ("latency_max_ms", whole),
            ("first_store_timestamp", time),
            ("last_store_timestamp", time),
        ]
    )


def _partial_schema() -> pa.Schema:
    import pyarrow as pa

    kinds = {
        "string": pa.string(),
        "bigint": pa.int64(),
        "double": pa.float64(),
        "tinyint": pa.int8(),
        "int": pa.int32(),
    }
    words = [field.split() for field in _PARTIAL.split(", ")]
    return pa.schema([(name, kinds[kind]) for name, kind in words])
