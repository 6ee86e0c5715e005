"""The name that was meant: one rule for settings, options, columns, topics and times."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.places import ROOT

from rmqcore.errors.near_names import did_you_mean, nearest, nearest_names, with_the_meant

NAMES = ["maxIndexNum", "maxHashSlotNum", "Orders", "orders-retry", "Zahlungen"]
PACKAGE = ROOT / "rmqcore"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("maxIndexNun", "maxIndexNum"),
        ("maxindexnum", "maxIndexNum"),
        ("Ordres", "Orders"),
        ("ORDERS", "Orders"),
        ("ZAHLUNG", "Zahlungen"),
        ("qqq", None),
        ("", None),
    ],
)
def test_the_nearest(typed: str, meant: str | None) -> None:
    assert nearest(typed, NAMES) == meant


def test_as_the_end_of_an_error() -> None:
    assert did_you_mean("Ordres", NAMES) == "; did you mean Orders?"
    assert did_you_mean("Ordres", NAMES, shown=repr) == "; did you mean 'Orders'?"
    assert did_you_mean("qqq", NAMES) == ""
    assert did_you_mean("qqq", NAMES, otherwise="; all are listed") == "; all are listed"
    assert did_you_mean("Ordes", NAMES, likeness=0.99) == ""


def test_in_the_middle_of_an_error() -> None:
    assert with_the_meant(["Ordres", "qqq", 3], iter(NAMES)) == (
        "'Ordres' (did you mean 'Orders'?), 'qqq', 3"
    )


def test_several() -> None:
    assert nearest_names("order", NAMES, most=3, likeness=0.4) == ["Orders", "orders-retry"]
    assert nearest_names("order", iter(NAMES), most=1) == ["Orders"]


@given(st.lists(st.text(max_size=12), max_size=8), st.text(max_size=12))
def test_what_is_given_is_known(known: list[str], typed: str) -> None:
    found = nearest(typed, known)
    assert found is None or found in known
    if typed and typed in known:
        assert found is not None and found.casefold() == typed.casefold()


def test_it_is_spelled_once() -> None:
    """It was in eight places, with three likenesses, one of which took no notice of capitals."""
    users = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if "difflib" in path.read_text(encoding="utf-8")
    }
    assert users == {"errors/near_names.py"}


def test_so_is_the_code_of_an_interrupt() -> None:
    users = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if any(
            isinstance(node, ast.Constant) and node.value == 130
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        )
    }
    assert users == {"errors/exit_codes.py"}
