"""Checks of the arguments of get and query. An open store runs them only after Python refused the arguments."""

from __future__ import annotations

from typing import Any

from rmqcore.errors.arguments import check_ints, check_longs, check_texts, wrong_type
from rmqcore.queries.index_query import INDEX_TYPES


def check_place(topic: object, queue_id: object) -> None:
    """Check the name of a queue.

    Raises
    ------
    TypeError
        The topic is not a text, or the queue id is not a whole number.
    """
    check_texts(topic=topic)
    check_ints(queue_id=queue_id)


def check_get(
    topic: object,
    queue_id: object,
    queue_offset: object,
    max_messages: object,
    tags: object,
    max_bytes: object,
) -> None:
    """Check the arguments of a get.

    Raises
    ------
    TypeError
        An argument of another type; it is named.
    ValueError
        `max_messages` below 1.
    """
    check_place(topic, queue_id)
    check_ints(queue_offset=queue_offset)
    check_least("max_messages", max_messages, 1)
    if tags is not None and not isinstance(tags, str):
        raise wrong_type("tags", "str or None", tags)
    if max_bytes is not None and not hasattr(max_bytes, "__index__"):
        raise wrong_type("max_bytes", "int or None", max_bytes)


def check_query(
    topic: object,
    key: object,
    max_messages: object,
    begin_ms: object,
    end_ms: object,
    index_type: object,
) -> None:
    """Check the arguments of a query.

    Raises
    ------
    TypeError
        An argument of another type; it is named.
    ValueError
        A negative `max_messages`, another `index_type`, or a time that no long holds.
    """
    check_texts(topic=topic, key=key)
    check_least("max_messages", max_messages, 0)
    check_ints(begin_ms=begin_ms)
    check_longs(max_messages=max_messages, begin_ms=begin_ms, end_ms=end_ms)
    if index_type not in INDEX_TYPES:
        raise ValueError(f"index_type {index_type!r}: expected None, 'K', 'U' or 'T'")


def check_least(name: str, value: Any, least: int) -> None:
    """Check that a value is a whole number of at least `least`.

    Raises
    ------
    TypeError
        The value is not a whole number.
    ValueError
        The value is below `least`.
    """
    check_ints(**{name: value})
    if value < least:
        raise ValueError(f"{name} is {value}, expected at least {least}")
