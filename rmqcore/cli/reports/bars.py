"""Bars over time in a terminal, with an axis, in the columns available."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rmqcore.cli.common.shown import printable
from rmqcore.cli.common.times import format_time
from rmqcore.vocabulary.units import DAY_MS, HOUR_MS, MINUTE_MS

EIGHTHS = " ▁▂▃▄▅▆▇█"
HEIGHT = 5
LEAST_COLUMNS = 10


def short_count(value: float) -> str:
    """Format a number in at most six letters: ``12.3k``."""
    size = float(value)
    for unit in ("", "k", "M", "G", "T", "P"):
        if abs(size) < 1000 or unit == "P":
            break
        size /= 1000
    return f"{size:.0f}{unit}" if not unit or abs(size) >= 100 else f"{size:.1f}{unit}"


def sparkline(values: Sequence[float], most: float | None = None) -> str:
    """Format values as a line of bars; every value above 0 is visible."""
    highest = max(most or 0, *values, 0) if values else 0
    return "".join(_eighth(value, highest, 8) for value in values)


def _eighth(value: float, highest: float, eighths: int) -> str:
    if value <= 0 or highest <= 0:
        return EIGHTHS[0]
    return EIGHTHS[max(1, min(8, round(value / highest * eighths)))]


def merged(values: Sequence[int], most: int) -> tuple[list[int], int]:
    """Add up neighbouring values until at most `most` are left; return these, and the number of values in each."""
    each = max(1, -(-len(values) // max(1, most)))
    return [sum(values[at : at + each]) for at in range(0, len(values), each)], each


def bars(values: Sequence[int], begin_ms: int, width_ms: int, columns: int) -> list[str]:
    """Draw values over time.

    Parameters
    ----------
    values : sequence of int
        A value for each `width_ms` of time from `begin_ms` on.
    begin_ms, width_ms : int
    columns : int
        Of the terminal.

    Returns
    -------
    list of str
        Lines that are not longer than the terminal is wide, or about 20 columns.
    """
    if not values:
        return []
    sums, each = merged(values, max(LEAST_COLUMNS, columns - 8))
    highest = max(sums)
    left = max(len(short_count(highest)), 1)
    repeat = max(1, (columns - left - 2) // len(sums))
    lines = []
    for row in range(HEIGHT, 0, -1):
        label = short_count(highest) if row == HEIGHT else ""
        cells = "".join(_cell(value, highest, row) * repeat for value in sums)
        lines.append(f"{label:>{left}} │{cells}".rstrip())
    wide = len(sums) * repeat
    lines.append(f"{0:>{left}} └{'─' * wide}")
    step_ms = width_ms * each
    lines.append(" " * (left + 2) + _axis(begin_ms, step_ms, len(sums), repeat, columns - left - 2))
    return lines


def _cell(value: int, highest: int, row: int) -> str:
    """Return the character of a column in a row of the picture; the lowest row is 1."""
    eighths = round(value / highest * HEIGHT * 8) if highest else 0
    if value and row == 1:
        eighths = max(1, eighths)
    return EIGHTHS[max(0, min(8, eighths - (row - 1) * 8))]


def _axis(begin_ms: int, step_ms: int, count: int, repeat: int, room: int) -> str:
    """Return the times below the columns that fit."""
    text = ""
    span_ms = step_ms * count
    at = 0
    while at < count:
        label = _label(begin_ms + at * step_ms, span_ms, step_ms)
        if at * repeat + len(label) > room:
            break
        text = text.ljust(at * repeat) + label
        at += max(1, -(-(len(label) + 4) // repeat))
    return text


def _label(time_ms: int, span_ms: int, step_ms: int) -> str:
    """A time as shortly as the span of all of them allows."""
    try:
        moment = datetime.fromtimestamp(time_ms // 1000).astimezone()
    except (ValueError, OverflowError, OSError):
        return printable(format_time(time_ms))
    if span_ms > 3 * DAY_MS:
        return moment.strftime("%m-%d" if step_ms >= DAY_MS else "%m-%d %H:%M")
    if step_ms >= 60_000:
        return moment.strftime("%H:%M")
    if step_ms >= 1000:
        return moment.strftime("%H:%M:%S")
    return moment.strftime("%H:%M:%S") + f".{time_ms % 1000:03}"


def duration(ms: float | None) -> str:
    """Format a time span for people: ``1.5 s``, ``2 h 10 min``."""
    if ms is None:
        return "-"
    size = abs(ms)
    sign = "-" if ms < 0 else ""
    if size < 1000:
        return f"{sign}{size:.0f} ms"
    if size < 60_000:
        return f"{sign}{size / 1000:.1f} s"
    for unit, small, wide, narrow in (
        ("min", "s", 60_000, 1000),
        ("h", "min", HOUR_MS, MINUTE_MS),
        ("d", "h", DAY_MS, HOUR_MS),
    ):
        if size < wide * (60 if unit == "min" else 48 if unit == "h" else float("inf")):
            rest = int(size % wide // narrow)
            return f"{sign}{int(size // wide)} {unit}" + (f" {rest} {small}" if rest else "")
    raise AssertionError(size)
