"""Translates a test of a column to conditions of the scan, for all engines that push filters down.

Columns bear the names of `StoreReader.batches`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, TypeGuard

from rmqcore.offline.log.conditions import Conditions
from rmqcore.vocabulary.units import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN


@dataclass(frozen=True)
class Known:
    """Facts about messages that pass a test.

    Attributes
    ----------
    conditions : Conditions
        They hold for every such message.
    exact : bool
        They hold for no other.
    """

    conditions: Conditions
    exact: bool


def among(column: str, values: Collection[Any]) -> Known | None:
    """Return what is known of messages whose column has one of some values; None if the scan cannot help.

    Parameters
    ----------
    column : str
        ``keys`` stands for one word of KEYS.
    values : collection
        A value that is no text, or no whole number, where the column has such leaves nothing known.
    """
    if column in ("topic", "tags") and all(map(is_plain_text, values)):
        chosen = frozenset(values)
        return Known(
            Conditions(topics=chosen) if column == "topic" else Conditions(tags=chosen), True
        )
    if column == "queue_id" and all(map(is_whole, values)):
        fitting = frozenset(value for value in values if INT_MIN <= value <= INT_MAX)
        return Known(Conditions(queue_ids=fitting), True)
    if column in ("phy_offset", "store_timestamp_ms") and values and all(map(is_whole, values)):
        known = between(column, min(values), max(values))
        return None if known is None else Known(known, len(set(values)) == 1)
    if column in ("keys", "uniq_key") and values and all(map(is_plain_text, values)):
        # A condition on keys takes the words of KEYS and UNIQ_KEY for one.
        return Known(Conditions(keys=frozenset(values)), False)
    return None


def between(column: str, least: int | None, most: int | None) -> Conditions | None:
    """Return the conditions for a column of whole numbers between two of them, both inclusive; None for other columns.

    Numbers of more than 64 bits are cut to 64, which loses no message.
    """
    start = None if least is None else min(max(least, LONG_MIN), LONG_MAX)
    end = None if most is None or most >= LONG_MAX else max(most + 1, LONG_MIN)
    if column == "phy_offset":
        return Conditions(start_phy_offset=start, end_phy_offset=end)
    if column == "store_timestamp_ms":
        return Conditions(since_ms=start, until_ms=end)
    return None


def is_whole(value: Any) -> TypeGuard[int]:
    """Return True if a value is an int of 64 bits, not a bool."""
    return isinstance(value, int) and not isinstance(value, bool) and LONG_MIN <= value <= LONG_MAX


def is_plain_text(value: Any) -> TypeGuard[str]:
    """Return True if a text can be compared with a record's bytes: U+FFFD in a row replaces bytes that are not UTF-8."""
    return isinstance(value, str) and bool(value) and "\N{REPLACEMENT CHARACTER}" not in value
