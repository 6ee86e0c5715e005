"""``Message(...)`` goes a quick way of its own. It gives and refuses exactly what ``__new__`` and ``__init__`` do."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqcore import Message


class Name(StrEnum):
    ORDERS = "orders"


class Odd:
    """Says no when it is asked whether it is true."""

    def __bool__(self) -> bool:
        raise RuntimeError("no answer")


texts = st.sampled_from(["", "T", "a b", "ä", "\x01", Name.ORDERS])
hosts = st.sampled_from([None, "", "1.2.3.4:5", "[::1]:9", "nowhere", 7])
numbers = st.sampled_from([0, 1, -1, 2**31, 2**63, True, 1.5, "1", None])
VALUES: dict[str, st.SearchStrategy[object]] = {
    "topic": texts | st.sampled_from([None, 3, b"T"]),
    "body": st.sampled_from([b"", b"x", bytearray(b"y"), None, "text"]),
    "queue_id": numbers,
    "tags": texts | st.sampled_from([None, 3, 0, Odd()]),
    "keys": texts
    | st.sampled_from([None, (), ["k"], ("k", "l"), ["a b"], ["k", 3], 3, [""], Odd()]),
    "properties": st.sampled_from([None, {}, {"p": "q"}, {"TAGS": "T"}, {"KEYS": None}, 3, Odd()]),
    "flag": numbers,
    "sys_flag": numbers,
    "born_timestamp_ms": numbers,
    "born_host": hosts,
    "store_host": hosts,
    "reconsume_times": numbers,
    "prepared_transaction_offset": numbers,
    "unknown": numbers,
}
calls = st.tuples(
    st.integers(0, 8).flatmap(lambda count: st.tuples(*list(VALUES.values())[:count])),
    st.lists(st.sampled_from(list(VALUES)), unique=True, max_size=6).flatmap(
        lambda names: st.fixed_dictionaries({name: VALUES[name] for name in names})
    ),
)


def by_init(*args: Any, **keywords: Any) -> Message:
    message = Message.__new__(Message)
    message.__init__(*args, **keywords)  # type: ignore[misc]
    return message


def outcome(call: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> object:
    """The message that a call makes, as `put` sees it, or its error."""
    try:
        message = call(*args, **keywords)
    except Exception as error:  # noqa: BLE001  # every kind is compared
        return type(error), str(error)
    return message._values(), type(message.topic), message.tags, message.keys


@given(calls)
def test_every_call(call: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
    assert outcome(Message, *call) == outcome(by_init, *call)


def test_names_that_are_not_interned() -> None:
    keywords: Any = {"queue_id ".strip(): 3}
    assert Message("T", b"x", **keywords).queue_id == 3
    with pytest.raises(TypeError, match="multiple values"):
        Message("T", b"x", 3, **keywords)


def test_a_subclass_is_made_by_its_own_init() -> None:
    class Order(Message):
        def __init__(self, number: int) -> None:
            super().__init__("orders", str(number).encode(), keys=str(number))
            self.number = number

    order = Order(7)
    assert (type(order), order.number, order.keys) == (Order, 7, ("7",))
    assert order == Message("orders", b"7", keys="7")


def test_a_second_init_leaves_nothing_of_the_first() -> None:
    message = Message(
        "T", b"x", 1, "A", "k", {"p": "q"}, flag=1, born_host="[::1]:9", born_timestamp_ms=5
    )
    message.__init__("T", b"x")  # type: ignore[misc]
    assert message == Message("T", b"x")
