"""Live statistics: rates by a clock that the test turns, a store that goes and comes back, groups that read on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.stores.live_log import LiveLog

import rmqcore
from rmqcore import Message
from rmqcore.offline.stats import live as live_module
from rmqcore.offline.stats.live import LiveStats


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(tmp_path: Path) -> LiveLog:
    found = LiveLog(tmp_path / "store", file_size=4096)
    for _ in range(5):
        found.append()
    return found


def test_rates(log: LiveLog, clock: Clock) -> None:
    live = LiveStats(log.root, clock=clock)
    sizes = {}
    for topic, count in (("A", 3), ("B", 1)):
        begin = log.end
        for _ in range(count):
            log.append(topic)
        sizes[topic] = log.end - begin
    clock.now += 2
    sample = live.sample()
    assert [(one.topic, one.messages, one.bytes) for one in sample.topics] == [
        ("A", 3, sizes["A"]),
        ("B", 1, sizes["B"]),
    ]
    assert (sample.seconds, sample.total.messages_per_second) == (2, 2)
    assert sample.topics[0].messages_per_second == 1.5
    assert (sample.min_phy_offset, sample.max_phy_offset, sample.log_bytes) == (0, log.end, log.end)
    assert sample.disk_used_percent >= 0
    clock.now += 1
    log.append("B")
    sample = live.sample()
    assert [(one.topic, one.messages, one.history) for one in sample.topics] == [
        ("B", 1, (1, 1)),
        ("A", 0, (3, 0)),
    ]
    assert sample.total.average_messages_per_second == 5 / 3
    json.dumps(sample.as_dict())


def test_a_topic_goes_with_its_last_sample(
    log: LiveLog, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_module, "KEPT_SAMPLES", 3)
    live = LiveStats(log.root, clock=clock)
    log.append("A")
    seen = []
    for _ in range(5):
        clock.now += 1
        seen.append([one.topic for one in live.sample().topics])
    assert seen == [["A"], ["A"], ["A"], [], []]


def test_topics_are_bounded(log: LiveLog, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "MOST_TOPICS", 2)
    monkeypatch.setattr(live_module, "NAME_ROOM", 1)
    live = LiveStats(log.root, clock=clock)
    for number in range(40):
        log.append(f"T{number % 4}")
    topics = {one.topic: one.messages for one in live.sample().topics}
    assert topics == {"T0": 10, "T1": 10, None: 20}


def test_a_store_that_goes_and_comes_back(log: LiveLog, clock: Clock) -> None:
    live = LiveStats(log.root, clock=clock)
    log.root.rename(log.root.with_name("away"))
    sample = live.sample()
    assert (sample.total.messages, sample.log_file_count) == (0, 0)
    assert "the log has no files now" in sample.problems[0]
    log.root.with_name("away").rename(log.root)
    log.append("A")
    sample = live.sample()
    assert ([one.topic for one in sample.topics], sample.problems, sample.restarts) == (
        ["A"],
        [],
        0,
    )


def test_damage_is_counted(log: LiveLog, clock: Clock) -> None:
    live = LiveStats(log.root, clock=clock)
    bad = log.append(body=b"y" * 100)
    log.write(bad + 100, b"Z")
    log.append()
    sample = live.sample()
    assert (sample.damaged_ranges, sample.total.messages) == (1, 2)


def write_offsets(root: Path, table: Any) -> None:
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": table}))


def test_lag_of_groups_beside_a_writer(tmp_path: Path, clock: Clock) -> None:
    root = tmp_path / "store"
    with rmqcore.open(root, services=False, mapped_file_size_commit_log=1 << 20) as store:
        store.put_many([Message("A", b"x") for _ in range(10)])
        while store.dispatch_once():
            pass
        write_offsets(root, {"A@g": {"0": 4}, "Gone@g": {"0": 1}})
        live = LiveStats(root, clock=clock)
        first = {one.topic: one for one in live.sample().consumers}
        assert (first["A"].lag, first["A"].lost, first["Gone"].beyond) == (6, 0, 1)
        assert first["A"].behind_ms is not None
        store.put_many([Message("A", b"x") for _ in range(5)])
        while store.dispatch_once():
            pass
        write_offsets(root, {"A@g": {"0": 14}})
        clock.now += 1
        sample = live.sample()
        assert [(one.topic, one.lag) for one in sample.consumers] == [("A", 1)]
        assert sample.total.messages == 5
        write_offsets(root, {"A@g": {"0": 15}})
        clock.now += 1
        (group,) = live.sample().consumers
        assert (group.lag, group.first_unread_ms, group.behind_ms) == (0, None, None)
