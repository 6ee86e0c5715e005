"""Base of all reports: attributes as plain JSON values, and as tables in a notebook."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from rmqcore.shown.html_tables import escaped, values_html


class Report:
    """Base of the dataclasses that tools answer with."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        """The attributes as plain JSON values; a part of a report that has an ``as_dict`` of its own says what it is."""
        return {name: plain_value(value) for name, value in _attributes(self)}

    def _repr_html_(self) -> str:
        """Tables for a notebook: one of the plain values, one of each list of items, and those of reports in this one."""
        parts_of_it = {name: part for name, part in _attributes(self) if isinstance(part, Report)}
        values = {name: value for name, value in self.as_dict().items() if name not in parts_of_it}
        parts = [values_html(type(self).__name__, values)]
        for name, part in parts_of_it.items():
            parts += [f"<b>{escaped(name)}</b>", part._repr_html_()]
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
    assert is_dataclass(report), "a report must be a dataclass"
    return [(field.name, getattr(report, field.name)) for field in fields(report) if field.repr]
