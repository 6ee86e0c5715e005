"""Totals by topic and hour; the totals of parts add up to the totals of the whole.

Totals are three tables of pyarrow: ``sums`` has a row for each topic and hour, ``latencies`` a row for each latency
bucket of a topic and hour, and ``tags`` a row for each tag of a topic and hour.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from rmqcore.offline.stats.buckets import bucket_of, latency_ms
from rmqcore.offline.stats.rules import MAX_TAGS
from rmqcore.spark.reading.row_choice import Mask
from rmqcore.vocabulary.units import HOUR_MS

if TYPE_CHECKING:
    import pyarrow as pa

    from rmqcore._native.scan.batch import Batch

COLUMNS = ("topic_id", "msg_size", "born_timestamp_ms", "store_timestamp_ms", "tags", "body")
"""The columns of a message that are read."""

_KEYS = ["topic", "hour"]
_SUMS = {
    "messages": "sum",
    "bytes": "sum",
    "body_bytes": "sum",
    "latency_sum": "sum",
    "latency_min": "min",
    "latency_max": "max",
    "first": "min",
    "last": "max",
}
PARTS = ("sums", "latencies", "tags")
_COMPACT_ROWS = 500_000


@dataclass(frozen=True)
class TopicTotals:
    """The three tables. ``topic`` is a name, or inside a task the number that the scan gave the topic."""

    sums: pa.Table
    latencies: pa.Table
    tags: pa.Table

    @classmethod
    def of(cls, batch: Batch, mask: Mask | None = None) -> Self:
        """Make the totals of a batch with the `COLUMNS`, or of the rows that a mask names."""
        import pyarrow as pa
        import pyarrow.compute as pc

        found = pa.record_batch(batch)
        if mask is not None:
            found = found.filter(pa.array(mask))
        store_ms = found.column("store_timestamp_ms").to_numpy()
        latency = latency_ms(store_ms, found.column("born_timestamp_ms").to_numpy())
        rows = pa.table(
            {
                "topic": found.column("topic_id"),
                "hour": store_ms // HOUR_MS,
                "bytes": found.column("msg_size"),
                "body_bytes": pc.binary_length(found.column("body")),
                "latency": latency,
                # As doubles: exact up to 2^53, and damaged times cannot overflow the sum.
                "latency_ms": latency.astype(np.float64),
                "bucket": bucket_of(latency),
                "store": store_ms,
                "tag": found.column("tags"),
            }
        )
        sums = _grouped(
            rows,
            _KEYS,
            [
                ([], "count_all"),
                ("bytes", "sum"),
                ("body_bytes", "sum"),
                ("latency_ms", "sum"),
                ("latency", "min"),
                ("latency", "max"),
                ("store", "min"),
                ("store", "max"),
            ],
        )
        latencies = _grouped(rows, [*_KEYS, "bucket"], [([], "count_all")])
        tags = _grouped(rows, [*_KEYS, "tag"], [([], "count_all")])
        return cls(
            sums.rename_columns([*_KEYS, *_SUMS]),
            latencies.rename_columns([*_KEYS, "bucket", "count"]),
            tags.rename_columns([*_KEYS, "tag", "count"]),
        )

    @classmethod
    def merged(cls, parts: Iterable[TopicTotals]) -> Self:
        """Return the sum of totals."""
        import pyarrow as pa

        given = list(parts)
        sums, latencies, tags = (
            pa.concat_tables([getattr(part, name) for part in given]) for name in PARTS
        )
        count = [("count", "sum")]
        merged = _grouped(sums, _KEYS, list(_SUMS.items())).rename_columns([*_KEYS, *_SUMS])
        by_bucket, by_tag = [*_KEYS, "bucket"], [*_KEYS, "tag"]
        return cls(
            merged,
            _grouped(latencies, by_bucket, count).rename_columns([*by_bucket, "count"]),
            _cut_tags(_grouped(tags, by_tag, count).rename_columns([*by_tag, "count"])),
        )

    def named(self, topics: list[str]) -> TopicTotals:
        """Return the same totals with names in the place of topic numbers."""
        import pyarrow as pa

        names = pa.array(topics, pa.string())

        def with_names(table: pa.Table) -> pa.Table:
            return table.set_column(0, "topic", names.take(table.column("topic")))

        return TopicTotals(*(with_names(getattr(self, name)) for name in PARTS))

    @cached_property
    def row_count(self) -> int:
        """The number of rows of all three tables."""
        return sum(getattr(self, name).num_rows for name in PARTS)


class TotalsOfBatches:
    """Adds up the totals of many batches in bounded memory."""

    def __init__(self) -> None:
        self._parts: list[TopicTotals] = []
        self._rows = 0

    def add(self, part: TopicTotals) -> None:
        """Add the totals of a batch or task."""
        self._parts.append(part)
        self._rows += part.row_count
        if self._rows > _COMPACT_ROWS:
            self._parts = [TopicTotals.merged(self._parts)]
            # Zero, not the number of rows left: with that just below the limit every batch would merge all parts.
            self._rows = 0

    def result(self) -> TopicTotals | None:
        """Return the totals of all batches; None if there was no message."""
        return TopicTotals.merged(self._parts) if self._parts else None


def _grouped(table: pa.Table, keys: list[str], wanted: list[tuple[Any, str]]) -> pa.Table:
    """Group rows; return a table whose first columns are the keys, in every version of pyarrow."""
    found = table.group_by(keys, use_threads=False).aggregate(wanted)
    return found.select([*keys, *(name for name in found.column_names if name not in keys)])


def _cut_tags(tags: pa.Table) -> pa.Table:
    """Keep the most frequent tags of each topic and hour, at most `MAX_TAGS`."""
    if tags.num_rows <= MAX_TAGS:
        return tags
    ordered = tags.sort_by(
        [
            ("topic", "ascending"),
            ("hour", "ascending"),
            ("count", "descending"),
            ("tag", "ascending"),
        ]
    )
    keep = np.concatenate([np.arange(min(size, MAX_TAGS)) + start for start, size in runs(ordered)])
    return ordered.take(keep)


def runs(ordered: pa.Table) -> Iterator[tuple[int, int]]:
    """Yield where each topic and hour of a sorted table begins, and how many rows it has."""
    counted = _grouped(ordered, _KEYS, [([], "count_all")])  # in the order of first appearance
    start = 0
    for size in counted.column(2).to_pylist():
        yield start, size
        start += size
