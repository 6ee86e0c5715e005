"""Messages by topic, and by hour and queue where that is asked for: sums, extremes, histograms and tags of each group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from rmqcore._native.scan.scan import ColumnScan
from rmqcore.offline.stats.buckets import bucket_of, latency_ms
from rmqcore.offline.stats.columns import StatsColumns
from rmqcore.offline.stats.distinct import Ints, counted_pairs, distinct, distinct_pairs
from rmqcore.offline.stats.names import OTHERS, Names
from rmqcore.offline.stats.pair_counts import PairCounts
from rmqcore.offline.stats.report import GroupStats, TagCount
from rmqcore.offline.stats.rules import TOP_TAGS, between, rate_seconds
from rmqcore.offline.stats.tag_counts import TagCounts
from rmqcore.vocabulary.units import HOUR_MS

MOST_GROUPS = 200_000
MOST_NAME_BYTES = 64 << 20
"""Bounds of the groups that are told apart, and of their topics' letters; all messages of others count as one group."""

_SUMS = {"messages": np.int64, "bytes": np.int64, "latency": np.float64}
_EXTREMES = ("msg_size", "latency", "store_timestamp_ms")
_LARGEST, _SMALLEST = np.iinfo(np.int64).max, np.iinfo(np.int64).min

Key = tuple[int, int, int]
"""Number of the topic, hour and queue id; 0 where these are not asked for."""


