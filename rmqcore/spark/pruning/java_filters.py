"""Conditions of Spark's plans as filters of the source. Unknown conditions are left out: Spark tests all of them itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from rmqcore.spark.options.given_filters import GivenFilter
from rmqcore.spark.pruning.relations import sequence
from rmqcore.vocabulary.units import EPOCH

_COMPARISONS = frozenset(
    {
        "EqualTo",
        "EqualNullSafe",
        "GreaterThan",
        "GreaterThanOrEqual",
        "LessThan",
        "LessThanOrEqual",
    }
)


def filters_of(jvm: Any, conditions: Iterable[Any]) -> list[GivenFilter]:
    """Return the filters that the conditions consist of, without those that the source cannot test."""
    # A Scala object is a Java class of this name, and the only instance of it.
    datasources = jvm.org.apache.spark.sql.execution.datasources
    strategy = getattr(getattr(datasources, "DataSourceStrategy$"), "MODULE$")
    found = []
    for condition in conditions:
        for part in _parts(condition):
            translated = strategy.translateFilter(part, False)
            given = _given(translated.get()) if translated.isDefined() else None
            if given is not None:
                found.append(given)
    return found


def _parts(condition: Any) -> Iterator[Any]:
    if condition.getClass().getSimpleName() == "And":
        for child in sequence(condition.children()):
            yield from _parts(child)
    else:
        yield condition


def _given(java_filter: Any) -> GivenFilter | None:
    kind = java_filter.getClass().getSimpleName()
    if kind == "In":
        values = tuple(map(_value, java_filter.values()))
        # One null, or a value of an unsupported type, which a row may have, rules out the whole filter.
        known = all(value is not None for value in values)
        return GivenFilter(kind, (java_filter.attribute(),), values) if known else None
    if kind in _COMPARISONS and (value := _value(java_filter.value())) is not None:
        return GivenFilter(kind, (java_filter.attribute(),), value)
    return None


def _value(value: Any) -> str | int | datetime | None:
    """Return a text, a whole number or a time since 1970; None for anything else."""
    if isinstance(value, str | int) and not isinstance(value, bool):
        return value
    name = value.getClass().getName() if hasattr(value, "getClass") else ""
    if name == "java.sql.Timestamp":
        micros = value.getTime() // 1000 * 1_000_000 + value.getNanos() // 1000
    elif name == "java.time.Instant":
        micros = value.getEpochSecond() * 1_000_000 + value.getNano() // 1000
    else:
        return None
    # Spark counts the days of earlier times by another calendar, and Python cannot represent later ones.
    if not 0 <= micros < 253_402_300_800_000_000:
        return None
    return EPOCH + timedelta(microseconds=micros)
