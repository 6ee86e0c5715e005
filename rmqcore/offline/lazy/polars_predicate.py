"""Translates a predicate of Polars to conditions of the scan.

A predicate has no public form but itself: its JSON is another in every few versions of Polars. So a predicate is taken apart
with ``meta.pop``, which gives the operands, and for each form that is known here it is asked whether it is that form of these
operands (``meta.eq``). What is not known stays unknown, and narrows nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from rmqcore.offline.frames.column_conditions import among, between, is_whole
from rmqcore.offline.frames.columns import TIMES
from rmqcore.offline.log.conditions import Conditions

if TYPE_CHECKING:
    import polars as pl

ANY = Conditions()
MOST_DEPTH = 200
"""Operators within operators that are looked at: each takes a call of Python, whose depth has a limit."""

_PER_MS = {"ms": 1, "us": 1000, "ns": 1_000_000}


def conditions_of(predicate: pl.Expr, depth: int = 0) -> Conditions:
    """Return conditions that hold for every message for which a predicate is true.

    Parameters
    ----------
    predicate : polars.Expr
        Over the columns of a frame, as Polars hands it to a source.
    depth : int
        Of the predicate in the whole of it.
    """
    parts = predicate.meta.pop()[::-1]
    if depth > MOST_DEPTH or len(parts) not in (2, 3):
        return ANY
    if len(parts) == 3:
        return _of_between(predicate, *parts)
    left, right = parts
    if predicate.meta.eq(left & right):
        return conditions_of(left, depth + 1).and_also(conditions_of(right, depth + 1))
    if predicate.meta.eq(left | right):
        return conditions_of(left, depth + 1).either(conditions_of(right, depth + 1))
    if left.meta.is_column() and right.meta.is_literal():
        return _of_column(predicate, left, right)
    if right.meta.is_column() and left.meta.is_literal():
        return _of_column(predicate, right, left)
    return ANY


def _of_column(predicate: pl.Expr, column: pl.Expr, literal: pl.Expr) -> Conditions:
    """What a test of a column against a literal says; a bound is taken as inclusive."""

    def is_any_of(*forms: pl.Expr) -> bool:
        return any(map(predicate.meta.eq, forms))

    name = column.meta.output_name()
    if is_any_of(column == literal, literal == column, column.eq_missing(literal)):
        return _equal(name, literal)
    if is_any_of(column.is_in(literal)):
        return _equal(name, literal, null_is_equal=False)
    if is_any_of(column >= literal, column > literal, literal <= column, literal < column):
        return _limited(name, _bounds(name, literal)[0], None)
    if is_any_of(column <= literal, column < literal, literal >= column, literal > column):
        return _limited(name, None, _bounds(name, literal)[1])
    if name == "keys" and is_any_of(column.list.contains(literal)):
        return _equal(name, literal)
    return ANY


def _of_between(predicate: pl.Expr, column: pl.Expr, low: pl.Expr, high: pl.Expr) -> Conditions:
    if not (column.meta.is_column() and low.meta.is_literal() and high.meta.is_literal()):
        return ANY
    kinds: tuple[Literal["both", "left", "right", "none"], ...] = ("both", "left", "right", "none")
    if not any(predicate.meta.eq(column.is_between(low, high, closed=kind)) for kind in kinds):
        return ANY
    name = column.meta.output_name()
    return _limited(name, _bounds(name, low)[0], _bounds(name, high)[1])


def _equal(name: str, literal: pl.Expr, *, null_is_equal: bool = True) -> Conditions:
    if name in TIMES:
        return _limited(name, *_bounds(name, literal))
    values = _values(name, literal)
    if values is None:
        return ANY
    if not null_is_equal:
        values = [value for value in values if value is not None]
    known = among(name, values)
    return ANY if known is None else known.conditions


def _limited(name: str, least: int | None, most: int | None) -> Conditions:
    return between(TIMES.get(name, name), least, most) or ANY


# ---- literals ---------------------------------------------------------------------------------------


def _bounds(name: str, literal: pl.Expr) -> tuple[int | None, int | None]:
    """The least and the greatest value of a literal, of a time in milliseconds; None where it has no such values.

    Polars cuts a time that it compares with a column to the column's milliseconds, so a part of one is rounded both ways.
    """
    values = [value for value in _values(name, literal) or () if value is not None]
    if not values or not all(map(is_whole, values)):
        return None, None
    per_ms = _PER_MS[_kind(literal).time_unit] if name in TIMES else 1
    return min(values) // per_ms, -(-max(values) // per_ms)


def _values(name: str, literal: pl.Expr) -> list[Any] | None:
    """The values of a literal, times as whole numbers, those of a list as its items; None where the column has no such type.

    It has no time without a zone: comparing with one is an error, which Polars raises where it meets a row.
    """
    import polars as pl

    kind, series = _kind(literal), pl.select(literal).to_series()
    if name in TIMES:
        known = isinstance(kind, pl.Datetime) and kind.time_zone is not None
    else:
        known = kind in (pl.String, pl.Null) or kind.is_integer()
    if not known:
        return None
    values = series.to_physical().to_list()
    return list(values[0]) if isinstance(series.dtype, pl.List) and len(values) == 1 else values


def _kind(literal: pl.Expr) -> Any:
    """The type of a literal's values."""
    import polars as pl

    kind = pl.select(literal).to_series().dtype
    return kind.inner if isinstance(kind, pl.List) else kind
