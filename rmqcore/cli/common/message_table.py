"""Messages as an aligned table of any length.

The first rows decide the widths. Rows are written without rich, which needs all rows at once.
"""

from __future__ import annotations

import os
import shutil
from typing import BinaryIO

from rich.cells import cell_len, set_cell_size

from rmqcore.cli.common.bodies import Bodies
from rmqcore.cli.common.shown import printable
from rmqcore.cli.common.times import format_time
from rmqcore.message import MessageView
from rmqcore.offline.log.walk import Blank

COLUMNS = ("store_time", "topic", "queue", "offset", "phy_offset", "size", "tags", "keys", "body")
NUMBERS = {"queue", "offset", "phy_offset", "size"}
MAX_WIDTHS = {"topic": 32, "tags": 16, "keys": 32}
BODY_WIDTH = 80
"""Cells of a body in a pipe or file; on a terminal the end of the line is the limit."""
FIRST_ROWS = 100


class MessageTable:
    """A table of messages.

    Parameters
    ----------
    terminal : bool
        Cut rows at the terminal's width and print the header in bold.
    """

    def __init__(self, out: BinaryIO, bodies: Bodies, *, terminal: bool) -> None:
        self._out = out
        self._bodies = bodies
        self._columns = COLUMNS if bodies.shown else COLUMNS[:-1]
        self._line_width = shutil.get_terminal_size().columns if terminal else 0
        self._bold = terminal and not os.environ.get("NO_COLOR")
        self._rows: list[list[str]] = []
        self._widths: list[int] = []

    def write(self, item: MessageView | Blank) -> None:
        """Add a row."""
        self._rows.append(self._blank(item) if isinstance(item, Blank) else self._row(item))
        if len(self._rows) >= FIRST_ROWS:
            self._drain()

    def _row(self, view: MessageView) -> list[str]:
        row = [
            format_time(view.store_timestamp_ms, zone=False),
            printable(view.topic),
            str(view.queue_id),
            str(view.queue_offset),
            str(view.phy_offset),
            str(view.msg_size),
            printable(view.tags or ""),
            printable(" ".join(view.keys)),
        ]
        if self._bodies.shown:
            row.append(
                printable((self._bodies.text(view) or "")[: self._line_width or BODY_WIDTH + 1])
            )
        return row

    def _blank(self, blank: Blank) -> list[str]:
        row = ["", "(BLANK)", "", "", str(blank.phy_offset), str(blank.msg_size), "", ""]
        return row + [""] * (len(self._columns) - len(row))

    def _drain(self) -> None:
        if not self._rows:
            return
        lines = []
        if not self._widths:
            self._widths = self._measure()
            header = self._line(list(self._columns))
            lines.append(f"\x1b[1m{header}\x1b[0m" if self._bold else header)
        lines += [self._line(row) for row in self._rows]
        self._rows.clear()
        self._out.write(("\n".join(lines) + "\n").encode("utf-8", "replace"))

    def _measure(self) -> list[int]:
        widths = []
        for at, name in enumerate(self._columns):
            widest = max(cell_len(row[at]) for row in [list(self._columns), *self._rows])
            widths.append(min(widest, MAX_WIDTHS.get(name, BODY_WIDTH)))
        return widths

    def _line(self, row: list[str]) -> str:
        cells = []
        for name, text, width in zip(self._columns, row, self._widths, strict=True):
            if name in NUMBERS:
                cells.append(text.rjust(width))
            elif name == "body":
                cells.append(text if self._line_width else _fitted(text, BODY_WIDTH))
            else:
                cells.append(_fitted(text, width))
        line = "  ".join(cells)
        return _cropped(line, self._line_width).rstrip()

    def flush(self) -> None:
        """Write the rows that wait."""
        self._drain()
        self._out.flush()

    close = flush


def _fitted(text: str, width: int) -> str:
    """Bring text to exactly `width` cells, cut with an ellipsis when it is longer."""
    if cell_len(text) > width:
        return set_cell_size(text, width - 1) + "…"
    return set_cell_size(text, width)


def _cropped(line: str, width: int) -> str:
    return set_cell_size(line, width) if width and cell_len(line) > width else line
