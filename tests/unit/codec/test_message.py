"""Message: what its properties are, and that a put stores the same whether anybody asked for them or not."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message

GIVEN: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({}, {}),
    ({"tags": "A"}, {"TAGS": "A"}),
    ({"tags": ""}, {}),
    ({"keys": "k"}, {"KEYS": "k"}),
    ({"tags": "A", "keys": "k"}, {"TAGS": "A", "KEYS": "k"}),
    ({"tags": "ä", "keys": ["k", "ö" * 20]}, {"TAGS": "ä", "KEYS": "k " + "ö" * 20}),
    ({"tags": "\x01", "keys": "a\x01b"}, {"TAGS": "\x01", "KEYS": "a\x01b"}),
    ({"tags": "A", "properties": {}}, {"TAGS": "A"}),
    ({"tags": "A", "properties": {"n": "v", "w": None}}, {"TAGS": "A", "n": "v"}),
    ({"keys": "k", "properties": {"TAGS": "A"}}, {"KEYS": "k", "TAGS": "A"}),
]


@pytest.mark.parametrize("given", range(len(GIVEN)))
def test_a_put_stores_the_same_whether_the_dict_was_asked_for_or_not(
    tmp_path: Path, given: int
) -> None:
    """TAGS and KEYS alone are kept without a dict until somebody asks for one."""
    options, expected = GIVEN[given]
    untouched, asked = Message("t", b"b", **options), Message("t", b"b", **options)
    assert asked.properties == expected
    assert list(asked.properties) == list(expected)
    with rmqcore.open(tmp_path, services=False, mapped_file_size_commit_log=1 << 16) as store:
        offsets = [store.put(message).phy_offset for message in (untouched, asked)]
        offsets += store.put_many([untouched, asked]).phy_offsets.tolist()
        offsets.append(store.put_batch([Message("t", b"b", **options)]).phy_offset)
        views = [store.lookup(offset) for offset in offsets]
        stored = {name: value for name, value in expected.items() if value}
        assert [view and view.properties for view in views] == [stored] * 5
        raw = [view.raw[91 + 1 :] for view in views if view is not None]
        assert len(set(raw)) == 1


def test_the_dict_is_one_and_what_is_done_to_it_is_stored(tmp_path: Path) -> None:
    message = Message("t", b"", 0, "A", "k")
    assert message.properties is message.properties
    message.properties["n"] = "v"
    del message.properties["KEYS"]
    assert (message.tags, message.keys) == ("A", ())
    other = Message("t", b"", 0, "A", "k")
    other.properties = {"n": "w"}
    assert (other.tags, other.keys, other.properties) == (None, (), {"n": "w"})
    with rmqcore.open(tmp_path, services=False, mapped_file_size_commit_log=1 << 16) as store:
        found = [store.lookup(store.put(each).phy_offset) for each in (message, other)]
        assert [view and view.properties for view in found] == [
            {"TAGS": "A", "n": "v"},
            {"n": "w"},
        ]


@pytest.mark.parametrize(
    "unset",
    [lambda m: setattr(m, "properties", None), lambda m: delattr(m, "properties")],
    ids=["set", "del"],
)
def test_properties_may_be_a_dict_or_nothing_and_nothing_cannot_be_put(
    tmp_path: Path, unset: Callable[[Message], None]
) -> None:
    message: Any = Message("t", b"", 0, "A", "k")
    with pytest.raises(TypeError, match="Expected dict, got list"):
        message.properties = []
    assert message.properties == {"TAGS": "A", "KEYS": "k"}
    unset(message)
    assert message.properties is None
    with (
        rmqcore.open(tmp_path, services=False, mapped_file_size_commit_log=1 << 16) as store,
        pytest.raises(TypeError, match="properties: expected dict, got NoneType"),
    ):
        store.put(message)


def test_copies_and_pickles_are_equal_and_share_no_dict() -> None:
    for message in (Message("t", b"b", 0, "A", "k"), Message("t", b"b", properties={"n": "v"})):
        for other in (
            copy.copy(message),
            copy.deepcopy(message),
            pickle.loads(pickle.dumps(message)),
        ):
            assert other == message
            other.properties["x"] = "y"
            assert other != message


def test_a_message_that_is_made_anew_has_only_what_it_was_made_of() -> None:
    message: Any = Message("t", b"", 0, "A", "k")
    assert message.properties
    message.__init__("t", b"", 0, None, "other")
    assert (message.properties, message.tags) == ({"KEYS": "other"}, None)
    message.__init__("t", b"", properties={"TAGS": "B"})
    assert (message.properties, message.keys) == ({"TAGS": "B"}, ())


@pytest.mark.parametrize(
    ("options", "error", "what"),
    [
        ({"keys": "a b"}, ValueError, "key 'a b': a key is a word without spaces"),
        ({"keys": ["a", ""]}, ValueError, "key '': a key is a word"),
        (
            {"tags": "A", "properties": {"TAGS": "B"}},
            ValueError,
            "TAGS is given twice: 'A' and 'B'",
        ),
        ({"keys": [b"a"]}, TypeError, "keys: expected str or an iterable of str, got bytes"),
    ],
)
def test_what_no_message_can_be_made_of(
    options: dict[str, Any], error: type[Exception], what: str
) -> None:
    with pytest.raises(error, match=what):
        Message("t", b"", **options)


@pytest.mark.parametrize("options", [{"keys": "\ud800"}, {"tags": "a\x02"}, {"tags": "\udfff"}])
def test_texts_that_no_record_can_hold_are_refused_by_the_put(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    with rmqcore.open(tmp_path, services=False, mapped_file_size_commit_log=1 << 16) as store:
        with pytest.raises((TypeError, ValueError)):
            store.put(Message("t", b"", **options))
        assert store.put_many([Message("t", b"", **options)]).count == 0
        assert store.max_phy_offset == 0
