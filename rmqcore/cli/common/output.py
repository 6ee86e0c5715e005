"""Target and format of output: stdout or a file, for people or for programs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, BinaryIO, cast

import typer

from rmqcore.cli.common.shown import ReportConsole, ScreenText, printable


class RowFormat(StrEnum):
    """Formats of messages."""

    table = "table"
    jsonl = "jsonl"
    csv = "csv"
    arrow = "arrow"
    parquet = "parquet"


class ReportFormat(StrEnum):
    """Formats of a report."""

    table = "table"
    jsonl = "jsonl"


PRINTED_AT_ONCE = 1 << 20
"""Bytes of a long report to gather first: an error before that leaves stdout empty."""
BINARY = (RowFormat.arrow, RowFormat.parquet)
_SUFFIXES = {f".{name}": RowFormat(name) for name in ("jsonl", "csv", "arrow", "parquet")}


def stdout_is_terminal() -> bool:
    """Return True if stdout is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def wants_json(asked: bool) -> bool:
    """Return True if a report is printed as JSON: ``--json`` was given, or stdout is not a terminal."""
    return asked or not stdout_is_terminal()


def refuse_format_with_json(asked: RowFormat | ReportFormat | None, as_json: bool) -> None:
    """Raise ``typer.BadParameter`` if both ``--format`` and ``--json`` were given."""
    if as_json and asked is not None:
        raise typer.BadParameter(
            "--json already chooses the format: omit --format", param_hint="--json"
        )


def refuse_without_table(option: str, kind: str | None) -> None:
    """Raise ``typer.BadParameter`` if an option of tables was given with another format."""
    if kind not in (None, RowFormat.table):
        raise typer.BadParameter(
            f"only tables have this option, and the output is {kind}", param_hint=option
        )


def row_format(
    asked: RowFormat | None,
    out: Path | None,
    *,
    wide: bool = False,
    columns: Sequence[str] | None = None,
) -> RowFormat:
    """Choose the format: the one asked for, else by the file's suffix, else a table on a terminal and JSON Lines elsewhere.

    `wide` and `columns`, the values of their options, ask for a table.

    Raises
    ------
    typer.BadParameter
        A binary format would go to a terminal, a suffix has no format, or an option of tables has another format.
    """
    chosen = asked
    if chosen is None and out is not None:
        chosen = _format_of(out)
    for option, given in (("--wide", wide), ("--columns", columns is not None)):
        if given:
            refuse_without_table(option, chosen)
            chosen = RowFormat.table
    if chosen is None:
        chosen = RowFormat.table if stdout_is_terminal() else RowFormat.jsonl
    if chosen in BINARY and out is None and stdout_is_terminal():
        raise typer.BadParameter(
            f"{chosen} is binary and cannot be written to a terminal: add -o FILE or a pipe",
            param_hint="--format",
        )
    return chosen


def _format_of(out: Path) -> RowFormat:
    """Return the format of a file's suffix; JSON Lines for a name without suffix, and for a device or pipe."""
    suffix = out.suffix.lower()
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    if suffix and not (out.exists() and not out.is_file()):
        raise typer.BadParameter(
            f"{out.name} ends in {suffix}, expected one of {', '.join(_SUFFIXES)}: rename it, or "
            f"add --format {'|'.join(RowFormat)}",
            param_hint="--out",
        )
    return RowFormat.jsonl


def refuse_csv_safe(kind: str, csv_safe: bool) -> None:
    """Raise ``typer.BadParameter`` if ``--csv-safe`` was given and the format is not CSV."""
    if csv_safe and kind != RowFormat.csv:
        raise typer.BadParameter(
            f"this needs --format csv, and the output is {kind}", param_hint="--csv-safe"
        )


