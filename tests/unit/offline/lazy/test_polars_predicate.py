"""Predicates as a user writes them, before Polars makes them simpler: what they say of messages."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from rmqcore.offline.lazy.polars_predicate import MOST_DEPTH, conditions_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HALF = EPOCH + timedelta(microseconds=5500)
col, lit = pl.col, pl.lit
time = col("store_timestamp")


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        # A part of a millisecond is rounded both ways: Polars compares with its milliseconds alone.
        (time >= HALF, {"since_ms": 5}),
        (time > HALF, {"since_ms": 5}),
        (time <= HALF, {"until_ms": 7}),
        (time == HALF, {"since_ms": 5, "until_ms": 7}),
        (lit(HALF) < time, {"since_ms": 5}),
        (time.is_between(lit(EPOCH), lit(HALF)), {"since_ms": 0, "until_ms": 7}),
        (time.is_in([EPOCH, HALF, None]), {"since_ms": 0, "until_ms": 7}),
        (time > lit(HALF).dt.cast_time_unit("ns"), {}),  # no literal yet
        (time > lit(1, dtype=pl.Datetime("ns", "UTC")), {"since_ms": 0}),
        (time > datetime(1970, 1, 1), {}),  # noqa: DTZ001 - an error of Polars where there is a row
        (time > date(1970, 1, 1), {}),
        (time > 5, {}),
        (time.is_between(col("born_timestamp"), lit(HALF)), {}),
        (col("store_timestamp_ms") > 5, {"since_ms": 5}),
        (col("store_timestamp_ms") <= 2**63 - 1, {}),
        (col("store_timestamp_ms") > lit(2**64 - 1, dtype=pl.UInt64), {}),
        (col("store_timestamp_ms") > 5.5, {}),
        (col("store_timestamp_ms") > HALF, {}),
        # A null equals nothing, but where it is said to.
        (col("tags").eq_missing(lit(None)), {}),
        (col("tags") == lit(None), {}),
        (col("tags").is_in([None]), {"tags": set()}),
        (col("tags").is_in(["TagA", None]), {"tags": {"TagA"}}),
        (col("tags").is_in(["TagA", None], nulls_equal=True), {}),
        (col("tags") == lit("TagA"), {"tags": {"TagA"}}),
        (col("queue_id").is_in([]), {"queue_ids": set()}),
        (col("queue_id") == 1.0, {}),
        (col("queue_id").is_in([1.0]), {}),
        (col("queue_id").is_in([None, Decimal("1.0")]), {}),
        (col("topic").is_in([b"T"]), {}),
        (col("topic").is_in(pl.Series(["T"], dtype=pl.Categorical).implode()), {}),
        (col("queue_id") == Decimal("1.0"), {}),
        (col("queue_id") == True, {}),  # noqa: E712
        (col("queue_id").cast(pl.Int64) == 1, {}),
        (col("queue_id") == lit(pl.Series([1, 2])), {"queue_ids": {1, 2}}),
        (col("keys") == lit(pl.Series([["a", "b"]])), {"keys": {"a", "b"}}),
        (col("keys").list.contains(lit(None)), {}),
        (col("body") == b"b", {}),
        (col("topic"), {}),
        (lit(True), {}),
    ],
)
def test_what_a_predicate_says(predicate: pl.Expr, expected: dict[str, Any]) -> None:
    assert conditions_of(predicate).keywords() == expected


def test_predicates_have_a_depth_of_which_more_says_nothing() -> None:
    predicate = deep = col("queue_id") == 1
    for number in range(2 * MOST_DEPTH):
        deep = (col("msg_size") > number) & deep
    assert conditions_of(deep & predicate).keywords() == {"queue_ids": {1}}
    assert conditions_of(deep).keywords() == {}
