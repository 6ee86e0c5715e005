"""Names of topics and groups: Java's rules, and none that leads out of a folder."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqcore.remoting.names import dlq_topic, retry_topic, wrong_group, wrong_topic

LEGAL = string.ascii_letters + string.digits + "%|_-"


@given(st.text(LEGAL, min_size=1, max_size=120))
def test_legal_names(name: str) -> None:
    assert wrong_topic(name) is None
    assert wrong_group(name) is None
    assert wrong_topic(retry_topic(name)) is None
    assert wrong_topic(dlq_topic(name)) is None


@given(st.text(min_size=1, max_size=40).filter(lambda text: set(text) - set(LEGAL)))
def test_all_other_letters_are_refused(name: str) -> None:
    assert wrong_topic(name) is not None
    assert wrong_group(name) is not None


@pytest.mark.parametrize("name", ["../up", "a/b", "a\0b", "a b", "a.b", "é", "a\n", "١"])
def test_names_that_could_lead_elsewhere(name: str) -> None:
    assert wrong_topic(name) == (
        f"The specified topic: {name}, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    )
    assert wrong_group(name) == (
        f"The specified group: {name}, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    )


@pytest.mark.parametrize("name", ["", " ", "\t\n"])
def test_blank_names(name: str) -> None:
    assert wrong_topic(name) == "The specified topic is blank."
    assert wrong_group(name) == "The specified group is blank."


def test_lengths() -> None:
    assert wrong_topic("t" * 127) is None
    assert wrong_topic("t" * 128) == (
        f"The specified topic: {'t' * 128}, is longer than topic max length: 127"
    )
    assert wrong_group("g" * 120) is None
    assert wrong_group("g" * 121) == (
        f"The specified group: {'g' * 121}, is longer than group max length: 120"
    )
    longest = "%RETRY%" + "g" * 248
    assert wrong_topic(longest) is None
    assert wrong_topic(longest + "g") == (
        f"The specified topic is DLQ or Retry topic: {longest}g, and it's longer than topic max length: 255"
    )
