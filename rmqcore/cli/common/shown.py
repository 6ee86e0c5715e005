"""Makes stored text safe for a terminal, and folds it to its width.

The only place that breaks lines: it never breaks a number, and never cuts a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Console
from rich.text import Text
from rich.theme import Theme

from rmqcore.cli.common.styles import OF_RICH
from rmqcore.shown.plain_text import printable, printable_lines

__all__ = [
    "GAP",
    "ReportConsole",
    "ScreenText",
    "card_lines",
    "column_widths",
    "folded",
    "least_width",
    "printable",
    "printable_lines",
    "shortened",
    "table_lines",
]

GAP = 2
"""Cells between two columns of a table."""
LEAST_TEXT, EASY_TEXT = 12, 24
"""Least cells of a column of text, and the cells that it keeps before a column of times is folded."""

_WORDS = re.compile(r"(?<= )(?=[^ ])")
_PARTS = re.compile(r"(?<=[^0-9 ] )(?=[^ ])|(?<=[0-9] )(?=[0-9])|(?<=[0-9]\.\.)(?=[0-9])")
"""Date and time, both ends of ``10..20``, the words of a head; a number and its unit stay together."""


class ScreenText:
    """A terminal that gets JSON or CSV: control characters become JSON escapes, so that an object keeps its value.

    Parameters
    ----------
    screen : BinaryIO
        Each write to it is whole characters of UTF-8.
    """

    def __init__(self, screen: BinaryIO) -> None:
        self._screen = screen

    def write(self, data: Any) -> int:
        """Write UTF-8 text; return the number of bytes accepted."""
        text = bytes(data).decode("utf-8", "replace")
        plain = "\n".join(
            line if line.isprintable() else "".join(map(_json_escaped, line))
            for line in text.split("\n")
        )
        self._screen.write(plain.encode())
        return len(data)

    def flush(self) -> None:
        """Flush the terminal."""
        self._screen.flush()


def _json_escaped(char: str) -> str:
    if char.isprintable() or char == "\t":
        return char
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


class ReportConsole(Console):
    """A console for tables of stored names: markup, emoji codes and control characters in them have no effect.

    A style is given as a style, or as a `rich.text.Text`.
    """

    def __init__(self, *, width: int | None = None, stderr: bool = False) -> None:
        super().__init__(
            highlight=False,
            markup=False,
            emoji=False,
            width=width,
            stderr=stderr,
            theme=Theme(OF_RICH),
        )

    def render_str(self, text: str, **options: Any) -> Text:
        """Make text of a string, for a cell, a title or a line."""
        return super().render_str(printable_lines(text), **options)


# ---- folding ----------------------------------------------------------------------------------------


def folded(text: str, width: int, *, inside: bool = False) -> list[str]:
    """Break a text into lines of `width` cells, between date and time and at ``10..20``; numbers may be longer.

    With `inside`, words longer than a line are broken too.
    """
    if cell_len(text) <= width:
        return [text]
    lines, line = [], ""
    for piece in (_WORDS if inside else _PARTS).split(text):
        if line and cell_len(line + piece.rstrip()) > width:
            lines.append(line.rstrip())
            line = ""
        line += piece
        if inside and cell_len(line.rstrip()) > width:
            *whole, line = chop_cells(line, width)
            lines += whole
    return [*lines, line.rstrip()]


def least_width(cells: Iterable[str], *, inside: bool = False) -> int:
    """Return the least cells of a column in which `folded` keeps unbreakable parts whole."""
    breaks = _WORDS if inside else _PARTS
    pieces = (piece.rstrip() for cell in cells for piece in breaks.split(cell))
    least = max(map(cell_len, pieces), default=0)
    return min(least, LEAST_TEXT) if inside else least


def column_widths(
    natural: Sequence[int], least: Sequence[int], texts: Sequence[bool], room: int
) -> list[int] | None:
    """Return widths of the columns in a line; None if the line has no room for all.

    Long texts become narrow first, then values that fold at a space, for example times, then all texts.
    """
    room -= GAP * (len(natural) - 1)
    if sum(least) > room:
        return None
    widths = list(natural)
    columns = range(len(widths))

    def narrow_texts(floor: int) -> None:
        while sum(widths) > room:
            slack = {at: widths[at] - max(floor, least[at]) for at in columns if texts[at]}
            widest = max(slack, key=lambda at: (slack[at] > 0, widths[at]), default=-1)
            if widest < 0 or slack[widest] <= 0:
                return
            widths[widest] -= 1

    narrow_texts(EASY_TEXT)
    for at in sorted(columns, key=lambda at: least[at] - natural[at]):
        if sum(widths) > room and not texts[at]:
            widths[at] = least[at]
    narrow_texts(0)
    for at in columns:  # a column that folded may have made more room than was missing
        if texts[at]:
            widths[at] = min(natural[at], widths[at] + max(0, room - sum(widths)))
    return widths


def table_lines(cells: Sequence[str], widths: Sequence[int], texts: Sequence[bool]) -> list[str]:
    """Return the lines of a row; texts are left-aligned and may be broken anywhere, the rest is right-aligned."""
    folds = [
        folded(cell, width, inside=text)
        for cell, width, text in zip(cells, widths, texts, strict=True)
    ]
    lines = []
    for number in range(max(map(len, folds), default=0)):
        parts = [
            _placed(fold[number] if number < len(fold) else "", width, left=text)
            for fold, width, text in zip(folds, widths, texts, strict=True)
        ]
        lines.append((" " * GAP).join(parts).rstrip())
    return lines


def card_lines(names: Sequence[str], cells: Sequence[str], width: int) -> list[str]:
    """Return the lines of a row for which no table has room: each value behind its name."""
    margin = max(map(cell_len, names), default=0) + GAP
    lines = []
    for name, cell in zip(names, cells, strict=True):
        first, *others = folded(cell, max(LEAST_TEXT, width - margin), inside=True)
        lines.append(f"{set_cell_size(name, margin)}{first}".rstrip())
        lines += [" " * margin + other for other in others]
    return lines


def shortened(text: str, width: int) -> str:
    """Shorten a text to a number of cells, with an ellipsis where it was cut."""
    return text if cell_len(text) <= width else set_cell_size(text, max(0, width - 1)) + "…"


def _placed(text: str, width: int, *, left: bool) -> str:
    room = " " * max(0, width - cell_len(text))
    return text + room if left else room + text
