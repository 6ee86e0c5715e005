"""Counts and bounds by queue. The workers add up their splits: Spark gets a row for each split and queue, none for a message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rmqcore._native.scan.scan import ColumnScan
from rmqcore.spark.jobs.job_source import JobSource
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.rows.arrow_rows import MAX_MS
from rmqcore.spark.rows.conditions import conditions_of
from rmqcore.spark.rows.read_split import check_damage
from rmqcore.spark.rows.row_choice import Mask, RowChoice
from rmqcore.spark.runtime.tasks import task_frame
from rmqcore.spark.runtime.workers import freeze_worker_heap
from rmqcore.spark.splits.settle import settle
from rmqcore.spark.splits.split import Split
from rmqcore.spark.splits.split_scan import SplitScan
from rmqcore.spark.storage.locations import Paths

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from rmqcore._native.scan.batch import Batch

BATCH_ROWS = 65_536
COMPACT_ROWS = 500_000
"""Rows of partial sums that a task holds before it adds them up: with a million queues as well."""

_COLUMNS = ("topic_id", "queue_id", "queue_offset", "phy_offset", "msg_size", "store_timestamp_ms")
_KEYS = ("broker", "topic", "queue_id")
_TOTALS = {
    "messages": "sum", "bytes": "sum", "min_queue_offset": "min", "max_queue_offset": "max",
    "min_phy_offset": "min", "max_phy_offset": "max", "first_store_timestamp": "min", "last_store_timestamp": "max",
}  # fmt: skip
SCHEMA = (
    "broker string, topic string, queue_id int, messages bigint, bytes bigint, min_queue_offset bigint, max_queue_offset bigint, "
    "min_phy_offset bigint, max_phy_offset bigint, first_store_timestamp timestamp, last_store_timestamp timestamp"
)


def queue_totals(spark: SparkSession, path: Paths, **options: Any) -> DataFrame:
    """Give the number of messages of each queue, their bytes, and their first and last offsets and times.

    The same as a ``groupBy("broker", "topic", "queue_id")`` over the table ``messages`` with these options, but no row of a
    message goes to Spark.

    Parameters
    ----------
    spark : SparkSession
    path : str, path-like or a list of them
        Stores.
    **options
        Options of ``table=messages`` that choose messages and cut files, as for `topic_stats`.

    Returns
    -------
    DataFrame
        ``bytes`` are those of whole records. A time that no timestamp can hold counts as none.

    Raises
    ------
    ValueError
        A wrong option.
    NotAStoreError, FileNotFoundError
        A path that is no store.
    """
    from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

    source = JobSource.open(path, options, spark=spark)
    payloads = [(split, source.options) for split in source.splits()]
    partial = task_frame(spark, split_queue_totals, payloads, SCHEMA)
    found = [getattr(F, how)(name).alias(name) for name, how in _TOTALS.items()]
    return partial.groupBy(*_KEYS).agg(*found)


def split_queue_totals(task: tuple[Split, SourceOptions]) -> Iterator[pa.RecordBatch]:
    """Give the totals of a split as rows of `SCHEMA`."""
    freeze_worker_heap()
    split, options = task
    wanted, choice = conditions_of(options, split.broker), RowChoice(options, split.broker)
    settled = settle(split)
    sink = ColumnScan(
        sorted({*_COLUMNS, *choice.native}),
        filter=wanted.native(),
        stop_offset=settled.stop_offset(wanted.end_phy_offset),
        batch_rows=BATCH_ROWS,
    )
    scan = SplitScan(settled, sink, verify_crc=options.mode == "DROPMALFORMED")
    parts: list[pa.Table] = []
    rows = checked = 0
    for batch in scan.run():
        parts.append(_totals(batch, choice.mask(batch, sink)))
        rows += parts[-1].num_rows
        if rows > COMPACT_ROWS:
            parts, rows = [_merged(parts)], 0
        checked = _check(scan, checked, options)
    _check(scan, checked, options)
    if parts:
        yield from _named(_merged(parts), split.broker, sink.topics())


def _check(scan: SplitScan[Any], checked: int, options: SourceOptions) -> int:
    for found in scan.damage[checked:]:
        check_damage(found, scan.split.broker, options)
    return len(scan.damage)


def _totals(batch: Batch, mask: Mask | None) -> pa.Table:
    """The totals of a batch's rows, with the numbers that the scan gave topics, and times in milliseconds."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pa.record_batch(batch)
    if mask is not None:
        found = found.filter(pa.array(mask))
    store_ms = found.column("store_timestamp_ms")
    fits = pc.and_(pc.greater_equal(store_ms, -MAX_MS), pc.less_equal(store_ms, MAX_MS))
    rows = pa.table(
        {
            "topic": found.column("topic_id"),
            "queue_id": found.column("queue_id"),
            "bytes": pc.cast(found.column("msg_size"), pa.int64()),
            "queue_offset": found.column("queue_offset"),
            "phy_offset": found.column("phy_offset"),
            "time": pc.if_else(fits, store_ms, None),
        }
    )
    made = [([], "count_all"), ("bytes", "sum")]
    made += [
        (name, how) for name in ("queue_offset", "phy_offset", "time") for how in ("min", "max")
    ]
    return _grouped(rows, made)


def _merged(parts: list[pa.Table]) -> pa.Table:
    import pyarrow as pa

    return _grouped(pa.concat_tables(parts), list(_TOTALS.items()))


def _grouped(rows: pa.Table, wanted: list[tuple[Any, str]]) -> pa.Table:
    """Add up by topic and queue; the columns of `_TOTALS`, whatever the order in which this pyarrow gives them."""
    found = rows.group_by(["topic", "queue_id"], use_threads=False).aggregate(wanted)
    names = [how if not name else f"{name}_{how}" for name, how in wanted]
    return found.select(["topic", "queue_id", *names]).rename_columns(
        ["topic", "queue_id", *_TOTALS]
    )


def _named(totals: pa.Table, broker: str, topics: list[str]) -> Iterator[pa.RecordBatch]:
    """The rows of `SCHEMA`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    time = pa.timestamp("us", tz="UTC")
    columns: dict[str, Any] = {name: totals.column(name) for name in _TOTALS}
    for name in ("first_store_timestamp", "last_store_timestamp"):
        columns[name] = pc.cast(pc.multiply(columns[name], 1000), time)
    named = pa.table(
        {
            "broker": pa.repeat(pa.scalar(broker, pa.string()), totals.num_rows),
            "topic": pa.array(topics, pa.string()).take(totals.column("topic")),
            "queue_id": totals.column("queue_id"),
            **columns,
        }
    )
    yield from named.combine_chunks().to_batches(max_chunksize=100_000)
