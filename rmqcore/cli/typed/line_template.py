"""``--format '{topic} {keys} {body}'``: lines by the user's template."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Callable, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Annotated, Any

import typer

from rmqcore.cli.common.bodies import Bodies
from rmqcore.cli.common.output import RowFormat, refuse_without_table
from rmqcore.cli.common.shown import printable
from rmqcore.cli.common.times import format_time
from rmqcore.cli.values import none_of
from rmqcore.codec.message import MessageView
from rmqcore.errors.near_names import did_you_mean
from rmqcore.offline.export.message_rows import FIELDS, Line

NAMES = (*FIELDS, "store_time", "born_time", "body_size")
"""Fields of a template: those of JSON Lines, the two times in words, and the bytes of the stored body."""
_PROPERTY = re.compile(r"properties\[(.+)\]", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}
_TEXTS = frozenset(
    {"born_host", "store_host", "body", "topic", "properties", "tags", "keys", "uniq_key", "msg_id"}
) | {"store_time", "born_time"}

FormatOrTemplate = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="|".join((*RowFormat, "TEMPLATE")),
        help=(
            "Output format, or a template for one line per message, such as '{topic} {queue_id} "
            "{keys} {body}'; names are those of JSON Lines, store_time, born_time, body_size and "
            "properties[NAME]; \\n and \\t work."
        ),
        show_default="table on a terminal, else jsonl",
        autocompletion=lambda: [*RowFormat],
    ),
]


def format_or_template(
    asked: str | None, *, of_tables: Mapping[str, bool] = MappingProxyType({})
) -> tuple[RowFormat | None, LineTemplate | None]:
    """Parse ``--format``; return a format or a template, both None if it was not given.

    Raises
    ------
    typer.BadParameter
        The text is neither, or a template was given together with an option for tables.
    """
    if asked is None:
        return None, None
    if asked in [*RowFormat]:
        return RowFormat(asked), None
    if "{" in asked or "}" in asked:
        for option, given in of_tables.items():
            if given:
                refuse_without_table(option, "a line for each message")
        return None, LineTemplate(asked)
    raise none_of(
        asked,
        RowFormat,
        ", or a template with names in braces, such as '{topic} {body}'",
        option="--format",
    )


class LineTemplate:
    r"""A line for each message, from the text of ``--format``.

    Names in braces stand for the values, ``{properties[NAME]}`` for that of one property (nothing where a message lacks
    it), ``{{`` and ``}}`` for braces; a width as in Python may follow (``{topic:<20}``). The line ends with a line end
    unless the text ends with one, or with ``\0``.

    Raises
    ------
    typer.BadParameter
        A field is unknown, or braces or a width are invalid.
    """

    def __init__(self, text: str) -> None:
        self._parts: list[tuple[str, str | None, str]] = []
        try:
            parts = [*string.Formatter().parse(_unescaped(text))]
        except ValueError as error:
            raise _bad(f"{text!r}: {error}") from error
        for before, name, spec, conversion in parts:
            if name is not None:
                _check(text, name, spec or "", conversion)
            self._parts.append((before, name, spec or ""))
        last, name, _ = self._parts[-1]
        if name is not None or not last.endswith(("\n", "\0")):
            self._parts.append(("\n", None, ""))
        self.shows_body = any(name == "body" for _, name, _ in self._parts)

    def encoder(self, bodies: Bodies, *, terminal: bool) -> Line:
        """Return a function that returns the line of a message; control characters are escaped for a terminal."""
        parts = [
            (before, None if name is None else _getter(name, bodies), spec)
            for before, name, spec in self._parts
        ]

        def shown(found: Any) -> Any:
            return printable(found) if terminal and isinstance(found, str) else found

        def line(view: MessageView) -> bytes:
            return "".join(
                before if value is None else before + format(shown(value(view)), spec)
                for before, value, spec in parts
            ).encode("utf-8", "replace")

        return line


def _getter(name: str, bodies: Bodies) -> Callable[[MessageView], Any]:
    """Return a function that reads a value of a message."""
    if name == "body":
        return lambda view: bodies.text(view) or ""
    if name == "store_time":
        return lambda view: format_time(view.store_timestamp_ms)
    if name == "born_time":
        return lambda view: format_time(view.born_timestamp_ms)
    if name == "keys":
        return lambda view: " ".join(view.keys)
    if name == "properties":
        return lambda view: json.dumps(dict(view.properties), ensure_ascii=False)
    one = _PROPERTY.fullmatch(name)
    if one is not None:
        return lambda view: view.properties.get(one[1], "")
    field = attrgetter(name)

    def value(view: MessageView) -> Any:
        found = field(view)
        return "" if found is None else found

    return value


def _check(text: str, name: str, spec: str, conversion: str | None) -> None:
    if name not in NAMES and not _PROPERTY.fullmatch(name):
        meant = did_you_mean(name, NAMES, shown=repr)
        raise _bad(f"{text!r}: unknown field {name!r}{meant}; fields are {', '.join(NAMES)}")
    if conversion is not None:
        raise _bad(f"{text!r}: {{{name}!{conversion}}} is not supported: omit !{conversion}")
    if "{" in spec or re.search(r"\d{5}", spec):
        raise _bad(f"{text!r}: expected a width below 10000, got {spec}")
    try:
        format("" if name in _TEXTS or "[" in name else 0, spec)
    except (ValueError, MemoryError, OverflowError) as error:
        raise _bad(f"{text!r}: {{{name}:{spec}}}: {error}") from error


def _unescaped(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPES:
            raise ValueError(f"\\{match[1]} is not an escape; known are \\n \\t \\r \\0 and \\\\")
        return _ESCAPES[match[1]]

    return re.sub(r"\\(.?)", replace, text, flags=re.DOTALL)


def _bad(message: str) -> typer.BadParameter:
    return typer.BadParameter(message, param_hint="--format")
