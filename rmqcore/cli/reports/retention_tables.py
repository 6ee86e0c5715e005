"""A forecast of cleaning as tables."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from rich.table import Table

from rmqcore.cli.common.output import human_bytes, terminal_console
from rmqcore.cli.common.shown import printable
from rmqcore.cli.common.times import format_time
from rmqcore.cli.reports.report_table import ReportTable, facts
from rmqcore.maintenance.retention.report import (
    FileForecast,
    Forecast,
    LevelForecast,
    RetentionReport,
    UnreadForecast,
)
from rmqcore.vocabulary.units import DAY_MS

MAX_ROWS = 40
"""Most rows of a table on a terminal; the JSON has all."""


def print_retention(report: RetentionReport, *, wide: bool = False) -> None:
    """Print a report for people; `wide`: without folding."""
    console = terminal_console(wide=wide)
    console.print(_summary(report))
    console.print(_outlook(report))
    runs = _runs(report)
    if runs:
        console.print(_files(report, runs[:MAX_ROWS]))
    if len(runs) > MAX_ROWS:
        more = sum(map(len, runs[MAX_ROWS:]))
        console.print(f"... and {more:,} more files: --json lists them")
    unread = report.present.groups
    if unread:
        console.print(_unread(report, unread[:MAX_ROWS]))
    if len(unread) > MAX_ROWS:
        console.print(f"... and {len(unread) - MAX_ROWS:,} more: --json lists them")
    for note in report.notes:
        console.print(f"note: {printable(note)}")


def _forecasts(report: RetentionReport) -> Iterator[Forecast]:
    yield report.present
    if report.what_if is not None:
        yield report.what_if


def minute(time_ms: int | None) -> str:
    """A time of the local zone to the minute."""
    return format_time(time_ms, zone=False)[:16]


def _summary(report: RetentionReport) -> Table:
    rate = report.rate
    rates = [f"{_speed(rate.bytes_per_second)}: {rate.source}"]
    measured = {"hour": rate.last_hour, "day": rate.last_day}
    rates += [
        f"last {name} {_speed(value)}" for name, value in measured.items() if value is not None
    ]
    rows = {
        "store": printable(report.path),
        "commit log": f"{report.min_phy_offset} to {report.max_phy_offset}, {human_bytes(report.log_bytes)} on disk",
        "write rate": "\n".join(rates),
        "beside it": f"{rate.beside:.1%} of the log's size, for queues and index",
        "disks": "\n".join(
            f"{printable(disk.path)} ({disk.holds}): "
            + (
                "cannot be measured"
                if disk.used_percent < 0
                else f"{disk.used_percent} % used, {human_bytes(disk.free_bytes)} free"
            )
            for disk in report.disks
        ),
        "looked ahead": f"from {minute(report.now_ms)} to {minute(report.present.looked_to_ms)}",
    }
    return facts(rows)


def _speed(bytes_per_second: float) -> str:
    return f"{human_bytes(round(bytes_per_second))}/s"


# ---- the disk in the days to come -------------------------------------------------------------------


def _outlook(report: RetentionReport) -> ReportTable:
    columns = ["what happens", "present settings"]
    title = "At this rate"
    if report.what_if is not None:
        columns.append("what if")
        title += f"; what if {_changes(report)}"
    table = ReportTable(title, *columns, left=columns, whole_words=columns[:1])
    forecasts = list(_forecasts(report))
    for levels in zip(*(one.levels for one in forecasts), strict=True):
        name = "disk full" if levels[0].name == "full" else f"disk fuller than {levels[0].name}"
        table.add_row(name, *(_level(level, report.now_ms) for level in levels))
    table.add_row(
        "the log's size settles at",
        *(
            "-" if one.settles_at_bytes is None else human_bytes(one.settles_at_bytes)
            for one in forecasts
        ),
    )
    table.add_row(
        "puts are refused",
        *(_when(one.refuses_puts_from_ms, report.now_ms, "no") for one in forecasts),
    )
    table.add_row(
        f"files deleted before {minute(report.present.looked_to_ms)}",
        *(
            f"{len(one.deleted):,} of {len(one.files):,}, {human_bytes(sum(file.disk_bytes for file in one.deleted))}"
            for one in forecasts
        ),
    )
    return table


def _changes(report: RetentionReport) -> str:
    assert report.what_if is not None
    before, after = report.present.settings, report.what_if.settings
    changed = [f"{name}={after[name]}" for name in after if after[name] != before[name]]
    return ", ".join(changed or ["nothing changed"])


def _level(level: LevelForecast, now_ms: int) -> str:
    missing = "never" if level.never else "not within the time looked at"
    when = _when(level.reached_at_ms, now_ms, missing)
    return when if level.name == "full" else f"{level.percent} %: {when}"


def _when(time_ms: int | None, now_ms: int, never: str) -> str:
    if time_ms is None:
        return never
    if time_ms <= now_ms:
        return "now"
    return f"in {(time_ms - now_ms) / DAY_MS:,.1f} days, {minute(time_ms)}"


# ---- files and groups -------------------------------------------------------------------------------


def _runs(report: RetentionReport) -> list[list[FileForecast]]:
    """Files that go, in runs of those that go in the same minute for the same reason, also with the other settings."""
    count = max(len(forecast.deleted) for forecast in _forecasts(report))
    fates = [
        [_goes(forecast.files[number]) for forecast in _forecasts(report)]
        for number in range(count)
    ]
    runs = [list(run) for _, run in groupby(range(count), key=lambda number: fates[number])]
    return [[report.present.files[number] for number in run] for run in runs]


def _files(report: RetentionReport, runs: list[list[FileForecast]]) -> ReportTable:
    heads = ["files", "on disk", "newest message", "goes", "why"]
    theirs: dict[str, FileForecast] = {}
    if report.what_if is not None:
        heads[2:] = ["goes", "why", "what if"]
        theirs = {file.path: file for file in report.what_if.files}
    table = ReportTable(
        "Files that will be deleted", "from file", *heads, left=("from file", "why")
    )
    for run in runs:
        cells = [f"{len(run):,}", human_bytes(sum(file.disk_bytes for file in run))]
        if report.what_if is None:
            cells += [minute(run[-1].last_store_timestamp_ms), *_goes(run[0])]
        else:
            cells += [*_goes(run[0]), _goes(theirs[run[0].path])[0]]
        table.add_row(printable(run[0].path.rpartition("/")[2]), *cells)
    return table


def _goes(file: FileForecast) -> tuple[str, str]:
    return ("stays", "") if file.goes_at_ms is None else (minute(file.goes_at_ms), str(file.reason))


def _unread(report: RetentionReport, rows: tuple[UnreadForecast, ...]) -> ReportTable:
    heads = ["lost", "unread", "of these deleted", "from"]
    other: dict[tuple[str, str, int], UnreadForecast] = {}
    if report.what_if is not None:
        heads.append("what if")
        other = {_key(row): row for row in report.what_if.groups}
    table = ReportTable(
        "Unread messages of consumer groups, if they read nothing more",
        "group",
        "topic",
        "queue",
        *heads,
        left=("group", "topic"),
    )
    for row in rows:
        cells = [
            f"{row.lost:,}",
            f"{row.unread:,}",
            f"{row.loses:,}",
            "-" if row.loses_from_ms is None else minute(row.loses_from_ms),
        ]
        if report.what_if is not None:
            theirs = other.get(_key(row))
            cells.append(
                "-" if theirs is None or theirs.loses_from_ms is None else f"{theirs.loses:,} go"
            )
        table.add_row(row.group, row.topic, str(row.queue_id), *cells)
    return table


def _key(row: UnreadForecast) -> tuple[str, str, int]:
    return row.group, row.topic, row.queue_id
