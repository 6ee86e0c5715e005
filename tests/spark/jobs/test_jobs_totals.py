"""Sums of parts are the sums of the whole; histograms tell what they say they tell. No JVM."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.stores.built_store import BuiltStore

import rmqcore
from rmqcore.codec.message import MessageView
from rmqcore.offline.stats.buckets import (
    MAX_MS,
    bounds_of,
    bucket_of,
    latency_ms,
    quantile,
)
from rmqcore.spark.jobs.job_source import JobSource

pa = pytest.importorskip("pyarrow")

from rmqcore.spark.jobs.topic_stats import finished, split_totals  # noqa: E402 - needs pyarrow

# ---- buckets ----------------------------------------------------------------------------------------


@given(st.integers(-MAX_MS, MAX_MS))
def test_a_value_lies_in_its_bucket(value: int) -> None:
    low, high = bounds_of(int(bucket_of(np.array([value]))[0]))
    assert low <= value <= high
    assert (high - low) * 32 <= max(abs(value), 1) * 2


def test_buckets_follow_each_other_without_a_gap() -> None:
    numbers = range(int(bucket_of(np.array([MAX_MS]))[0]) + 1)
    bounds = [bounds_of(number) for number in numbers]
    assert bounds[0] == (0, 0)
    assert all(bucket[1] + 1 == following[0] for bucket, following in pairwise(bounds))
    assert bounds[-1][0] <= MAX_MS <= bounds[-1][1]


def test_buckets_of_negative_values_are_the_mirrored_ones() -> None:
    values = np.array([-1, -63, -64, -100_000])
    assert [bounds_of(number) for number in bucket_of(values).tolist()] == [
        (-high, -low) for low, high in map(bounds_of, bucket_of(-values).tolist())
    ]


@given(st.lists(st.integers(-100, 10_000_000), min_size=1), st.sampled_from([0.01, 0.5, 0.99, 1.0]))
def test_a_quantile_is_that_of_the_sorted_values(values: list[int], share: float) -> None:
    counted = Counter(bucket_of(np.array(values)).tolist())
    numbers = sorted(counted)
    found = quantile(numbers, [counted[number] for number in numbers], share)
    exact = sorted(values)[max(1, math.ceil(share * len(values))) - 1]
    assert abs(found - exact) <= max(abs(exact) / 64, 0)


def test_wild_timestamps_do_not_overflow() -> None:
    edges = np.array([2**63 - 1, -(2**63), 0, 5])
    assert latency_ms(edges, edges[::-1]).tolist() == [MAX_MS, -MAX_MS, MAX_MS, -MAX_MS]


# ---- totals -----------------------------------------------------------------------------------------


def stats(store: Path, **options: Any) -> list[dict[str, Any]]:
    source = JobSource.open(store, options)
    partial = [
        batch for split in source.splits() for batch in split_totals((split, source.options))
    ]
    return [row for batch in finished(partial) for row in batch.to_pylist()]


def slow_stats(messages: list[MessageView]) -> dict[tuple[str, int], dict[str, Any]]:
    groups = defaultdict(list)
    for message in messages:
        groups[message.topic, message.store_timestamp_ms // 3_600_000].append(message)
    found = {}
    for key, group in groups.items():
        latencies = sorted(
            message.store_timestamp_ms - message.born_timestamp_ms for message in group
        )
        times = [message.store_timestamp_ms for message in group]
        seconds = max(1.0, (max(times) - min(times)) / 1000)
        tags = Counter(message.tags for message in group if message.tags is not None)
        found[key] = {
            "messages": len(group),
            "bytes": sum(message.msg_size for message in group),
            "body_bytes": sum(len(message.body) for message in group),
            "messages_per_second": len(group) / seconds,
            "bytes_per_second": sum(message.msg_size for message in group) / seconds,
            "distinct_tags": len(tags),
            "top_tags": [
                {"tag": tag, "messages": count}
                for tag, count in sorted(tags.items(), key=lambda item: (-item[1], item[0]))[:10]
            ],
            "latency_min_ms": latencies[0],
            "latency_mean_ms": pytest.approx(sum(latencies) / len(group)),
            "latency_p50_ms": pytest.approx(
                latencies[math.ceil(len(group) / 2) - 1], rel=1 / 60, abs=0.5
            ),
            "latency_p99_ms": pytest.approx(
                latencies[math.ceil(0.99 * len(group)) - 1], rel=1 / 60, abs=0.5
            ),
            "latency_max_ms": latencies[-1],
        }
    return found


def by_key(rows: list[dict[str, Any]]) -> dict[tuple[str, int], dict[str, Any]]:
    found = {}
    for row in rows:
        hour = int(row.pop("hour").timestamp()) // 3600
        times = row.pop("first_store_timestamp"), row.pop("last_store_timestamp")
        assert times[0] <= times[1]
        found[row.pop("topic"), hour] = row
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize("case", ["basic", "transaction", "lmq", "ipv6", "delay", "longtopic"])
def test_totals_are_those_of_a_slow_sum(golden: Path, case: str) -> None:
    store = golden / case / "store"
    expected = slow_stats(list(rmqcore.read(store).messages()))
    assert by_key(stats(store)) == expected
    assert by_key(stats(store, maxPartitionBytes=9_000, splitMode="walk")) == expected


def test_totals_of_a_damaged_store_are_those_of_its_messages(golden: Path) -> None:
    store = golden / "crash_flipped" / "input"
    reader = rmqcore.read(store)
    assert by_key(stats(store)) == slow_stats(list(reader.messages()))
    assert reader.damage
    kept = slow_stats(list(reader.messages(verify_crc=True)))
    assert by_key(stats(store, mode="DROPMALFORMED")) == kept


def test_totals_of_chosen_messages(golden: Path) -> None:
    store = golden / "basic" / "store"
    reader = rmqcore.read(store)
    wanted = [message for message in reader.messages(tags=["TagA"]) if message.topic.endswith("C")]
    assert by_key(stats(store, tags="TagA", topicsPattern=".*C")) == slow_stats(wanted)


def test_totals_of_many_topics_and_hours(tmp_path: Path) -> None:
    """Rows of one group from several splits, and groups that only one split has."""
    store = BuiltStore(tmp_path, log_file_size=2048)
    for number in range(120):
        store.put(f"T{number % 7}", properties={"TAGS": f"G{number % 13}"})
    store.write_log()
    expected = slow_stats(list(rmqcore.read(tmp_path).messages()))
    assert by_key(stats(tmp_path)) == expected


def test_nothing_gives_no_row(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    assert stats(tmp_path) == []
