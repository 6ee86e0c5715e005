"""How `cat` and `tail` print messages: in a format, or a line of a template for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from rmqcore.cli.common.bodies import Bodies, BodyMode, decompressing
from rmqcore.cli.common.message_table import TableShape
from rmqcore.cli.common.message_writers import LineWriter, MessageWriter, text_writer
from rmqcore.cli.common.output import (
    RowFormat,
    refuse_csv_safe,
    refuse_format_with_json,
    row_format,
)
from rmqcore.cli.typed.line_template import LineTemplate, format_or_template
from rmqcore.shown.body_text import Stored


@dataclass(frozen=True, slots=True)
class MessageOutput:
    """Options of the output of messages.

    Attributes
    ----------
    kind : RowFormat
        JSON Lines if a template is given.
    template : LineTemplate or None
    shape : TableShape
    csv_safe : bool
    """

    kind: RowFormat
    template: LineTemplate | None
    shape: TableShape
    csv_safe: bool

    @property
    def styled(self) -> bool:
        """True if the output is a table or template for people; `open_output` needs it."""
        return self.template is not None or self.kind == RowFormat.table

    def bodies(
        self,
        body: BodyMode | None,
        *,
        decompress: bool,
        max_body: int,
        stored: Stored | None = None,
    ) -> Bodies:
        """Return the conversion of bodies to text."""
        kind = None if self.template else self.kind
        return Bodies(
            body or (None if self.template else BodyMode.text),
            decompress=decompressing(decompress, kind, body),
            max_body=max_body,
            stored=stored,
        )

    def writer(self, sink: BinaryIO, bodies: Bodies, *, terminal: bool) -> MessageWriter:
        """Make what writes messages, not in columns."""
        if self.template is not None:
            return LineWriter(sink, self.template.encoder(bodies, terminal=terminal))
        return text_writer(
            self.kind,
            sink,
            bodies,
            terminal=terminal,
            csv_safe=self.csv_safe,
            shape=self.shape,
        )


def message_output(
    asked_format: str | None,
    out: Path | None,
    *,
    wide: bool,
    columns: Sequence[str] | None,
    csv_safe: bool,
    as_json: bool = False,
) -> MessageOutput:
    """Return the output that the options ask for.

    Raises
    ------
    typer.BadParameter
        The options do not go together, or the format is unknown.
    """
    asked_kind, template = format_or_template(
        asked_format, of_tables={"--wide": wide, "--columns": columns is not None}
    )
    refuse_format_with_json(RowFormat.table if template else asked_kind, as_json)
    kind = RowFormat.jsonl
    if template is None:
        asked = RowFormat.jsonl if as_json else asked_kind
        kind = row_format(asked, out, wide=wide, columns=columns)
    refuse_csv_safe(kind, csv_safe)
    return MessageOutput(kind, template, TableShape(columns, wide), csv_safe)
