"""What tests of columns say of messages: no message that passes the test is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.stores.odd_records import write_odd_store

import rmqcore
from rmqcore import MessageView
from rmqcore.offline.frames.column_conditions import among, between
from rmqcore.offline.log.conditions import Conditions

INT64 = (1 << 63) - 1


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_odd_store(tmp_path_factory.mktemp("odd"))


@pytest.fixture(scope="module")
def views(store: Path) -> list[MessageView]:
    return list(rmqcore.read(store).messages())


def places(store: Path, conditions: Conditions) -> set[int]:
    """Where the messages lie that meet conditions."""
    return {view.phy_offset for view in rmqcore.read(store).messages(**conditions.keywords())}


@pytest.mark.parametrize(
    "column", ["topic", "tags", "queue_id", "phy_offset", "store_timestamp_ms", "uniq_key"]
)
def test_among_loses_nothing_and_is_exact_where_it_says_so(
    store: Path, views: list[MessageView], column: str
) -> None:
    values = {getattr(view, column) for view in views}
    for value in values:
        known = among(column, [value])
        expected = {view.phy_offset for view in views if getattr(view, column) == value}
        if known is None:
            assert value is None or value == "" or "�" in value
        else:
            found = places(store, known.conditions)
            assert found >= expected
            assert found == expected or not known.exact
    several = [value for value in values if among(column, [value]) is not None][:3]
    known = among(column, several)
    assert known is not None
    expected = {view.phy_offset for view in views if getattr(view, column) in several}
    assert places(store, known.conditions) >= expected


def test_a_word_of_keys(store: Path, views: list[MessageView]) -> None:
    for word in ("a", "b", "all", "k3"):
        known = among("keys", [word])
        assert known is not None
        assert not known.exact  # UNIQ_KEY counts as well
        assert places(store, known.conditions) >= {v.phy_offset for v in views if word in v.keys}


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("topic", [None]),
        ("topic", ["a", 3]),
        ("topic", [""]),
        ("topic", ["�"]),
        ("queue_id", ["1"]),
        ("queue_id", [True]),
        ("queue_id", [1.0]),
        ("queue_id", [1 << 63]),
        ("phy_offset", []),
        ("keys", []),
        ("body", [b"b"]),
        ("msg_size", [7]),
    ],
)
def test_what_the_scan_cannot_compare_says_nothing(column: str, values: list[Any]) -> None:
    assert among(column, values) is None


def test_an_empty_list_of_names_is_met_by_nothing(store: Path) -> None:
    for column in ("topic", "tags", "queue_id"):
        known = among(column, [])
        assert known is not None
        assert places(store, known.conditions) == set()
    known = among("queue_id", [1 << 40])
    assert known is not None
    assert places(store, known.conditions) == set()


@given(
    st.sampled_from(["phy_offset", "store_timestamp_ms"]),
    st.none()
    | st.sampled_from([0, 811, -1, INT64, -INT64 - 1, 1 << 70, -(1 << 70)])
    | st.integers(0, 5000),
    st.none()
    | st.sampled_from([0, 811, -1, INT64, -INT64 - 1, 1 << 70, -(1 << 70)])
    | st.integers(0, 5000),
)
def test_between_loses_nothing(
    store: Path, views: list[MessageView], column: str, least: int | None, most: int | None
) -> None:
    conditions = between(column, least, most)
    assert conditions is not None
    expected = {
        view.phy_offset
        for view in views
        if (least is None or getattr(view, column) >= least)
        and (most is None or getattr(view, column) <= most)
    }
    found = places(store, conditions)
    assert found >= expected
    if all(bound is None or abs(bound) <= INT64 for bound in (least, most)):
        assert found == expected


def test_other_columns_have_no_range() -> None:
    assert between("msg_size", 1, 2) is None


conditions = st.builds(
    Conditions,
    topics=st.none() | st.frozensets(st.sampled_from(["TopicA", "topic", "日本"])),
    queue_ids=st.none() | st.frozensets(st.sampled_from([0, 1, 7])),
    tags=st.none() | st.frozensets(st.sampled_from(["Tag0", "Tag1", "TagA"])),
    keys=st.none() | st.frozensets(st.sampled_from(["a", "b", "all"])),
    since_ms=st.none() | st.sampled_from([0, 1_700_000_010_000]),
    until_ms=st.none() | st.sampled_from([1, 1_700_000_012_000]),
    start_phy_offset=st.none() | st.sampled_from([0, 3000, 7000]),
    end_phy_offset=st.none() | st.sampled_from([0, 5000, 9000]),
)


@given(conditions, conditions)
def test_either_holds_where_one_of_two_does(
    store: Path, left: Conditions, right: Conditions
) -> None:
    assert places(store, left.either(right)) >= places(store, left) | places(store, right)


@given(conditions)
def test_either_of_the_same_is_the_same(one: Conditions) -> None:
    assert one.either(one) == one
    assert one.either(Conditions()) == Conditions()
