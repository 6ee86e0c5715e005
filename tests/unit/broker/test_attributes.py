"""Attributes of topics, and how a request changes them."""

from __future__ import annotations

import pytest

from rmqcore.broker.attributes import TOPIC_ATTRIBUTES, changed_attributes, parse_attributes


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("", {}),
        ("+message.type=FIFO", {"+message.type": "FIFO"}),
        ("+a=1,-b", {"+a": "1", "-b": ""}),
        ("+a=b=c", {"+a": "b=c"}),
    ],
)
def test_parse(text: str, changes: dict[str, str]) -> None:
    assert parse_attributes(text) == changes


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a=1", "add/alter attribute format is wrong: a"),
        ("a", "delete attribute format is wrong: a"),
        ("+a=1,+a=2", "key duplication: \\+a"),
        ("+a=1,", "delete attribute format is wrong: $"),
    ],
)
def test_parse_refuses(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_attributes(text)


def test_changes() -> None:
    def change(current: dict[str, str] | None, changes: dict[str, str]) -> dict[str, str]:
        return changed_attributes(TOPIC_ATTRIBUTES, current, changes)

    assert change(None, {"+queue.type": "BatchCQ"}) == {"queue.type": "BatchCQ"}
    known = {"queue.type": "BatchCQ", "message.type": "FIFO"}
    assert change(known, {}) == known
    assert change(known, {"+message.type": "DELAY"}) == {**known, "message.type": "DELAY"}
    assert change(known, {"-message.type": ""}) == {"queue.type": "BatchCQ"}
    assert change(None, {"+reserve.time": "-1"}) == {"reserve.time": "-1"}
    assert known == {"queue.type": "BatchCQ", "message.type": "FIFO"}


@pytest.mark.parametrize(
    ("current", "changes", "why"),
    [
        (None, {"+color": "red"}, "unsupported key: color"),
        (None, {"-message.type": ""}, "only add attribute is supported"),
        (None, {"message.type": "FIFO"}, "only add attribute is supported"),
        ({}, {"message.type": "FIFO"}, "unsupported key|wrong format key"),
        ({}, {"-message.type": ""}, "attempt to delete a nonexistent key: message.type"),
        ({"queue.type": "SimpleCQ"}, {"+queue.type": "BatchCQ"}, "unchangeable attribute"),
        ({"queue.type": "SimpleCQ"}, {"-queue.type": ""}, "unchangeable attribute"),
        ({}, {"+message.type": "WILD"}, "value is not in set"),
        ({}, {"+reserve.time": "soon"}, "value is not in range"),
        ({}, {"+reserve.time": "-2"}, "value is not in range"),
        ({}, {"+": "1"}, "kv string format wrong"),
        ({}, {"+a-b": "1"}, "kv string format wrong"),
        ({}, {"+message.type": "FIFO", "-message.type": ""}, "duplication|nonexistent"),
    ],
)
def test_changes_that_are_refused(
    current: dict[str, str] | None, changes: dict[str, str], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        changed_attributes(TOPIC_ATTRIBUTES, current, changes)
