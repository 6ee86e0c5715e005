"""Filters passed by Spark: the native scan accepts the filters that it applies exactly, Spark keeps the others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from rmqcore.offline.frames.column_conditions import among, between, is_plain_text, is_whole
from rmqcore.offline.log.conditions import Conditions
from rmqcore.spark.options.given_filters import GivenFilter
from rmqcore.spark.rows.columns import MAX_MS
from rmqcore.vocabulary.units import EPOCH

_MICROSECOND = timedelta(microseconds=1)
_NEVER_NULL = frozenset(
    {
        "topic",
        "queue_id",
        "queue_offset",
        "phy_offset",
        "msg_size",
        "sys_flag",
        "flag",
        "body_crc",
        "reconsume_times",
        "prepared_transaction_offset",
        "store_host",
        "born_host",
        "broker",
        "msg_id",
        "tags_code",
        "magic",
        "raw",
        "_file",
    }
)


@dataclass
class Taken:
    """The outcome of `take_filters`.

    Attributes
    ----------
    conditions : Conditions
        The conditions for the scan. A condition that is weaker than its filter leaves the filter in `left` too.
    brokers : frozenset of str or None
        The only stores to read; None for all.
    left : list
        Filters that Spark must apply.
    """

    conditions: Conditions
    brokers: frozenset[str] | None
    left: list[Any]


def take_filters(filters: Iterable[Any]) -> Taken:
    """Divide filters of ``pyspark.sql.datasource``, or `GivenFilter`, which must all hold, between the scan and Spark."""
    taken = Taken(Conditions(), None, [])
    texts_given = set()
    for condition in filters:
        if not _take(condition, taken):
            taken.left.append(condition)
        elif _kind(condition) in ("EqualTo", "EqualNullSafe", "In"):
            texts_given.add(condition.attribute)
    # Spark passes `tags IS NOT NULL` beside `tags = 'x'`, which implies it.
    taken.left = [
        condition
        for condition in taken.left
        if not (_kind(condition) == "IsNotNull" and condition.attribute in texts_given)
    ]
    return taken


def _kind(condition: Any) -> str:
    return condition.kind if isinstance(condition, GivenFilter) else type(condition).__name__


def _take(condition: Any, taken: Taken) -> bool:
    """Put a filter into the conditions; return False if Spark must apply it as well."""
    kind = _kind(condition)
    attribute: tuple[str, ...] = getattr(condition, "attribute", ())
    if len(attribute) != 1:
        return False
    (name,) = attribute
    if kind == "IsNotNull":
        return name in _NEVER_NULL
    if kind in ("EqualTo", "EqualNullSafe", "In"):
        values = condition.value if kind == "In" else (condition.value,)
        return _take_values(name, tuple(values), taken, is_in=kind == "In")
    if kind in _RANGES:
        if name == "phy_offset" and is_whole(condition.value):
            _narrow(taken, _phy_range(kind, condition.value))
            return True
        if name == "store_timestamp" and _is_time(condition.value):
            _narrow(taken, _time_range(kind, condition.value))
            return True
    return False


_RANGES = ("GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual")


def _take_values(name: str, values: tuple[Any, ...], taken: Taken, *, is_in: bool) -> bool:
    if is_in:
        values = tuple(value for value in values if value is not None)  # null equals nothing
    if name == "broker" and all(map(is_plain_text, values)):
        chosen = frozenset(values)
        taken.brokers = chosen if taken.brokers is None else taken.brokers & chosen
        return True
    if name == "store_timestamp" and values and all(map(_is_time, values)):
        _narrow(taken, _time_range("GreaterThanOrEqual", min(values)))
        _narrow(taken, _time_range("LessThanOrEqual", max(values)))
        return len(set(values)) == 1 and _micros(values[0]) % 1000 == 0
    if name == "keys" and all(map(is_plain_text, values)):
        values = tuple(value.split(" ")[0] for value in values)  # the first word must be a key
    known = among(name, values)
    if known is None:
        return False
    _narrow(taken, known.conditions)
    return known.exact


def _narrow(taken: Taken, conditions: Conditions) -> None:
    taken.conditions = taken.conditions.and_also(conditions)


def _phy_range(kind: str, value: int) -> Conditions:
    if kind.startswith("Greater"):
        found = between("phy_offset", value + (kind == "GreaterThan"), None)
    else:
        found = between("phy_offset", None, value - (kind == "LessThan"))
    assert found is not None
    return found


def _time_range(kind: str, value: datetime) -> Conditions:
    """Return the range in the store's milliseconds, without times that Spark cannot hold: they are null in Spark."""
    micros = _micros(value)
    above, floor = -(-micros // 1000), micros // 1000
    wide = Conditions(since_ms=-MAX_MS, until_ms=MAX_MS + 1)
    if kind == "GreaterThan":
        return wide.and_also(Conditions(since_ms=floor + 1))
    if kind == "GreaterThanOrEqual":
        return wide.and_also(Conditions(since_ms=above))
    if kind == "LessThan":
        return wide.and_also(Conditions(until_ms=above))
    return wide.and_also(Conditions(until_ms=floor + 1))


def _micros(value: datetime) -> int:
    return (value - EPOCH) // _MICROSECOND


def _is_time(value: Any) -> bool:
    return isinstance(value, datetime) and value.tzinfo is not None
