"""Rows of a Spark job on stdout: a table on a terminal, JSON everywhere else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rich.markup import escape
from rich.table import Table

from rmqcore.cli.bodies import BodyMode
from rmqcore.cli.output import print_json, printable, stdout_is_terminal, terminal_console


def plain_row(row: dict[str, Any], body: BodyMode = BodyMode.text) -> dict[str, Any]:
    """A row as JSON values: times in ISO 8601 and UTC, bytes as `body` says."""
    return {name: _plain(value, body) for name, value in row.items()}


def _plain(value: Any, body: BodyMode) -> Any:
    if isinstance(value, datetime):
        # Spark gives times without a zone, in that of this process.
        return value.astimezone(UTC).isoformat(timespec="milliseconds")
    if isinstance(value, bytes | bytearray):
        return _body(bytes(value), body)
    if isinstance(value, list):
        return [_plain(one.asDict() if hasattr(one, "asDict") else one, body) for one in value]
    return value


def _body(data: bytes, mode: BodyMode) -> str | None:
    if mode == BodyMode.none:
        return None
    if mode == BodyMode.base64:
        return base64.b64encode(data).decode("ascii")
    if mode == BodyMode.sha256:
        return hashlib.sha256(data).hexdigest()
    return data.decode("utf-8", "replace")


def show_rows(
    name: str, rows: Sequence[dict[str, Any]], columns: Sequence[str], *, as_json: bool
) -> None:
    """Print rows: some of the columns as a table on a terminal, else all in one JSON object, under `name`."""
    if as_json or not stdout_is_terminal():
        print_json({name: rows})
        return
    table = Table(box=None, pad_edge=False)
    for column in columns:
        numbers = bool(rows) and isinstance(rows[0].get(column), int | float)
        table.add_column(
            column, justify="right" if numbers else "left", no_wrap=True, overflow="ellipsis"
        )
    for row in rows:
        table.add_row(*(escape(_cell(row.get(column))) for column in columns))
    terminal_console().print(table)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.1f}"
    return printable(str(value))
