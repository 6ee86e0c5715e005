"""What a broker counts, and what becomes of it with time."""

from __future__ import annotations

import pytest
from support.broker import FakeLoop

from rmqcore.broker.state.stats import (
    BROKER_GET_NUMS,
    BROKER_PUT_NUMS,
    GROUP_GET_NUMS,
    GROUP_GET_SIZE,
    SNDBCK_PUT_NUMS,
    TOPIC_PUT_NUMS,
    TOPIC_PUT_SIZE,
    BrokerStats,
    StatsSnapshot,
    minute_tps,
    snapshot,
)

MOST_ITEMS = 1_000


class Counted:
    """Counters with a clock, which are sampled as a broker does it."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.stats = BrokerStats("c", self.loop.clock, lambda topic: topic == "system", MOST_ITEMS)

    def pass_seconds(self, seconds: int) -> None:
        for second in range(1, seconds + 1):
            self.loop.now_ms += 1_000
            self.stats.every_second()
            if second % 10 == 0:
                self.stats.every_ten_seconds()


@pytest.fixture
def counted() -> Counted:
    return Counted()


def test_what_is_counted_for_topics_and_groups(counted: Counted) -> None:
    stats = counted.stats
    stats.topic_put("t", 3, 600)
    stats.group_get("g", "t", 2, 400)
    stats.send_back("g", "t")
    stats.broker_put(3)
    stats.broker_get(2)
    stats.broker_get(0)
    values = {
        (name, key): (item.value, item.times)
        for name, key in [
            (TOPIC_PUT_NUMS, "t"),
            (TOPIC_PUT_SIZE, "t"),
            (GROUP_GET_NUMS, "t@g"),
            (GROUP_GET_SIZE, "t@g"),
            (SNDBCK_PUT_NUMS, "t@g"),
            (BROKER_PUT_NUMS, "c"),
            (BROKER_GET_NUMS, "c"),
        ]
        if (item := stats.item(name, key)) is not None
    }
    assert list(values.values()) == [(3, 1), (600, 1), (2, 1), (400, 1), (1, 1), (3, 1), (2, 1)]
    assert (stats.put, stats.put_bytes, stats.transferred) == (3, 600, 2)
    assert (stats.found, stats.missed) == (1, 1)
    assert stats.item("NO_SUCH_NAME", "t") is None
    assert stats.item(TOPIC_PUT_NUMS, "other") is None


def test_a_minute(counted: Counted) -> None:
    for _ in range(12):
        counted.stats.topic_put("t", 5, 100)
        counted.pass_seconds(10)
    item = counted.stats.item(TOPIC_PUT_NUMS, "t")
    assert item is not None
    assert snapshot(item.minute) == StatsSnapshot(sum=30, tps=0.5, times=6, avgpt=5.0)
    assert minute_tps(item) == 0.5
    counted.pass_seconds(70)
    assert snapshot(item.minute) == StatsSnapshot()
    assert minute_tps(None) == 0.0


def test_hours_and_days(counted: Counted) -> None:
    counted.stats.topic_put("t", 36, 100)
    item = counted.stats.item(TOPIC_PUT_NUMS, "t")
    assert item is not None
    counted.pass_seconds(599)
    assert snapshot(item.hour) == StatsSnapshot()
    counted.pass_seconds(11)
    assert snapshot(item.hour).sum == 36
    counted.pass_seconds(3_600)
    assert snapshot(item.hour).sum == 0
    assert snapshot(item.day) == StatsSnapshot(sum=36, tps=0.01, times=1, avgpt=36.0)


def test_the_first_minute_counts_from_nothing(counted: Counted) -> None:
    """Java has a moment of zeros before the first one, or nothing would be seen for twenty seconds."""
    counted.stats.topic_put("t", 20, 100)
    counted.pass_seconds(10)
    item = counted.stats.item(TOPIC_PUT_NUMS, "t")
    assert item is not None
    assert snapshot(item.minute) == StatsSnapshot(sum=20, tps=2.0, times=1, avgpt=20.0)


def test_rates(counted: Counted) -> None:
    assert counted.stats.rate("put", 10) == 0.0
    counted.stats.broker_put(100)
    counted.pass_seconds(10)
    assert counted.stats.rate("put", 10) == 10.0
    assert counted.stats.rate("put", 60) == 0.0
    counted.pass_seconds(50)
    assert counted.stats.rate("put", 10) == 0.0
    assert counted.stats.rate("put", 60) == pytest.approx(100 / 60)
    counted.pass_seconds(1_000)
    assert counted.stats.rate("put", 600) == 0.0


def test_what_is_kept_does_not_grow_with_time(counted: Counted) -> None:
    counted.stats.topic_put("t", 1, 1)
    counted.pass_seconds(26 * 3_600)
    item = counted.stats.item(TOPIC_PUT_NUMS, "t")
    assert item is not None
    assert (len(item.minute), len(item.hour), len(item.day)) == (7, 7, 25)


def test_days_begin_anew(counted: Counted) -> None:
    day_s = 86_400
    counted.stats.topic_put("t", 7, 1)
    counted.stats.topic_put("system", 50, 1)
    counted.stats.group_get("g", "t", 4, 1)
    counted.stats.group_get("g", "system", 50, 1)
    counted.pass_seconds(day_s)
    assert (counted.stats.put_days.yesterday_morning, counted.stats.put_days.today_morning) == (
        0,
        7,
    )
    assert counted.stats.get_days.today_morning == 4
    counted.stats.topic_put("t", 3, 1)
    counted.pass_seconds(day_s)
    assert counted.stats.put_days.yesterday_morning == 7
    assert counted.stats.put_days.today_morning == 10


def test_what_is_deleted_is_forgotten(counted: Counted) -> None:
    stats = counted.stats
    for topic in ("t", "t2"):
        stats.topic_put(topic, 1, 1)
        for group in ("g", "g2"):
            stats.group_get(group, topic, 1, 1)
            stats.send_back(group, topic)
    stats.broker_put(1)
    stats.topic_deleted("t")
    assert stats.keys(TOPIC_PUT_NUMS) == stats.keys(TOPIC_PUT_SIZE) == ["t2"]
    assert stats.keys(GROUP_GET_NUMS) == ["t2@g", "t2@g2"]
    stats.group_deleted("g")
    for name in (GROUP_GET_NUMS, GROUP_GET_SIZE, SNDBCK_PUT_NUMS):
        assert stats.keys(name) == ["t2@g2"]
    assert stats.keys(BROKER_PUT_NUMS) == ["c"]


def test_counters_that_rest_for_longer_than_a_day_are_forgotten(counted: Counted) -> None:
    """Each pair of topic and group that was ever read had its counters until the broker ended."""
    counted.stats.group_get("g", "t", 1, 1)
    counted.stats.topic_put("t", 1, 1)
    for _ in range(28):
        counted.pass_seconds(3_600)
        counted.stats.topic_put("t", 1, 1)
    assert counted.stats.item(GROUP_GET_NUMS, "t@g") is None
    assert counted.stats.item(GROUP_GET_SIZE, "t@g") is None
    assert counted.stats.item(TOPIC_PUT_NUMS, "t") is not None


def test_above_the_bound_the_counters_go_that_rest_for_longest(
    counted: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    counted.stats.broker_put(1)
    counted.stats.send_back("old", "t")
    counted.pass_seconds(10)
    counted.stats.send_back("new", "t")
    counted.pass_seconds(10)
    for number in range(10 * MOST_ITEMS):
        counted.stats.send_back(f"g{number}", "t")
        counted.stats.send_back("new", "t")
        if number % 100 == 0:
            counted.pass_seconds(10)
    assert counted.stats.item(SNDBCK_PUT_NUMS, "t@old") is None
    assert counted.stats.item(SNDBCK_PUT_NUMS, "t@new") is not None
    assert len(counted.stats.keys(SNDBCK_PUT_NUMS)) <= MOST_ITEMS
    assert counted.stats.item(BROKER_PUT_NUMS, "c") is not None
    assert "more than maxStatsItems (1000)" in caplog.text
    counted.stats.topic_deleted("t")
    assert counted.stats.keys(SNDBCK_PUT_NUMS) == []
