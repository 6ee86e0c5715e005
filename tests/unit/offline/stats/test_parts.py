"""The parts of the statistics by themselves: distinct values, histograms, timelines, the lag of groups."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from conftest import StoreCopy
from hypothesis import given
from hypothesis import strategies as st
from support.oracle.strategies import int64
from support.stores.store_maker import START_MS

import rmqcore
from rmqcore import Message
from rmqcore.offline.reader import StoreReader
from rmqcore.offline.stats import ConsumerLag, stats
from rmqcore.offline.stats.buckets import bucket_of, clip_ms, quantile
from rmqcore.offline.stats.distinct import counted_pairs, distinct, distinct_pairs
from rmqcore.offline.stats.pair_counts import PairCounts
from rmqcore.offline.stats.timeline import WIDTHS_MS, Timeline

VALUES = st.lists(int64 | st.integers(-50, 50), min_size=1, max_size=60)


@given(values=VALUES)
def test_distinct_values(values: list[int]) -> None:
    found, places = distinct(np.array(values, np.int64))
    assert found.tolist() == sorted(set(values))
    assert found[places].tolist() == values


@given(pairs=st.lists(st.tuples(st.integers(-9, 9), int64), min_size=1, max_size=60))
def test_distinct_pairs(pairs: list[tuple[int, int]]) -> None:
    columns = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    first, second, places = distinct_pairs(*columns)
    found = list(zip(first.tolist(), second.tolist(), strict=True))
    assert found == sorted(set(pairs))
    assert [found[place] for place in places] == pairs


@given(
    pairs=st.lists(
        st.tuples(st.integers(0, 6), int64 | st.integers(-9, 9)), min_size=1, max_size=60
    )
)
def test_counted_pairs(pairs: list[tuple[int, int]]) -> None:
    places, values = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    of_pair, value, counts = counted_pairs(places, 7, values)
    found = zip(of_pair.tolist(), value.tolist(), counts.tolist(), strict=True)
    assert list(found) == sorted((*pair, count) for pair, count in Counter(pairs).items())


@given(
    batches=st.lists(
        st.lists(
            st.tuples(st.integers(0, 5), st.integers(-(2**43), 2**43)), min_size=1, max_size=30
        ),
        min_size=1,
        max_size=5,
    )
)
def test_quantiles_of_many_groups_are_those_of_one(batches: list[list[tuple[int, int]]]) -> None:
    counts = PairCounts()
    for batch in batches:
        groups, places = distinct(np.array([group for group, _ in batch], np.int64))
        counts.add(groups, places, bucket_of(clip_ms(np.array([value for _, value in batch]))))
    rows = [row for batch in batches for row in batch]
    for share in (0.5, 0.99, 1.0):
        found = counts.quantiles(share, 7)
        for group in range(7):
            values = clip_ms(np.array([value for other, value in rows if other == group], np.int64))
            if not len(values):
                assert np.isnan(found[group])
                continue
            of_bucket = sorted(Counter(bucket_of(values).tolist()).items())
            numbers, each = [number for number, _ in of_bucket], [count for _, count in of_bucket]
            assert found[group] == quantile(numbers, each, share)


@given(
    times=st.lists(st.integers(START_MS, START_MS + 10**9), min_size=1, max_size=40),
    most=st.integers(2, 50),
)
def test_a_timeline_has_every_message_in_its_bucket(times: list[int], most: int) -> None:
    timeline = Timeline()
    for at in times:
        timeline.add(np.array([at], np.int64), np.array([7], np.int32))
    width, buckets = timeline.buckets(most)
    assert width in WIDTHS_MS
    assert len(buckets) <= most
    assert all(
        bucket.begin_ms == buckets[0].begin_ms + number * width
        for number, bucket in enumerate(buckets)
    )
    expected = Counter(at // width * width for at in times)
    assert {bucket.begin_ms: bucket.messages for bucket in buckets if bucket.messages} == expected
    assert sum(bucket.bytes for bucket in buckets) == 7 * len(times)


def test_few_times_of_damage_do_not_hide_the_others() -> None:
    timeline = Timeline()
    times = [START_MS + at for at in range(5000)]
    timeline.add(
        np.array([*times, 0, -(1 << 63), (1 << 63) - 1], np.int64), np.full(5003, 1, np.int32)
    )
    width, buckets = timeline.buckets(60)
    assert width <= 200
    assert sum(bucket.messages for bucket in buckets) == 5003
    assert buckets[0].begin_ms <= START_MS


# ---- the lag of groups ------------------------------------------------------------------------------


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    """Ten messages of queue 0 and four of queue 1, a second apart."""
    root = tmp_path / "store"
    now = [START_MS]

    with rmqcore.open(root, services=False, mapped_file_size_commit_log=1 << 20) as store:
        for number in range(14):
            store.put(Message("A", b"x", queue_id=int(number >= 10)))
            now[0] += 1000
        while store.dispatch_once():
            pass
    return root


def lags(root: Path, table: object, **conditions: object) -> list[ConsumerLag]:
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": table}))
    return stats(root, **conditions).consumers  # type: ignore[arg-type]


def test_lag(groups: Path) -> None:
    reader = StoreReader(groups)
    views = list(reader.messages())
    (found,) = lags(groups, {"A@g": {"0": 7, "1": 4}})
    first = next(view for view in views if (view.queue_id, view.queue_offset) == (0, 7))
    newest = views[-1].store_timestamp_ms
    assert found == ConsumerLag(
        "g", "A", 2, 3, 0, first.store_timestamp_ms, newest - first.store_timestamp_ms, 0
    )


def test_filters_choose_queues(groups: Path) -> None:
    table = {"A@g": {"0": 7, "1": 1}, "B@g": {"0": 0}}
    assert [(one.topic, one.lag) for one in lags(groups, table, topics=["A"])] == [("A", 6)]
    assert [(one.topic, one.lag) for one in lags(groups, table, queue_ids=[1])] == [("A", 3)]
    (by_tag, _) = lags(groups, table, tags=["none"])
    assert by_tag.lag == 6
    assert by_tag.behind_ms is not None


def test_offsets_that_lie_beyond_or_lead_nowhere(groups: Path) -> None:
    table = {
        "A@g": {"0": 11, "1": 4, "9": 1},
        "../../x@g": {"0": 3},
        "\0@g": {"0": 1},
        "A@h": {"0": 10},
    }
    found = {(one.group, one.topic): (one.lag, one.beyond) for one in lags(groups, table)}
    assert found == {
        ("g", "A"): (0, 2),
        ("g", "../../x"): (0, 1),
        ("g", "\0"): (0, 1),
        ("h", "A"): (0, 0),
    }


def test_messages_that_were_deleted_unread(store_copy: StoreCopy) -> None:
    store = store_copy("crash_expired", "recovered")
    queue = next(
        queue for queue in StoreReader(store).queues() if 0 < queue.min_offset < queue.max_offset
    )
    (found,) = lags(store, {f"{queue.topic}@g": {str(queue.queue_id): 0}})
    assert (found.lag, found.lost) == (queue.max_offset, queue.min_offset)
    view = next(
        view
        for view in StoreReader(store).messages(topics=[queue.topic], queue_ids=[queue.queue_id])
        if view.queue_offset == queue.min_offset
    )
    assert found.first_unread_ms == view.store_timestamp_ms
