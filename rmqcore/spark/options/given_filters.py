"""Filters as the value of an option: the conditions of the query for which a source is planned."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from rmqcore.vocabulary.units import EPOCH

_TIME = "us"


@dataclass(frozen=True)
class GivenFilter:
    """A filter, in the terms of ``pyspark.sql.datasource``, which PySpark 4.0 lacks.

    Attributes
    ----------
    kind : str
        The name of the class there: ``EqualTo``, ``In``, ``GreaterThan``...
    attribute : tuple of str
        The column.
    value : object
        A text, int or time; with ``In`` a tuple of them; None if the kind has no value.
    """

    kind: str
    attribute: tuple[str, ...]
    value: Any = None


def filters_text(filters: Iterable[GivenFilter]) -> str:
    """Write filters as the text of an option."""
    return json.dumps([[one.kind, one.attribute[0], _plain(one.value)] for one in filters])


def parse_filters(text: str) -> tuple[GivenFilter, ...]:
    """Parse a text made by `filters_text`; raise ValueError for other texts."""
    try:
        return tuple(
            GivenFilter(kind, (column,), _value(value)) for kind, column, value in json.loads(text)
        )
    except (KeyError, OverflowError, TypeError, ValueError):
        raise ValueError("filters as rmqcore.spark.optimize writes them") from None


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, datetime):
        return {_TIME: (value - EPOCH) // timedelta(microseconds=1)}
    return value


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_value, value))
    if isinstance(value, dict):
        return EPOCH + timedelta(microseconds=value[_TIME])
    return value
