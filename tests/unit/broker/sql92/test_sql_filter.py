"""Filter expressions where no Java is needed to judge them: examples, places of mistakes, texts from strangers."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqcore.broker.sql92.parser import MAX_DEPTH, MAX_NESTED
from rmqcore.broker.sql92.sql_filter import SqlFilter
from rmqcore.errors import FilterExpressionError


@pytest.mark.parametrize(
    ("text", "properties", "value"),
    [
        ("price BETWEEN 10 AND 20", {"price": "10"}, True),
        ("price BETWEEN 10 AND 20", {"price": "21"}, False),
        ("price BETWEEN 10 AND 20", {}, None),
        ("price NOT BETWEEN 10 AND 20", {"price": "21"}, True),
        ("region IN ('eu', 'us') AND price > 1.5", {"region": "us", "price": "2"}, True),
        ("region NOT IN ('eu', 'us')", {"region": "us"}, False),
        ("region IN ('eu')", {}, None),
        ("a IS NULL OR a = 'x'", {}, True),
        ("a IS NOT NULL", {"a": ""}, True),
        ("NOT (a = 'x')", {"a": "x"}, False),
        ("a <> 'x'", {}, None),
        ("a CONTAINS 'b' AND a STARTSWITH 'a' AND a ENDSWITH 'c'", {"a": "abc"}, True),
        ("a NOT CONTAINS 'x'", {}, False),
        ("a = 'it''s'", {"a": "it's"}, True),
        ("a > 1 OR b > 1", {"b": "2"}, True),
        ("a > 1 OR b > 1", {"b": "1"}, None),
        ("a > 1 AND b > 1", {"b": "1"}, False),
        ("a > b", {"a": "10", "b": "9"}, True),
        ("a = 5", {"a": "5"}, True),
        ("a = 5.0", {"a": "5"}, True),
        ("flag = TRUE", {"flag": "True"}, True),
        ("a = 1 OR a = 2 OR a = 3 AND b = 1", {"a": "3", "b": "2"}, False),
        ("a and b", {"a": "true", "b": "true"}, False),
    ],
)
def test_examples(text: str, properties: dict[str, str], value: bool | None) -> None:
    found = SqlFilter(text)
    assert found.evaluate(properties) is value
    assert found.matches(properties) is (value is True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a > 5", "'x' is not a whole number"),
        ("a > 5.5", "'x' is not a number"),
        ("a > b", "'x' is not a number"),
        ("TRUE = a", "a boolean before a text"),
        ("a = 2147483648", "'x' is not a whole number"),
    ],
)
def test_what_cannot_be_compared_is_no_match(text: str, message: str) -> None:
    found = SqlFilter(text)
    with pytest.raises(ValueError, match=message):
        found.evaluate({"a": "x", "b": "x"})
    assert not found.matches({"a": "x", "b": "x"})


def test_a_text_has_to_be_a_number_of_the_same_type() -> None:
    """Java reads it as what it is compared with, so a fraction is nothing to an Integer."""
    assert SqlFilter("a > 5.0").matches({"a": "5.5"})
    assert not SqlFilter("a > 5").matches({"a": "5.5"})
    assert not SqlFilter("a > 5").matches({"a": "3000000000"})
    assert SqlFilter("a > 2147483648").matches({"a": "3000000000"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "filter expression@0, near '': found 'the end', expected a value"),
        ("a = ", "@4, near 'a = ': found 'the end', expected a value"),
        ("a LIKE 'x' AND", None),
        ("a = 1 AND", "@9, near 'a = 1 AND': found 'the end', expected a value"),
        ("a = 1 AND 5", "@10, near 'a = 1 AND 5': found 'a value', expected a condition"),
        ("a = #", "@4, near 'a = #': found '#', expected a word"),
        ("a > 'x'", "@2, near \"a > 'x'\": found 'a text or a condition', expected a number"),
        ("a IN (1)", "@6, near 'a IN (1)': found '1', expected a text in quotes"),
        ("(a = 1", "@6, near '(a = 1': found 'the end', expected )"),
        ("a BETWEEN 2 AND 1", "found '2 AND 1', expected the lower bound before the upper bound"),
        ("a = NULL", "@2, near 'a = NULL': found 'NULL', expected a value on both sides"),
        ("x" * 100 + " = #", "@103, near 'xxxxxxxxxxxxxxxxx = #': found '#', expected a word"),
        ("a = 0.0", "found '0.0', expected a double above zero"),
        ("a = 9223372036854775808", "expected a number of at most 64 bits"),
    ],
)
def test_mistakes_are_told_with_their_place(text: str, message: str | None) -> None:
    if message is None:
        assert SqlFilter(text).evaluate({"a": "true"}) is False  # what follows `a` is not looked at
        return
    with pytest.raises(FilterExpressionError) as caught:
        SqlFilter(text)
    assert message in str(caught.value)


@pytest.mark.parametrize("around", [("(", ")"), ("NOT ", ""), ("- ", ""), ("+", "")])
def test_nesting_ends(around: tuple[str, str]) -> None:
    before, behind = around
    inside = "a IS NULL" if behind else "a"

    def nested(count: int) -> str:
        return before * count + inside + behind * count + " = TRUE"

    SqlFilter(nested(MAX_NESTED)).evaluate({})
    for count in (MAX_NESTED + 1, 100_000):
        with pytest.raises(FilterExpressionError, match="nested"):
            SqlFilter(nested(count))


def test_long_lists_of_conditions_are_no_nesting_but_chains_are() -> None:
    assert SqlFilter(" OR ".join(f"a = {i}" for i in range(20_000))).matches({"a": "19999"})
    assert SqlFilter("a = 1" + " = TRUE" * (MAX_DEPTH - 2)).evaluate({}) is None
    for link in (" = TRUE", " IS NULL", " <> TRUE"):
        with pytest.raises(FilterExpressionError, match="nested parts"):
            SqlFilter("a = 1" + link * 100_000)


def test_the_deepest_expression_is_asked_without_running_out_of_stack() -> None:
    inside = "a = 1" + " = TRUE" * 50
    for _ in range(MAX_NESTED - 1):
        inside = f"({inside}) AND b = 1 OR c = 1"
    assert SqlFilter(inside).evaluate({"a": "1", "b": "1"}) is True


words = st.sampled_from(
    "NOT AND OR BETWEEN IN TRUE FALSE NULL IS CONTAINS STARTSWITH ENDSWITH a b 1 2.5 'x' '' = <> > <= ( ) , + - -- "
    "/* */ ' # . e".split()
) | st.just("\n")


@given(st.lists(words, max_size=30).map(" ".join) | st.text(max_size=40), st.text(max_size=10))
def test_any_text_is_an_expression_or_refused(text: str, value: str) -> None:
    with contextlib.suppress(FilterExpressionError):  # and no other
        found = SqlFilter(text)
        for properties in ({}, {"a": value, "b": "1"}, {"a": value, "b": value}):
            found.matches(properties)


@pytest.mark.parametrize("piece", ["/*", "'", "''", "--", "* /", "/**", "1.", "a", "0", "(", "- "])
def test_long_texts_are_refused_or_read_at_once(piece: str) -> None:
    """Each character is looked at a bounded number of times."""
    with contextlib.suppress(FilterExpressionError):
        SqlFilter(piece * 100_000)
    with contextlib.suppress(FilterExpressionError):
        SqlFilter("a = 1 /*" + piece * 100_000)
