"""Output of the verbs that print a few messages: get, query and lookup."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rmqcore.cli.common.arrow_output import ViewBatches, write_batches
from rmqcore.cli.common.bodies import Bodies, BodyMode, decompressing, refuse_text_in_columns
from rmqcore.cli.common.message_card import message_card
from rmqcore.cli.common.message_table import TableShape
from rmqcore.cli.common.message_writers import JsonObjectWriter, MessageWriter, text_writer
from rmqcore.cli.common.output import (
    BINARY,
    RowFormat,
    open_output,
    refuse_csv_safe,
    refuse_format_with_json,
    row_format,
    stdout_is_terminal,
)
from rmqcore.codec.message import MessageView
from rmqcore.errors.exit_codes import DAMAGED, OK
from rmqcore.offline.export.message_rows import FIELDS, json_encoder


class Answer:
    """Prints the messages of a result; its options are checked before the store is read.

    Raises
    ------
    typer.BadParameter
        Options that do not go together.
    """

    def __init__(
        self,
        asked_format: RowFormat | None,
        out: Path | None,
        body: BodyMode | None,
        *,
        decompress: bool,
        max_body: int,
        as_json: bool,
        csv_safe: bool = False,
        wide: bool = False,
        columns: Sequence[str] | None = None,
        unwrap: bool = False,
    ) -> None:
        self._unwrap = unwrap
        refuse_format_with_json(asked_format, as_json)
        self._shape = TableShape(columns, wide)
        self._as_json = as_json
        asked = RowFormat.jsonl if as_json else asked_format
        self._kind = row_format(asked, out, wide=wide, columns=columns)
        refuse_text_in_columns(self._kind, body, decompress=decompress)
        refuse_csv_safe(self._kind, csv_safe)
        self._csv_safe = csv_safe
        self._out = out
        self._bodies = Bodies(
            body or BodyMode.text,
            decompress=decompressing(decompress, self._kind, body),
            max_body=max_body,
        )

    def show(self, views: Sequence[MessageView], **rest: object) -> int:
        """Print messages, with `rest` beside them in a JSON object, and return the exit code."""
        return self._show(self._taken_apart(views), rest)

    def _taken_apart(self, views: Sequence[MessageView]) -> Sequence[MessageView]:
        return list(self._bodies.unwrapped(views)) if self._unwrap else views

    def _show(self, views: Sequence[MessageView], rest: dict[str, object]) -> int:
        with open_output(self._out, styled=self._kind == RowFormat.table) as sink:
            if self._kind in BINARY:
                columns = [name for name in FIELDS if self._bodies.shown or name != "body"]
                write_batches(
                    ViewBatches(views, columns), sink, self._kind, seekable=self._out is not None
                )
                return DAMAGED if self._bodies.failures else OK
            writer: MessageWriter
            if self._as_json:
                writer = JsonObjectWriter(sink, json_encoder(self._bodies.text), lambda: rest)
            else:
                terminal = self._out is None and stdout_is_terminal()
                writer = text_writer(
                    self._kind,
                    sink,
                    self._bodies,
                    terminal=terminal,
                    csv_safe=self._csv_safe,
                    shape=self._shape,
                )
            for view in views:
                writer.write(view)
            writer.close()
        return DAMAGED if self._bodies.failures else OK

    def show_one(self, view: MessageView) -> int:
        """Print a message: with ``--json`` as an object, as a table with each value on a line; several of a batch as `show`."""
        views = self._taken_apart([view])
        if len(views) != 1:
            return self._show(views, {})
        (view,) = views
        if self._as_json:
            value = json.loads(json_encoder(self._bodies.text)(view))
            indent = 2 if self._out is None and stdout_is_terminal() else None
            with open_output(self._out) as sink:
                sink.write(
                    (json.dumps(value, ensure_ascii=False, indent=indent) + "\n").encode(
                        "utf-8", "replace"
                    )
                )
            return DAMAGED if self._bodies.failures else OK
        if self._kind == RowFormat.table:
            with open_output(self._out) as sink:
                sink.write(message_card(view, self._bodies).encode("utf-8", "replace"))
            return DAMAGED if self._bodies.failures else OK
        return self._show(views, {})
