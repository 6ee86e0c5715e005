"""Rows of a Spark job on stdout: a table on a terminal, JSON everywhere else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from rmqcore.cli.common.bodies import BodyMode
from rmqcore.cli.common.message_table import BODY_WIDTH
from rmqcore.cli.common.output import print_json, print_line, terminal_console
from rmqcore.cli.common.shown import printable, shortened
from rmqcore.cli.reports.report_table import ReportTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIMES = {"store_timestamp", "born_timestamp", "hour"}
"""Columns of times."""


def plain_rows(frame: DataFrame, body: BodyMode = BodyMode.text) -> list[dict[str, Any]]:
    """Run a query and return its rows as JSON values: times in ISO 8601 and UTC, bytes in the form of `body`.

    A time that Python's calendar lacks, before the year 1 or after 9999, is returned in milliseconds since 1970.
    """
    from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

    times = {
        field.name for field in frame.schema.fields if field.dataType.typeName() == "timestamp"
    }
    # As numbers: PySpark fails on a time that Python's calendar lacks, and gives other times in this process' zone.
    plain = frame.select(
        *(F.unix_micros(name).alias(name) if name in times else name for name in frame.columns)
    )
    return [plain_row(row.asDict(), body, times) for row in plain.collect()]


def plain_row(
    row: dict[str, Any], body: BodyMode = BodyMode.text, times: Collection[str] = ()
) -> dict[str, Any]:
    """Convert a row to JSON values; the columns of `times` are microseconds since 1970."""
    return {
        name: _time(value) if name in times else _plain(value, body) for name, value in row.items()
    }


def _time(microseconds: int | None) -> str | int | None:
    if microseconds is None:
        return None
    try:
        return (EPOCH + timedelta(microseconds=microseconds)).isoformat(timespec="milliseconds")
    except OverflowError:
        return microseconds // 1000


def _plain(value: Any, body: BodyMode) -> Any:
    if isinstance(value, bytes | bytearray):
        return _body(bytes(value), body)
    if isinstance(value, list):
        return [_plain(item.asDict() if hasattr(item, "asDict") else item, body) for item in value]
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
    """Print rows: all their values in one JSON object, under `name`, or some `columns` as a table."""
    if as_json:
        print_json({name: rows})
        return
    if not rows:
        print_line(f"no {name}")
        return
    texts = {
        column
        for column in columns
        if column not in TIMES and not any(isinstance(row.get(column), int | float) for row in rows)
    }
    table = ReportTable("", *columns, left=[*texts])
    for row in rows:
        table.add_row(*(_cell(column, row.get(column)) for column in columns))
    terminal_console().print(table)


def _cell(column: str, value: Any) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, list):
        return " ".join(map(str, value))
    if column in TIMES:
        return str(value).replace("T", " ")  # where it may be folded
    return shortened(printable(value), BODY_WIDTH) if column == "body" else str(value)
