"""`Conditions`: the one set of filter conditions that reader, command line and Spark share."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from rmqcore._native.scan.filter import Filter
from rmqcore.cli.common import arguments
from rmqcore.offline.export.export import export
from rmqcore.offline.log.conditions import Conditions
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.reader import StoreReader
from rmqcore.offline.tail import LogTail

NAMES = [field.name for field in fields(Conditions)]


@pytest.mark.parametrize("function", [StoreReader.messages, StoreReader.batches, export])
def test_each_reader_takes_every_condition_by_its_name(function: Callable[..., Any]) -> None:
    parameters = inspect.signature(function).parameters
    assert [name for name in parameters if name in NAMES] == NAMES
    assert {parameters[name].kind for name in NAMES} == {inspect.Parameter.KEYWORD_ONLY}


def test_a_tail_takes_every_condition_but_the_range_of_offsets() -> None:
    taken = [name for name in inspect.signature(LogTail).parameters if name in NAMES]
    assert taken == [name for name in NAMES if not name.endswith("phy_offset")]


def test_made_of_what_a_caller_gives() -> None:
    made = Conditions.of(["a", "b"], 3, iter(["t"]), {"k"}, 1, 2, 3, 4)
    texts = {"topics": {"a", "b"}, "queue_ids": {3}, "tags": {"t"}, "keys": {"k"}}
    ranges = {"since_ms": 1, "until_ms": 2, "start_phy_offset": 3, "end_phy_offset": 4}
    assert made.keywords() == {**texts, **ranges}
    assert Conditions.of(**made.keywords()) == made
    assert pickle.loads(pickle.dumps(made)) == made
    assert isinstance(made.native(), Filter)


def test_nothing_given_accepts_every_message() -> None:
    everything = Conditions.of(None, None, None, None)
    assert everything == Conditions()
    assert everything.native() is None
    assert everything.keywords() == {}


def test_an_empty_set_accepts_no_message() -> None:
    """Not to be confused with None: Spark's `topic IN ()` must find nothing."""
    assert Conditions.of([], None, None, None).keywords() == {"topics": frozenset()}
    assert Conditions.of([], None, None, None).native() is not None


@pytest.mark.parametrize("place", [0, 2, 3])
def test_a_str_is_not_taken_for_its_letters(place: int) -> None:
    given: list[Any] = [None] * 4
    given[place] = "Orders"
    with pytest.raises(TypeError, match="expected an iterable of str, got the str 'Orders'"):
        Conditions.of(*given)


def test_both_hold() -> None:
    left = Conditions.of(["a", "b"], [0, 1], None, ["k"], 10, None, 100, 900)
    right = Conditions.of(["b", "c"], None, ["t"], ["other"], 5, 20, 200, 1000)
    assert left.and_also(right) == Conditions.of(["b"], [0, 1], ["t"], ["k"], 10, 20, 200, 900)
    assert left.and_also(Conditions()) == left
    assert Conditions().and_also(left) == left


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (None, None, True),
        (199, None, True),
        (200, None, False),
        (None, 101, True),
        (None, 100, False),
        (150, 160, True),
    ],
)
def test_damage_in_the_range(start: int | None, end: int | None, expected: bool) -> None:
    damage = DamageRange(100, 200, "magic", "file", "MAGICCODE", 1, 2)
    conditions = Conditions(start_phy_offset=start, end_phy_offset=end)
    assert conditions.overlaps(damage) is expected


def test_options_of_a_verb() -> None:
    """An option that may be given several times is an empty list or None when it is not given at all."""
    assert arguments.conditions([], None, [], None, None, None) == Conditions()
    asked = arguments.conditions(["a"], [1], ["t"], ["k"], 1, 2, 3, 4)
    assert asked == Conditions.of(["a"], [1], ["t"], ["k"], 1, 2, 3, 4)