class Groups:
    """Sums up batches.

    Parameters
    ----------
    by_hour, by_queue : bool
    """

    def __init__(self, *, by_hour: bool = False, by_queue: bool = False) -> None:
        self._by_hour, self._by_queue = by_hour, by_queue
        self._names = Names(MOST_GROUPS, MOST_NAME_BYTES)
        self._numbers: dict[Key, int] = {}
        self._count = 1  # OTHERS
        self._sums: dict[str, npt.NDArray[Any]] = {
            name: np.zeros(0, kind) for name, kind in _SUMS.items()
        }
        self._least: dict[str, Ints] = dict.fromkeys(_EXTREMES, np.empty(0, np.int64))
        self._most: dict[str, Ints] = dict.fromkeys(_EXTREMES, np.empty(0, np.int64))
        self._sizes, self._latencies = PairCounts(), PairCounts()
        self._tags = TagCounts()
        self._grow()

    # ---- a batch ------------------------------------------------------------------------------------

    def add(self, columns: StatsColumns, scan: ColumnScan) -> None:
        """Count the messages of a batch that the scan has just given; it has at least one."""
        self._names.update(scan)
        groups, places = self._groups_of(columns)
        latency = latency_ms(columns.store_timestamp_ms, columns.born_timestamp_ms)
        self._add_sums(groups, places, columns, latency)
        self._sizes.add(groups, places, bucket_of(columns.msg_size.astype(np.int64)))
        self._latencies.add(groups, places, bucket_of(latency))
        self._add_tags(groups, places, columns.tag_id)

    def _groups_of(self, columns: StatsColumns) -> tuple[Ints, Ints]:
        """The groups of a batch, and for each message the place of its group among them."""
        topics, places = distinct(self._names.numbers(columns.topic_id))
        if not (self._by_hour or self._by_queue):
            self._count = len(self._names.topics)
            self._grow()
            return topics, places
        hours = queues = np.zeros(len(topics), np.int64)
        if self._by_hour:
            of_pair, hours, places = distinct_pairs(places, columns.store_timestamp_ms // HOUR_MS)
            topics = topics[of_pair]
            queues = np.zeros(len(topics), np.int64)
        if columns.queue_id is not None and self._by_queue:
            of_pair, queues, places = distinct_pairs(places, columns.queue_id.astype(np.int64))
            topics, hours = topics[of_pair], hours[of_pair]
        keys = zip(topics.tolist(), hours.tolist(), queues.tolist(), strict=True)
        groups, of_key = np.unique([self._number(key) for key in keys], return_inverse=True)
        self._grow()
        return groups, of_key.reshape(-1)[places]  # several that there is no memory for are one

    def _number(self, key: Key) -> int:
        number = self._numbers.get(key)
        if number is None:
            if key[0] == OTHERS or self._count > MOST_GROUPS:
                return OTHERS
            self._numbers[key] = number = self._count
            self._count += 1
        return number

    def _grow(self) -> None:
        """Make room for the groups that are known."""
        have = len(self._sums["messages"])
        if self._count <= have:
            return
        more = max(self._count, 2 * have) - have
        for name, sums in self._sums.items():
            self._sums[name] = np.concatenate([sums, np.zeros(more, sums.dtype)])
        for extremes, none in ((self._least, _LARGEST), (self._most, _SMALLEST)):
            for name, values in extremes.items():
                extremes[name] = np.concatenate([values, np.full(more, none)])

    def _add_sums(self, groups: Ints, places: Ints, columns: StatsColumns, latency: Ints) -> None:
        # Small numbers are sorted by their digits: much faster than comparing, or than ufunc.at.
        small = np.min_scalar_type(len(groups) - 1)
        order = np.argsort(places.astype(small), kind="stable")
        counts = np.bincount(places)
        starts = np.cumsum(counts) - counts
        sizes = columns.msg_size.astype(np.int64)[order]
        latencies = latency[order]
        self._sums["messages"][groups] += counts
        self._sums["bytes"][groups] += np.add.reduceat(sizes, starts)
        # As doubles: damaged times cannot overflow the sum.
        self._sums["latency"][groups] += np.add.reduceat(latencies.astype(np.float64), starts)
        values = sizes, latencies, columns.store_timestamp_ms[order]
        for name, column in zip(_EXTREMES, values, strict=True):
            least, most = self._least[name], self._most[name]
            least[groups] = np.minimum(least[groups], np.minimum.reduceat(column, starts))
            most[groups] = np.maximum(most[groups], np.maximum.reduceat(column, starts))

    def _add_tags(self, groups: Ints, places: Ints, tag_id: npt.NDArray[np.int32]) -> None:
        of_pair, tags, counts = counted_pairs(places, len(groups), tag_id)
        for group, tag, number in zip(
            groups[of_pair].tolist(), tags.tolist(), counts.tolist(), strict=True
        ):
            if tag >= 0:
                self._tags.add(group, self._names.tags[tag], number)

    # ---- the answer ---------------------------------------------------------------------------------

    @property
    def has_others(self) -> bool:
        """True if there were messages of topics that were not counted separately for lack of memory."""
        return bool(self._sums["messages"][OTHERS])

    def total(self) -> GroupStats | None:
        """All messages together; None where there was none."""
        messages = self._sums["messages"]
        if not messages.any():
            return None
        sums = {name: values.sum().item() for name, values in self._sums.items()}
        least = {name: int(values.min()) for name, values in self._least.items()}
        most = {name: int(values.max()) for name, values in self._most.items()}
        quantiles = [
            counts.total_quantile(share)
            for counts in (self._sizes, self._latencies)
            for share in (0.5, 0.99)
        ]
        return _group(
            None, None, None, sums, least, most, quantiles, sums["bytes"], (), 0, all_tags=True
        )

    def groups(self) -> Iterator[GroupStats]:
        """Every group that has messages, in the order in which they were met; the one of all others at the end."""
        size = self._count
        all_bytes = int(self._sums["bytes"].sum())
        quantiles = [
            counts.quantiles(share, size)
            for counts in (self._sizes, self._latencies)
            for share in (0.5, 0.99)
        ]
        keys: Any = ((number, 0, 0) for number in range(1, size))
        if self._by_hour or self._by_queue:
            keys = self._numbers
        for number, key in [*zip(count(1), keys, strict=False), (OTHERS, (OTHERS, 0, 0))]:
            if not self._sums["messages"][number]:
                continue
            others = number == OTHERS
            yield _group(
                self._names.topics[key[0]],
                key[1] * HOUR_MS if self._by_hour and not others else None,
                key[2] if self._by_queue and not others else None,
                {name: values[number].item() for name, values in self._sums.items()},
                {name: int(values[number]) for name, values in self._least.items()},
                {name: int(values[number]) for name, values in self._most.items()},
                [None if np.isnan(found[number]) else float(found[number]) for found in quantiles],
                all_bytes,
                tuple(TagCount(*found) for found in self._tags.most_frequent(number, TOP_TAGS)),
                self._tags.distinct(number),
                all_tags=number not in self._tags.left_out,
            )


def _group(
    topic: str | None,
    hour_ms: int | None,
    queue_id: int | None,
    sums: dict[str, Any],
    least: dict[str, int],
    most: dict[str, int],
    quantiles: Sequence[float | None],
    all_bytes: int,
    top_tags: tuple[TagCount, ...],
    distinct_tags: int,
    *,
    all_tags: bool,
) -> GroupStats:
    messages, size = sums["messages"], sums["bytes"]
    first, last = least["store_timestamp_ms"], most["store_timestamp_ms"]
    seconds = rate_seconds(first, last)

    def inside(value: float | None, name: str) -> float | None:
        return None if value is None else between(value, least[name], most[name])

    return GroupStats(
        topic=topic,
        hour_ms=hour_ms,
        queue_id=queue_id,
        messages=messages,
        bytes=size,
        share=size / all_bytes,
        messages_per_second=messages / seconds,
        bytes_per_second=size / seconds,
        distinct_tags=distinct_tags,
        top_tags=top_tags,
        all_tags_counted=all_tags,
        msg_size_min=least["msg_size"],
        msg_size_mean=size / messages,
        msg_size_p50=inside(quantiles[0], "msg_size"),
        msg_size_p99=inside(quantiles[1], "msg_size"),
        msg_size_max=most["msg_size"],
        latency_min_ms=least["latency"],
        latency_mean_ms=sums["latency"] / messages,
        latency_p50_ms=inside(quantiles[2], "latency"),
        latency_p99_ms=inside(quantiles[3], "latency"),
        latency_max_ms=most["latency"],
        first_store_timestamp_ms=first,
        last_store_timestamp_ms=last,
    )
