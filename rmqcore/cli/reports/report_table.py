"""Tables of reports, as wide as the terminal and complete even on a narrow one.

A row of a table folds: long names anywhere, times and ranges between their parts, a number never. If the columns still
do not fit, each row becomes a card, with one value per line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.table import Table
from rich.text import Text

from rmqcore.cli.common import styles
from rmqcore.cli.common.shown import (
    card_lines,
    column_widths,
    folded,
    least_width,
    printable,
    shortened,
    table_lines,
)

LEAST_CUT = 4
"""Cells that are left of a text on a screen without room."""


def facts(rows: Mapping[str, str]) -> Table:
    """Make the head of a report: a name and its value a line."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style=styles.HEAD)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(name, value)
    return table


class ReportTable:
    """A list of things, as rich prints it.

    Parameters
    ----------
    title : str
        Line above the columns, after an empty line; left out if empty.
    *columns : str
    left : sequence of str
        The columns of text, left-aligned; they may be broken anywhere. All others are right-aligned.
    whole_words : sequence of str
        Columns of text that are broken only between words.
    one_line : bool
        For a screen with a fixed number of lines: cut texts with an ellipsis instead of folding them.
    """

    def __init__(
        self,
        title: str,
        *columns: str,
        left: Sequence[str] = (),
        whole_words: Sequence[str] = (),
        one_line: bool = False,
    ) -> None:
        self._title = title
        self._columns = columns
        self._texts = [name in left for name in columns]
        self._breakable = [name in left and name not in whole_words for name in columns]
        self._one_line = one_line
        self._rows: list[tuple[str, ...]] = []

    def add_row(self, *cells: str) -> None:
        """Add a row, with a cell for each column."""
        assert len(cells) == len(self._columns)
        self._rows.append(tuple(map(printable, cells)))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        if self._title:
            yield _line("")
            for line in folded(self._title, options.max_width, inside=True):
                yield _line(line, styles.HEAD)
        widths = self._widths(options.max_width)
        if self._one_line:
            yield from self._cut_lines(widths, options.max_width)
            return
        if widths is None:
            for row in self._rows:
                if row is not self._rows[0]:
                    yield _line("")
                for line in card_lines(self._columns, row, options.max_width):
                    yield _line(line)
            return
        for line in table_lines(self._columns, widths, self._texts):
            yield _line(line, styles.COLUMN_HEADS)
        for row in self._rows:
            for line in table_lines(row, widths, self._texts):
                yield _line(line)

    def _widths(self, room: int) -> list[int] | None:
        all_cells = [
            [name, *cells] for name, *cells in zip(self._columns, *self._rows, strict=True)
        ]
        natural = [max(map(cell_len, cells)) for cells in all_cells]
        least = [
            min(wide, least_width(cells, inside=breakable))
            for wide, cells, breakable in zip(natural, all_cells, self._breakable, strict=True)
        ]
        if self._one_line:
            least = [
                LEAST_CUT if text else wide for wide, text in zip(natural, self._texts, strict=True)
            ]
        return column_widths(natural, least, self._texts, room)

    def _cut_lines(self, widths: Sequence[int] | None, room: int) -> Iterator[Text]:
        places = widths or [LEAST_CUT if text else 1 for text in self._texts]
        for row in (self._columns, *self._rows):
            cells = [
                shortened(cell, width) if text else cell
                for cell, width, text in zip(row, places, self._texts, strict=True)
            ]
            line = "".join(table_lines(cells, places, self._texts))
            style = styles.COLUMN_HEADS if row is self._columns else ""
            yield _line(shortened(line, room), style)


def _line(text: str, style: str = "") -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ignore")
