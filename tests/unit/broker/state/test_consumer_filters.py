"""SQL92 filters of groups in consumerFilter.json: they are there before the first heartbeat after a restart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.broker import FakeLoop

from rmqcore.broker.config_files import ConfigFiles
from rmqcore.broker.state.consumer_filters import (
    DEAD_BEFORE_START_MS,
    FILE,
    FILTER_DATA_CLEAN_TIME_SPAN_MS,
    ConsumerFilters,
)
from rmqcore.disk.paths import StorePaths
from rmqcore.errors import StoreFormatError
from rmqcore.remoting.bodies.heartbeat import SQL92, SubscriptionData

NOW_MS = 1_700_000_000_000


class Home:
    """The filters of a broker in a directory, opened once more at will."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.open()

    def open(self) -> ConsumerFilters:
        self.files = ConfigFiles(StorePaths(self.root), FakeLoop())
        self.filters = ConsumerFilters(self.files, NOW_MS, 1 << 20)
        return self.filters

    def again(self) -> ConsumerFilters:
        self.filters.save_if_changed()
        self.files.close()
        return self.open()

    def write(self, data: Any) -> None:
        path = self.root / "config" / FILE
        path.parent.mkdir(exist_ok=True)
        path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.files.close()


def wants(topic: str, expression: str, version: int = 5) -> SubscriptionData:
    return SubscriptionData(topic, expression, sub_version=version, expression_type=SQL92)


def test_filters_are_there_after_a_restart(home: Home) -> None:
    """A pull without its own expression was refused until the first heartbeat after a restart; Java's broker answers it."""
    home.filters.register("g", [wants("t", "a > 3"), wants("u", "b = 'x'", 9)], NOW_MS - 40_000)
    home.filters.register("h", [wants("t", "c IS NULL")], NOW_MS - 10_000)
    again = home.again()
    found = again.get("g", "t")
    assert found is not None
    assert found.sql_filter.matches({"a": "4"})
    assert not found.sql_filter.matches({"a": "3"})
    assert (found.client_version, found.born_ms) == (5, NOW_MS - 40_000)
    other = again.get("h", "t")
    assert other is not None
    assert found.dead_ms == NOW_MS - DEAD_BEFORE_START_MS
    assert other.dead_ms == other.born_ms == NOW_MS - 10_000  # nobody dies before it is born
    again.register("g", [wants("t", "a > 3")], NOW_MS)
    assert found.dead_ms == 0
    assert len(again) == 3


def test_nothing_is_written_without_a_change(home: Home) -> None:
    path = home.root / "config" / FILE
    home.again()
    assert not path.exists()
    home.filters.register("g", [wants("t", "a > 3")], NOW_MS)
    home.again()
    written = path.stat().st_mtime_ns, path.read_bytes()
    home.filters.register("g", [wants("t", "a > 4", 4)], NOW_MS)  # older than what is known
    home.again()
    assert (path.stat().st_mtime_ns, path.read_bytes()) == written


@pytest.mark.parametrize("change", ["death", "life", "version", "cleaning", "broken"])
def test_each_change_is_written(home: Home, change: str) -> None:
    home.filters.register("g", [wants("t", "a > 3")], NOW_MS)
    if change == "life":
        home.filters.unregister("g", NOW_MS)
    home.again()
    path = home.root / "config" / FILE
    before = path.read_bytes()
    match change:
        case "death":
            home.filters.register("g", [wants("t", "a > 3")], NOW_MS)
            home.filters.unregister("g", NOW_MS + 7)
        case "life":
            home.filters.register("g", [wants("t", "a > 3")], NOW_MS)
        case "version":
            home.filters.register("g", [wants("t", "a > 3", 6)], NOW_MS)
        case "cleaning":
            home.filters.clean(NOW_MS + FILTER_DATA_CLEAN_TIME_SPAN_MS)
        case "broken":
            home.filters.register("g", [wants("t", "a >", 6)], NOW_MS)
    home.again()
    assert path.read_bytes() != before
    assert (home.filters.get("g", "t") is None) == (change in ("cleaning", "broken"))


def test_an_expression_that_is_none_is_left_out(home: Home) -> None:
    filters = {
        "bad": {"expression": "a >", "expressionType": SQL92},
        "good": {"expression": "a > 1", "expressionType": SQL92, "clientVersion": "7"},
        "odd": {"expression": "a > 1", "expressionType": "LUA"},
    }
    home.write({"filterDataByTopic": {"t": {"topic": "t", "groupFilterData": filters}}})
    found = home.open()
    assert len(found) == 1
    good = found.get("good", "t")
    assert good is not None
    assert good.client_version == 7
    told = [
        f"{FILE}: the {kind} filter {text!r} of group {group} for topic t does not compile. It is "
        "skipped."
        for group, kind, text in (("bad", SQL92, "a >"), ("odd", "LUA", "a > 1"))
    ]
    assert home.files.problems == told


@pytest.mark.parametrize(
    "saved",
    [
        "[]",
        "{",
        {"filterDataByTopic": {"t": 3}},
        {"filterDataByTopic": {"t": {"groupFilterData": {"g": {"bornTime": "x"}}}}},
    ],
)
def test_a_file_that_cannot_be_read(home: Home, saved: Any) -> None:
    home.write(saved)
    with pytest.raises(StoreFormatError, match=FILE):
        home.open()
    sound = {"g": {"expression": "a > 1", "expressionType": SQL92}}
    home.write({"filterDataByTopic": {"t": {"groupFilterData": sound}}})
    path = home.root / "config" / FILE
    path.rename(f"{path}.bak")
    home.write(saved)
    assert home.open().get("g", "t") is not None
    assert f"read {FILE}.bak instead" in home.files.problems[0]


def test_filters_of_groups_that_are_gone_have_a_bound(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that came and went with other expressions each time filled the memory for a day."""
    for number in range(1_000):
        home.filters.register(f"g{number}", [wants("t", "a > 3 and " * 20 + "b = 1")], NOW_MS)
        home.filters.unregister(f"g{number}", NOW_MS + number)
    kept = len(home.filters)
    assert 100 < kept < 300
    assert home.filters.get("g999", "t") is not None
    assert home.filters.get("g0", "t") is None
    assert "they exceed maxDeadFilterBytes" in caplog.text
    home.again()
    assert len(home.filters) == kept
    home.filters.register("g999", [wants("t", "a > 3 and " * 20 + "b = 1")], NOW_MS)
    for number in range(1_000):
        home.filters.register(f"h{number}", [wants("t", "a > 3 and " * 20 + "b = 1")], NOW_MS)
        home.filters.unregister(f"h{number}", NOW_MS)
    assert home.filters.get("g999", "t") is not None, "its group is there"
    home.filters.clean(NOW_MS + FILTER_DATA_CLEAN_TIME_SPAN_MS)
    assert len(home.filters) == 1


def test_the_file_is_made_of_a_copy_by_its_thread(home: Home) -> None:
    """The loop made all of it, a millisecond for each fifty filters."""
    home.filters.register("g", [wants("t", "a > 3")], NOW_MS)
    make = home.filters.snapshot()
    home.filters.register("g", [wants("t", "a > 4", 6)], NOW_MS)
    home.filters.register("h", [wants("t", "a > 5")], NOW_MS)
    groups = make()["filterDataByTopic"]["t"]["groupFilterData"]
    assert {name: one["expression"] for name, one in groups.items()} == {"g": "a > 3"}
