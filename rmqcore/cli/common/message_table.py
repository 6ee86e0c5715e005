"""Messages as a table of any length, which is folded to the terminal's width without loss.

A message needs one line, or two if the terminal is narrow: then texts are below the numbers. In less than 80 columns it
is a card. Only bodies are cut, with an ellipsis. The first rows decide the widths, and later numbers that are longer
widen their columns. Rows are written without rich, which needs all rows at once.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, BinaryIO

import typer
from rich.cells import cell_len

from rmqcore.cli.common.bodies import Bodies
from rmqcore.cli.common.message_card import HEXADECIMAL
from rmqcore.cli.common.shown import (
    GAP,
    card_lines,
    column_widths,
    folded,
    least_width,
    printable,
    shortened,
    table_lines,
)
from rmqcore.cli.common.times import format_time
from rmqcore.codec.message import MessageView
from rmqcore.errors.near_names import with_the_meant
from rmqcore.offline.export.message_rows import FIELDS
from rmqcore.offline.log.walk import Blank

COLUMNS = ("store_time", "topic", "queue", "offset", "phy_offset", "size", "tags", "keys", "body")
SHORT_NAMES = {"queue": "queue_id", "offset": "queue_offset", "size": "msg_size"}
"""Short column names for longer field names."""
TIMES = {"store_time": "store_timestamp_ms", "born_time": "born_timestamp_ms"}
TEXTS = {
    *TIMES,
    "topic",
    "tags",
    "keys",
    "body",
    "properties",
    "born_host",
    "store_host",
    "msg_id",
    "uniq_key",
}
"""Left-aligned columns; all except times may be broken anywhere."""
BELOW = {"tags", "keys", "body", "properties"}
"""Columns that move to a second line if one line has no room for all."""
KNOWN = tuple(dict.fromkeys([*COLUMNS, *TIMES, *FIELDS]))
MAX_WIDTH = 32
"""Cells to which a column of text is padded in a pipe; longer texts move the rest of their row."""
BODY_WIDTH = 80
"""Cells of a body in a pipe or file; on a terminal the end of the line is the limit."""
LEAST_BODY = 24
CARD_WIDTH = 80
"""With fewer columns than these each message is a card."""
CARD_BODY_LINES = 4
FIRST_ROWS, MOST_WAITING = 100, 1 << 20
"""Rows and letters to hold before the first widths are set: bodies may have megabytes."""


class ColumnNames(tuple[str, ...]):
    """The value of ``--columns``."""

    __slots__ = ()


def columns_option(text: str) -> ColumnNames:
    """Parse the value of ``--columns``."""
    names = ColumnNames(name.strip() for name in text.split(",") if name.strip())
    unknown = [name for name in names if name not in KNOWN]
    if unknown or not names:
        raise typer.BadParameter(
            f"unknown column {with_the_meant(unknown or [text], KNOWN)}; known columns: "
            f"{', '.join(KNOWN)}"
        )
    return names


Columns = Annotated[
    ColumnNames | None,
    typer.Option(
        "--columns",
        metavar="A,B,...",
        parser=columns_option,
        help="Columns of the table, such as store_time,topic,keys; an unknown name prints the list.",
    ),
]


@dataclass(frozen=True, slots=True)
class TableShape:
    """Options of a table.

    Attributes
    ----------
    columns : sequence of str or None
        None: `COLUMNS`.
    wide : bool
        Rows of any length, with whole bodies.
    """

    columns: Sequence[str] | None = None
    wide: bool = False


class MessageTable:
    """A table of messages.

    Parameters
    ----------
    terminal : bool
        Fold rows to the terminal's width and print the header in bold.
    shape : TableShape
    """

    def __init__(
        self, out: BinaryIO, bodies: Bodies, *, terminal: bool, shape: TableShape = TableShape()
    ) -> None:
        self._out = out
        self._bodies = bodies
        asked = shape.columns or COLUMNS
        self._columns = [name for name in asked if bodies.shown or name != "body"]
        self._texts = [name in TEXTS for name in self._columns]
        self._wide = shape.wide
        fold = terminal and not shape.wide
        self._line_width = shutil.get_terminal_size().columns if fold else 0
        self._bold = terminal and not os.environ.get("NO_COLOR")
        self._rows: list[list[str]] = []
        self._natural = [0] * len(self._columns)
        self._least = [0] * len(self._columns)
        self._written = False
        self._waiting = 0
        shown = max(BODY_WIDTH, CARD_BODY_LINES * self._line_width)
        self._most_body = (
            None if shape.wide else shown + 1
        )  # so that the rest is not made printable

    def write(self, item: MessageView | Blank) -> None:
        """Add a row."""
        value = self._of_blank if isinstance(item, Blank) else self._of_message
        self._rows.append([value(item, name) for name in self._columns])  # type: ignore[arg-type]
        self._waiting += sum(map(len, self._rows[-1]))
        if len(self._rows) >= FIRST_ROWS or self._waiting >= MOST_WAITING:
            self._drain()

    def _of_message(self, view: MessageView, name: str) -> str:
        if name == "body":
            return printable((self._bodies.text(view) or "")[: self._most_body])
        value = getattr(view, TIMES.get(name) or SHORT_NAMES.get(name, name))
        if name in TIMES:
            return format_time(value, zone=False)
        if name == "keys":
            value = " ".join(value)
        elif name == "properties":
            value = " ".join(f"{key}={text}" for key, text in value.items())
        elif name in HEXADECIMAL:
            value = f"{value & 0xFFFFFFFF:#x}"
        return "" if value is None else printable(str(value))

    def _of_blank(self, blank: Blank, name: str) -> str:
        if name == "topic":
            return "(BLANK)"
        long_name = SHORT_NAMES.get(name, name)
        return str(getattr(blank, long_name)) if long_name in ("phy_offset", "msg_size") else ""

    def _drain(self) -> None:
        if not self._rows:
            return
        self._measure()
        lines = self._lines()
        self._rows.clear()
        self._waiting = 0
        self._written = True
        self._out.write(("\n".join(lines) + "\n").encode("utf-8", "replace"))

    def _measure(self) -> None:
        """Widen the columns to the rows so far; texts keep the width of the first rows."""
        for at, (name, text) in enumerate(zip(self._columns, self._texts, strict=True)):
            if not (text and self._written):
                cells = [name, *(row[at] for row in self._rows)]
                self._natural[at] = max(self._natural[at], *map(cell_len, cells))
                self._least[at] = max(self._least[at], least_width(cells, inside=text))

    def _lines(self) -> list[str]:
        if not self._line_width:
            return self._long_lines()
        everything = range(len(self._columns))
        if self._line_width >= CARD_WIDTH:
            above = [at for at in everything if self._columns[at] not in BELOW]
            below = [at for at in everything if self._columns[at] in BELOW]
            widths = self._widths(everything)
            if widths is not None:
                return self._table(everything, widths, [])
            widths = self._widths(above)
            if widths is not None and above:
                return self._table(above, widths, below)
        return self._cards()

    def _widths(self, columns: Sequence[int]) -> list[int] | None:
        """Return widths of some columns in one line; None if they do not fit without folding times or keys."""
        natural, least = [self._natural[at] for at in columns], [self._least[at] for at in columns]
        names = [self._columns[at] for at in columns]
        for at, name in enumerate(names):
            if name == "body":
                natural[at] = min(natural[at], self._line_width)
                least[at] = min(natural[at], LEAST_BODY)
            elif name in BELOW or name in TIMES:
                least[at] = min(natural[at], MAX_WIDTH)
        return column_widths(natural, least, [name in TEXTS for name in names], self._line_width)

    def _table(
        self, columns: Sequence[int], widths: Sequence[int], below: Sequence[int]
    ) -> list[str]:
        texts = [self._texts[at] for at in columns]
        lines = []
        if not self._written:
            head = table_lines([self._columns[at] for at in columns], widths, texts)
            if below:
                head.append("  " + ", ".join(self._columns[at] for at in below))
            lines += [f"\x1b[1m{line}\x1b[0m" if self._bold else line for line in head]
        for row in self._rows:
            cells = [
                shortened(row[at], width) if self._columns[at] == "body" else row[at]
                for at, width in zip(columns, widths, strict=True)
            ]
            lines += table_lines(cells, widths, texts)
            lines += self._below(row, below)
        return lines

    def _below(self, row: Sequence[str], columns: Sequence[int]) -> list[str]:
        """Return a row's texts as further lines; the body gets the rest of the last line.

        An empty text is a hyphen: otherwise a key would be below the header of a tag.
        """
        if not any(row[at] for at in columns):
            return []
        room = self._line_width - GAP
        body = next((row[at] or "-" for at in columns if self._columns[at] == "body"), "")
        text = (" " * GAP).join(row[at] or "-" for at in columns if self._columns[at] != "body")
        lines = folded(text, room, inside=True) if text else []
        left = room - (cell_len(lines[-1]) + GAP if lines else 0)
        if body and lines and left >= min(LEAST_BODY, cell_len(body)):
            lines[-1] += " " * GAP + shortened(body, left)
        elif body:
            lines.append(shortened(body, room))
        return [" " * GAP + line for line in lines]

    def _cards(self) -> list[str]:
        lines: list[str] = []
        for row in self._rows:
            if lines or self._written:
                lines.append("")
            cells = [
                self._start_of(cell) if name == "body" else cell or "-"
                for name, cell in zip(self._columns, row, strict=True)
            ]
            lines += card_lines(self._columns, cells, self._line_width)
        return lines

    def _start_of(self, body: str) -> str:
        margin = max(map(cell_len, self._columns)) + GAP
        return shortened(body, CARD_BODY_LINES * max(LEAST_BODY, self._line_width - margin)) or "-"

    def _long_lines(self) -> list[str]:
        most = [0 if name == "body" else MAX_WIDTH for name in self._columns]
        widths = [
            min(natural, limit) if text else natural
            for natural, limit, text in zip(self._natural, most, self._texts, strict=True)
        ]
        lines = [] if self._written else [self._long_line(self._columns, widths)]
        return lines + [self._long_line(row, widths) for row in self._rows]

    def _long_line(self, row: Sequence[str], widths: Sequence[int]) -> str:
        parts = []
        for name, cell, width, text in zip(self._columns, row, widths, self._texts, strict=True):
            shown = shortened(cell, BODY_WIDTH) if name == "body" and not self._wide else cell
            room = " " * max(0, width - cell_len(shown))
            parts.append(shown + room if text else room + shown)
        return (" " * GAP).join(parts).rstrip()

    def flush(self) -> None:
        """Write the rows that wait."""
        self._drain()
        self._out.flush()

    close = flush
