"""Filters of Spark: what the scan takes gives exactly the rows that Spark's own test of the filter would leave."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import datasource as ds
from support.spark.spark_rows import Row, golden_rows, message_rows, only, store_of, time_of
from support.spark.spark_tables import read_table, rows_of, table_of

import rmqcore
from rmqcore import Message
from rmqcore.spark.rows.pushdown import take_filters
from rmqcore.spark.runtime.versions import PUSH_FILTERS, pyspark_version

if pyspark_version() < PUSH_FILTERS:
    pytest.skip("PySpark hands no filters down", allow_module_level=True)

MIDDLE = time_of(1700086685963)


def eq(name: str, value: Any) -> ds.EqualTo:
    return ds.EqualTo((name,), value)


def holds(condition: ds.Filter, row: Row) -> bool:
    """Whether a row passes a filter, by what the filter means."""
    if isinstance(condition, ds.Not):
        found = _truth(condition.child, row)
        return found is False
    return _truth(condition, row) is True


def _truth(condition: Any, row: Row) -> bool | None:
    value = row[condition.attribute[0]]
    if isinstance(condition, ds.IsNotNull):
        return value is not None
    if isinstance(condition, ds.EqualNullSafe):
        return bool(value == condition.value)
    if value is None:
        return None
    tests: dict[type, Callable[[Any, Any], bool]] = {
        ds.EqualTo: lambda a, b: a == b,
        ds.In: lambda a, b: a in b,
        ds.GreaterThan: lambda a, b: a > b,
        ds.GreaterThanOrEqual: lambda a, b: a >= b,
        ds.LessThan: lambda a, b: a < b,
        ds.LessThanOrEqual: lambda a, b: a <= b,
        ds.StringStartsWith: lambda a, b: a.startswith(b),
    }
    return tests[type(condition)](value, condition.value)


TAKEN = [
    eq("topic", "TopicBasicA"),
    eq("topic", "Nothing"),
    ds.EqualNullSafe(("topic",), "TopicBasicB"),
    ds.In(("topic",), ("TopicBasicA", "TopicBasicC", None)),
    ds.In(("topic",), ()),
    eq("queue_id", 2),
    eq("queue_id", -1),
    ds.In(("queue_id",), (0, 3, 1 << 40)),
    eq("tags", "TagA"),
    ds.In(("tags",), ("TagA", "TagB")),
    eq("broker", "basic"),
    eq("broker", "other"),
    eq("phy_offset", 811),
    eq("phy_offset", 812),
    ds.GreaterThan(("phy_offset",), 811),
    ds.GreaterThanOrEqual(("phy_offset",), 811),
    ds.LessThan(("phy_offset",), 200_000),
    ds.LessThanOrEqual(("phy_offset",), (1 << 63) - 1),
    ds.GreaterThan(("phy_offset",), (1 << 63) - 1),
    ds.IsNotNull(("phy_offset",)),
    eq("store_timestamp", MIDDLE),
    *(
        kind(("store_timestamp",), MIDDLE + timedelta(microseconds=micros))
        for kind in (ds.GreaterThan, ds.GreaterThanOrEqual, ds.LessThan, ds.LessThanOrEqual)
        for micros in (-1, 0, 1, 999)
    ),
]
LEFT = [
    ds.EqualNullSafe(("topic",), None),
    ds.IsNotNull(("tags",)),
    eq("topic", ""),
    eq("topic", "Topic�"),
    eq("keys", "key-0-0 hot9"),
    eq("uniq_key", "43372F2426E9E094A911CBF9E2D1263C"),
    eq("msg_size", 811),
    eq("store_timestamp", MIDDLE + timedelta(microseconds=1)),
    ds.In(("store_timestamp",), (MIDDLE, MIDDLE + timedelta(seconds=2))),
    ds.In(("phy_offset",), (0, 811, 1568, 5)),
    ds.StringStartsWith(("topic",), "Topic"),
    ds.Not(eq("queue_id", 1)),
    ds.GreaterThan(("queue_id",), 1),
    eq("queue_offset", 3),
]


@pytest.fixture(scope="module")
def rows(golden: Path) -> list[Row]:
    found = golden_rows(golden, "basic")
    assert any(row["store_timestamp"] == MIDDLE for row in found)
    return found


def scanned(golden: Path, filters: list[ds.Filter]) -> tuple[list[Row], list[ds.Filter]]:
    """Rows that the scan gives, and filters that are left to Spark."""
    names = (
        "topic,queue_id,queue_offset,tags,broker,phy_offset,store_timestamp,keys,uniq_key,msg_size"
    )
    table = table_of(store_of(golden, "basic"), columns=names)
    left = table.push_filters(filters)
    return rows_of(table), left


@pytest.mark.parametrize("one", TAKEN, ids=str)
def test_a_filter_that_is_taken_is_applied_exactly(
    golden: Path, rows: list[Row], one: ds.Filter
) -> None:
    found, left = scanned(golden, [one])
    assert left == []
    assert [row["phy_offset"] for row in found] == [r["phy_offset"] for r in rows if holds(one, r)]


@pytest.mark.parametrize("one", LEFT, ids=str)
def test_a_filter_that_is_left_loses_no_row(golden: Path, rows: list[Row], one: ds.Filter) -> None:
    found, left = scanned(golden, [one])
    assert left == [one]
    assert [r["phy_offset"] for r in found if holds(one, r)] == [
        r["phy_offset"] for r in rows if holds(one, r)
    ]


def test_filters_that_are_left_narrow_the_scan_where_they_can(golden: Path) -> None:
    for condition, most in (
        (eq("keys", "key-0-0 hot9"), 1),
        (eq("uniq_key", "43372F2426E9E094A911CBF9E2D1263C"), 1),
        (ds.In(("phy_offset",), (0, 811, 1568)), 4),
    ):
        found, left = scanned(golden, [condition])
        assert left == [condition]
        assert 1 <= len(found) <= most


@given(
    st.lists(
        st.sampled_from([*TAKEN, *LEFT]).filter(lambda condition: "broker" not in str(condition)),
        max_size=4,
    )
)
def test_any_filters_together(golden: Path, filters: list[ds.Filter]) -> None:
    found, left = scanned(golden, filters)
    rows = golden_rows(golden, "basic")
    assert [r["phy_offset"] for r in found if all(holds(condition, r) for condition in left)] == [
        r["phy_offset"] for r in rows if all(holds(condition, r) for condition in filters)
    ]


def test_not_null_goes_with_the_equality_that_implies_it() -> None:
    taken = take_filters([ds.IsNotNull(("tags",)), eq("tags", "TagA")])
    assert taken.left == []
    assert taken.conditions.tags == frozenset({"TagA"})
    assert take_filters([ds.IsNotNull(("tags",)), eq("topic", "t")]).left == [
        ds.IsNotNull(("tags",))
    ]


def test_times_without_a_zone_and_nested_columns_are_left() -> None:
    odd = [
        ds.GreaterThan(("store_timestamp",), datetime(2024, 1, 1)),  # noqa: DTZ001
        ds.EqualTo(("properties", "topic"), "x"),
        eq("topic", 7),
        eq("queue_id", True),
    ]
    assert take_filters(odd).left == odd


def test_times_that_are_null_for_spark_pass_no_filter(tmp_path: Path) -> None:
    """A time that microseconds cannot hold is null in the column, and nothing compares with null; the scan has milliseconds."""
    last = ((1 << 63) - 1) // 1000
    times = iter([1000, last, last + 1, (1 << 63) - 1])
    root = tmp_path / "store"
    with rmqcore.open(root, mapped_file_size_commit_log=65536, clock=lambda: next(times)) as store:
        for _ in range(4):
            store.put(Message("t", b""))
    table = table_of(root, columns="phy_offset")
    begin = datetime(1970, 1, 1, tzinfo=UTC)
    assert table.push_filters([ds.GreaterThanOrEqual(("store_timestamp",), begin)]) == []
    assert len(rows_of(table)) == 2


def test_a_filter_without_a_time_leaves_no_time_out(tmp_path: Path) -> None:
    """A missing limit was taken for an exclusive one: any filter left out the records of the last possible millisecond."""
    root = tmp_path / "store"
    with rmqcore.open(
        root, mapped_file_size_commit_log=65536, clock=lambda: (1 << 63) - 1
    ) as store:
        store.put(Message("t", b""))
    assert len(read_table(root, columns="phy_offset", topics="t")) == 1
    with rmqcore.read(root) as reader:
        assert len(list(reader.messages(queue_ids=[0]))) == 1


def test_options_hold_beside_filters(golden: Path) -> None:
    table = table_of(
        store_of(golden, "basic"), columns="phy_offset", topics="TopicBasicA", keys="hot9"
    )
    table.push_filters([eq("queue_id", 0), eq("keys", "key-0-0 hot9")])
    expected = message_rows(
        store_of(golden, "basic"), topics=["TopicBasicA"], queue_ids=[0], keys=["hot9"]
    )
    assert rows_of(table) == only(expected, "phy_offset")


def test_other_tables_take_no_filter(golden: Path) -> None:
    filters = [eq("topic", "TopicBasicA")]
    assert table_of(store_of(golden, "basic"), table="queues").push_filters(filters) == filters
