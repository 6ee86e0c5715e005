"""What every report of a tool has: its attributes as plain JSON values, and as tables in a notebook."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

SHOWN_ROWS = 50
"""How many items of a list a notebook shows; `as_dict` has them all."""


class Report:
    """Base of the dataclasses that tools answer with."""

    def as_dict(self) -> dict[str, Any]:
        """The attributes as plain JSON values; a part of a report that has an ``as_dict`` of its own says what it is."""
        return {name: plain_value(value) for name, value in _attributes(self)}

    def _repr_html_(self) -> str:
        """Tables for a notebook: one of the plain values, one of each list of items, and those of reports in this one."""
        single: dict[str, object] = {}
        lists: dict[str, Sequence[Mapping[str, object]]] = {}
        parts_of_it = {name: part for name, part in _attributes(self) if isinstance(part, Report)}
        for name, value in self.as_dict().items():
            if name in parts_of_it:
                continue
            if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
                lists[name] = value
            else:
                single[name] = value
        parts = [f"<b>{html.escape(type(self).__name__)}</b>", _table(("", ""), single.items())]
        parts += [_list(name, items) for name, items in lists.items()]
        for name, part in parts_of_it.items():
            parts += [f"<b>{html.escape(name)}</b>", part._repr_html_()]
        return "\n".join(parts)


def plain_value(value: object) -> Any:
    """Make a value one that `json` writes: parts of reports as objects, tuples as lists, paths and names of enums as text."""
    own = getattr(value, "as_dict", None)
    if own is not None:
        return own()
    if is_dataclass(value):
        return {name: plain_value(part) for name, part in _attributes(value)}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {str(key): plain_value(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain_value(part) for part in value]
    return value


def _attributes(report: object) -> Iterable[tuple[str, object]]:
    assert is_dataclass(report), "a report is a dataclass"
    return [(field.name, getattr(report, field.name)) for field in fields(report) if field.repr]


def _list(name: str, items: Sequence[Mapping[str, object]]) -> str:
    columns = list(dict.fromkeys(key for item in items[:SHOWN_ROWS] for key in item))
    rows = [tuple(item.get(column, "") for column in columns) for item in items[:SHOWN_ROWS]]
    more = len(items) - len(rows)
    count = f"{len(items):,}" + (f", the first {len(rows)} are shown" if more else "")
    return f"<b>{html.escape(name)}</b> ({count})\n{_table(columns, rows)}"


def _table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    lines = ["<table>"]
    names = list(heads)
    if any(names):
        lines.append(_row("th", names))
    lines += [_row("td", row) for row in rows]
    return "\n".join([*lines, "</table>"])


def _row(tag: str, cells: Iterable[object]) -> str:
    return (
        "<tr>" + "".join(f"<{tag}>{html.escape(_text(cell))}</{tag}>" for cell in cells) + "</tr>"
    )


def _text(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else str(value)
