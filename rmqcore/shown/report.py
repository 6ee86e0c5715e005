"""Base of all reports: attributes as plain JSON values, and as tables in a notebook."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from rmqcore.shown.html_tables import escaped, values_html


class Report:
    """Base of the dataclasses that tools return."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes as plain JSON values; parts of a report with their own ``as_dict`` use it."""
        return {name: plain_value(value) for name, value in _attributes(self)}

    def _repr_html_(self) -> str:
        """Return tables for a notebook: one of the plain values, one per list of items, and those of nested reports."""
        parts_of_it = {name: part for name, part in _attributes(self) if isinstance(part, Report)}
        values = {name: value for name, value in self.as_dict().items() if name not in parts_of_it}
        parts = [values_html(type(self).__name__, values)]
        for name, part in parts_of_it.items():
            parts += [f"<b>{escaped(name)}</b>", part._repr_html_()]
        return "\n".join(parts)


def plain_value(value: object) -> Any:
    """Return a value that `json` can write: parts of reports as objects, tuples as lists, paths and enums as text."""
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
    assert is_dataclass(report), "a report must be a dataclass"
    return [(field.name, getattr(report, field.name)) for field in fields(report) if field.repr]
