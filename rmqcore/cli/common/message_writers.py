"""Writers of messages in text formats, a chunk of lines at a time."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import BinaryIO, Protocol

from rmqcore.cli.common.bodies import Bodies
from rmqcore.cli.common.message_table import MessageTable, TableShape
from rmqcore.cli.common.output import RowFormat
from rmqcore.codec.message import MessageView
from rmqcore.offline.export.message_rows import CSV_HEADER, Line, csv_encoder, json_encoder
from rmqcore.offline.log.walk import Blank

CHUNK_LINES, CHUNK_BYTES = 512, 1024 * 1024
"""Lines or bytes to gather before a write."""


class MessageWriter(Protocol):
    """Writes messages in its format, one by one."""

    def write(self, item: MessageView | Blank) -> None:
        """Add a message or BLANK."""

    def flush(self) -> None:
        """Write the messages that wait."""

    def close(self) -> None:
        """Write the waiting messages, and the end of the format, for example a closing bracket."""


class LineWriter:
    """Writes lines: JSON Lines, or other lines that `encode` returns."""

    def __init__(self, out: BinaryIO, encode: Line) -> None:
        self._out = out
        self._encode = encode
        self._lines: list[bytes] = []
        self._waiting = 0

    def write(self, item: MessageView | Blank) -> None:
        """Add a line."""
        line = self._encode(item) if isinstance(item, MessageView) else blank_line(item)
        self._lines.append(line)
        self._waiting += len(line)
        if len(self._lines) >= CHUNK_LINES or self._waiting >= CHUNK_BYTES:
            self._drain()

    def _drain(self) -> None:
        self._out.write(b"".join(self._lines))
        self._lines.clear()
        self._waiting = 0

    def flush(self) -> None:
        """Write the lines that wait."""
        self._drain()
        self._out.flush()

    close = flush


class CsvWriter(LineWriter):
    """Writes CSV with a header line."""

    def __init__(self, out: BinaryIO, encode: Line) -> None:
        super().__init__(out, encode)
        self._lines.append(CSV_HEADER)

    def write(self, item: MessageView | Blank) -> None:
        """Add a row; a BLANK has no row in CSV."""
        if isinstance(item, MessageView):
            super().write(item)


def blank_line(blank: Blank) -> bytes:
    """Format a BLANK record as a line of JSON."""
    value = {"kind": "BLANK", "phy_offset": blank.phy_offset, "msg_size": blank.msg_size}
    return json.dumps(value).encode() + b"\n"


class JsonObjectWriter:
    """Writes a JSON object: ``{"messages": [...], ...}``; `rest` returns the other values at the end."""

    def __init__(
        self,
        out: BinaryIO,
        encode: Line,
        rest: Callable[[], dict[str, object]],
    ) -> None:
        self._out = out
        self._encode = encode
        self._rest = rest
        self._before = b'{"messages": ['

    def write(self, item: MessageView | Blank) -> None:
        """Add an element."""
        line = self._encode(item) if isinstance(item, MessageView) else blank_line(item)
        self._out.write(self._before + line.removesuffix(b"\n"))
        self._before = b",\n"

    def flush(self) -> None:
        """Do nothing: half an object is of no use to a reader."""

    def close(self) -> None:
        """Close the list and add the rest."""
        opening = self._before if self._before.startswith(b"{") else b""
        rest = "".join(
            f", {json.dumps(name)}: {json.dumps(value, ensure_ascii=False, default=str)}"
            for name, value in self._rest().items()
        )
        self._out.write(opening + f"]{rest}}}\n".encode("utf-8", "replace"))
        self._out.flush()


def text_writer(
    kind: RowFormat,
    out: BinaryIO,
    bodies: Bodies,
    *,
    terminal: bool = False,
    csv_safe: bool = False,
    shape: TableShape | None = None,
) -> MessageWriter:
    """Return the writer of a text format; with `terminal`, rows of a table are folded to its width as `shape` asks."""
    if kind == RowFormat.csv:
        return CsvWriter(out, csv_encoder(bodies.text, csv_safe=csv_safe))
    if kind == RowFormat.table:
        return MessageTable(out, bodies, terminal=terminal, shape=shape or TableShape())
    return LineWriter(out, json_encoder(bodies.text))
