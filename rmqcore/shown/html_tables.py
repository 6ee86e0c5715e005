"""Tables for a notebook, with all values as text."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, cast

from rmqcore.shown.plain_text import printable, printable_lines
from rmqcore.vocabulary.units import EPOCH

SHOWN_ROWS = 50
"""Most items of a list in a notebook; `as_dict` has all."""
SHOWN_TEXT = 400
"""Most characters of a text in a table."""

_NAMES_NO_AMOUNT = ("offset", "magic", "crc", "flag", "code", "_id")
"""Parts of names of numbers that are not amounts: they are shown without commas, to be copied into a call."""


def values_html(title: str, values: Mapping[str, object]) -> str:
    """Format named values as tables: one of the plain ones, one of each list of items. All text is untrusted, and escaped."""
    lists = {
        name: cast("list[dict[str, object]]", value)
        for name, value in values.items()
        if _is_items(value)
    }
    single = [(name, shown(name, value)) for name, value in values.items() if name not in lists]
    parts = [f"<b>{escaped(title)}</b>", table_html((), single)]
    parts += [items_html(name, value) for name, value in lists.items()]
    return "\n".join(parts)


def items_html(title: str, items: Sequence[Mapping[str, object]], count: int | None = None) -> str:
    """Format items as a table, a column for each of their names; a long list is cut, and the table says so.

    `count` is the number of all items, if `items` are only the first of them.
    """
    count = len(items) if count is None else count
    first = items[:SHOWN_ROWS]
    columns = list(dict.fromkeys(key for item in first for key in item))
    rows = [[shown(column, item.get(column)) for column in columns] for item in first]
    said = f"{count:,}" + (f", showing the first {len(rows)}" if count > len(rows) else "")
    return f"<b>{escaped(title)}</b> ({said})\n{table_html(columns, rows)}"


def table_html(heads: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """Format a table of texts, which are escaped here."""
    lines = ["<table>"]
    if heads:
        lines.append(_row("th", heads))
    lines += [_row("td", row) for row in rows]
    return "\n".join([*lines, "</table>"])


def escaped(text: str) -> str:
    """Escape text for HTML; characters that cannot be shown become escapes."""
    return html.escape(printable_lines(text))


def shown(name: str, value: object) -> str:
    """Format a value for people: store times in UTC, amounts with commas, the first part of long texts."""
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        if name.endswith("timestamp_ms"):
            return utc_time(value)
        return str(value) if any(part in name for part in _NAMES_NO_AMOUNT) else f"{value:,}"
    if isinstance(value, float):
        return f"{round(value, 4):,}"
    if isinstance(value, Mapping):
        parts = [f"{key}: {shown(str(key), part)}" for key, part in _first(value.items())]
        return cut(", ".join(parts) + _more(value))
    if isinstance(value, (list, tuple)):
        return cut(", ".join(shown(name, part) for part in _first(value)) + _more(value))
    return cut(str(value))


def utc_time(timestamp_ms: int) -> str:
    """Format a time in UTC; the number itself if no calendar has the time, or if it is 0, which stands for none."""
    try:
        moment = EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return (
        f"{moment:%Y-%m-%d %H:%M:%S}.{timestamp_ms % 1000:03d} UTC"
        if timestamp_ms > 0
        else str(timestamp_ms)
    )


def cut(text: str) -> str:
    """Format a text on one line, or its first part and its length."""
    if len(text) <= SHOWN_TEXT:
        return printable(text)
    return f"{printable(text[:SHOWN_TEXT])}… ({len(text):,} characters)"


def _is_items(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _first(values: Iterable[Any]) -> list[Any]:
    return [value for value, _ in zip(values, range(SHOWN_ROWS), strict=False)]


def _more(values: Sequence[object] | Mapping[str, object]) -> str:
    return f" and {len(values) - SHOWN_ROWS:,} more" if len(values) > SHOWN_ROWS else ""


def _row(tag: str, cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escaped(cell)}</{tag}>" for cell in cells) + "</tr>"