def report_format(
    asked: ReportFormat | None, as_json: bool, *, wide: bool = False
) -> ReportFormat | None:
    """Choose the format of a report; None stands for the single object of ``--json``, and `wide` asks for a table.

    Raises
    ------
    typer.BadParameter
        Both ``--format`` and ``--json`` were given, or ``--wide`` and a format other than a table.
    """
    refuse_format_with_json(asked, as_json)
    if wide:
        refuse_without_table("--wide", "json" if as_json else asked)
        return ReportFormat.table
    if as_json:
        return None
    return asked or (ReportFormat.table if stdout_is_terminal() else ReportFormat.jsonl)


@contextmanager
def open_output(out: Path | None, *, styled: bool = False) -> Iterator[BinaryIO]:
    """Yield a binary file: stdout, or a file that gets its name only when it is complete.

    Output to a terminal is made safe for it, unless the writer does that itself, because it has `styled` lines.
    """
    if out is None:
        if sys.stdout is None:
            raise OSError("standard output is closed")
        raw = styled or not stdout_is_terminal()
        yield sys.stdout.buffer if raw else cast("BinaryIO", ScreenText(sys.stdout.buffer))
        sys.stdout.buffer.flush()
        return
    if out.exists() and not out.is_file():  # a named pipe or /dev/null is written as it is
        with out.open("wb") as special:
            yield special
        return
    working = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        with working.open("wb") as file:
            yield file
        working.replace(out)
    except OSError as error:
        if error.filename == str(working):  # a name that the user does not know
            raise type(error)(error.errno, error.strerror, str(out)) from None
        raise
    finally:
        working.unlink(missing_ok=True)


def print_json(value: object, *, one_line: bool = False) -> None:
    """Print one JSON object: indented on a terminal, on one line in a pipe."""
    indent = 2 if stdout_is_terminal() and not one_line else None
    with open_output(None) as out:
        out.write(_json_bytes(value, indent) + b"\n")


def print_json_lists(head: dict[str, Any], lists: Mapping[str, Iterable[dict[str, Any]]]) -> None:
    """Print the same as ``print_json({**head, **lists})``, item by item, without a list in memory."""
    indent = 2 if stdout_is_terminal() else None
    begin, between, end = (b"\n    ", b",\n    ", b"\n  ]") if indent else (b"", b", ", b"]")
    with open_output(None) as out:
        waiting = bytearray(_json_bytes(head, indent)[:-1].rstrip())
        for name, items in lists.items():
            waiting += (b",\n  " if indent else b", ") + _json_bytes(name, None) + b": ["
            empty = True
            for item in items:
                waiting += begin if empty else between
                waiting += _json_bytes(item, indent).replace(b"\n", b"\n    ")
                empty = False
                if len(waiting) >= PRINTED_AT_ONCE:
                    out.write(waiting)
                    waiting.clear()
            waiting += b"]" if empty else end
        out.write(waiting + (b"\n}\n" if indent else b"}\n"))


def _json_bytes(value: object, indent: int | None) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent, default=str).encode()
    except UnicodeEncodeError:  # a path that is not UTF-8
        return json.dumps(value, indent=indent, default=str).encode()


Wide = Annotated[
    bool,
    typer.Option("--wide", help="Do not shorten table rows; for a pipe into less -S."),
]
WIDEST = 100_000
"""Columns of a table with ``--wide``."""


def terminal_console(*, wide: bool = False) -> ReportConsole:
    """Return the console for the tables of a report: 200 columns wide unless stdout is a terminal; `wide` folds nothing."""
    if wide:
        return ReportConsole(width=WIDEST)
    return ReportConsole(width=None if stdout_is_terminal() else 200)


def print_line(text: str) -> None:
    """Print a line for people on stdout; stored names in it are shown as text."""
    typer.echo(printable(text))


def human_bytes(count: int) -> str:
    """Format a number of bytes for people: ``1.5 GiB``."""
    size = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            break
        size /= 1024
    return counted(count, "byte") if unit == "bytes" else f"{size:.1f} {unit}"


def counted(count: int, noun: str) -> str:
    """Format a number with its noun: ``1 file``, ``2,000 files``, ``3 entries``."""
    if count == 1:
        return f"1 {noun}"
    if noun[-1] == "y" and noun[-2] not in "aeo":
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}s"
