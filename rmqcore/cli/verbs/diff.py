"""``rmqcore diff``: where two stores differ."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from rmqcore.cli.common import arguments
from rmqcore.cli.common.errors import note, report_damage
from rmqcore.cli.common.output import (
    Wide,
    counted,
    human_bytes,
    print_json,
    refuse_without_table,
    terminal_console,
    wants_json,
)
from rmqcore.cli.common.progress import progress_bar
from rmqcore.cli.common.shown import printable
from rmqcore.cli.common.times import format_time
from rmqcore.cli.reports.report_table import ReportTable, facts
from rmqcore.offline.diff import DiffReport
from rmqcore.offline.diff import diff as compare
from rmqcore.offline.diff.report import FirstRecord, LogDifference, QueueDifference

SHOWN = 30
WORDS = {
    "only_a": "only in A",
    "only_b": "only in B",
    "different": "different",
    "damaged_a": "damaged in A",
    "damaged_b": "damaged in B",
    "damaged_both": "damaged in both",
}


def diff(
    a: Annotated[
        Path,
        typer.Argument(
            metavar="A", help="A store.", show_default=False, parser=arguments.local_path
        ),
    ],
    b: Annotated[
        Path,
        typer.Argument(
            metavar="B", help="Another store.", show_default=False, parser=arguments.local_path
        ),
    ],
    no_queues: Annotated[
        bool, typer.Option("--no-queues", help="Only compare the CommitLogs.")
    ] = False,
    commitlog: arguments.CommitLog = None,
    commitlog_b: Annotated[
        str | None,
        typer.Option(
            "--commitlog-b",
            metavar="DIR[,DIR...]",
            help="The CommitLog's directories of B.",
            show_default="B/commitlog",
        ),
    ] = None,
    follow_links: arguments.FollowLinks = False,
    json: arguments.Json = False,
    wide: Wide = False,
    no_progress: arguments.NoProgress = False,
) -> int:
    """Compare two stores, such as a master's and its slave's.

    Logs are compared byte by byte, queues by entry. Prints the ranges of CommitLog offsets that only one store
    has or that differ, with their first records, and the queues in which one store has more messages.

    Exit code 2: they differ, or a log lacks messages that its queues, index or checkpoint name.

    Example:
      rmqcore diff /data/store /data/slave
      rmqcore diff /data/store /data/slave --no-queues
    """
    with progress_bar("diff", no_progress=no_progress) as progress:
        report = compare(
            a,
            b,
            commitlog=commitlog,
            commitlog_b=commitlog_b,
            follow_links=follow_links,
            queues=not no_queues,
            progress=progress,
        )
    if wide and json:
        refuse_without_table("--wide", "json")
    if wants_json(json) and not wide:
        print_json(report.as_dict())
    else:
        _print_tables(terminal_console(wide=wide), report, with_queues=not no_queues)
    for name, missing in (("A", report.missing_a), ("B", report.missing_b)):
        if missing:
            note(f"the log of {name} lacks messages of {name}:")
            report_damage(missing)
    return report.exit_code


def _print_tables(console: Console, report: DiffReport, *, with_queues: bool) -> None:
    rate = human_bytes(round(report.compared_bytes / max(report.seconds, 1e-9)))
    rows = {
        "A": f"{printable(report.a)}, log {report.min_phy_offset_a} to {report.max_phy_offset_a}",
        "B": f"{printable(report.b)}, log {report.min_phy_offset_b} to {report.max_phy_offset_b}",
        "compared": f"{human_bytes(report.compared_bytes)} in both, {rate}/s",
        "log": f"{counted(report.difference_count, 'range')} of different bytes, {human_bytes(report.differing_bytes)}"
        if report.difference_count
        else "no difference",
    }
    if with_queues:
        rows["queues"] = _queue_words(report)
    console.print(facts(rows))
    if report.differences:
        console.print(_range_table(report.differences[:SHOWN]))
        _note_more(report.difference_count, "ranges")
    if report.queues:
        console.print(_queue_table(report.queues[:SHOWN]))
        _note_more(len(report.queues), "queues")
    if report.deleted_meanwhile:
        note(
            f"deleted before they were compared: {', '.join(map(printable, report.deleted_meanwhile))}"
        )


def _queue_words(report: DiffReport) -> str:
    compared = f"{counted(report.compared_entries, 'entry')} of {counted(report.compared_queues, 'queue')} compared"
    if not report.queues:
        return f"no difference, {compared}"
    are = f"{counted(report.only_a, 'message')} {'is' if report.only_a == 1 else 'are'}"
    return f"{are} in no queue of B, {report.only_b:,} in none of A; {compared}"


def _range_table(differences: list[LogDifference]) -> ReportTable:
    table = ReportTable(
        "CommitLog",
        "what",
        "from",
        "to",
        "bytes",
        "begins with",
        left=("what", "begins with"),
    )
    for one in differences:
        size = one.end_phy_offset - one.start_phy_offset
        what = WORDS[one.kind]
        start = str(one.start_phy_offset)
        end = str(one.end_phy_offset)
        first, *second = _records(one)
        table.add_row(what, start, end, f"{size:,}", first)
        if second:
            table.add_row("", "", "", "", *second)
    return table


def _records(one: LogDifference) -> list[str]:
    first_a, first_b = one.first_a, one.first_b
    if first_a == first_b or first_b is None:
        return [_record(first_a)]
    if first_a is None:
        return [_record(first_b)]
    return [f"A: {_record(first_a)}", f"B: {_record(first_b)}"]


def _record(first: FirstRecord | None) -> str:
    if first is None:
        return "-"
    place = f"{first.topic}, queue {first.queue_id}, offset {first.queue_offset}"
    return printable(f"{place}, {format_time(first.store_timestamp_ms, zone=False)}")


def _queue_table(queues: list[QueueDifference]) -> ReportTable:
    columns = ("topic", "queue", "in A", "in B", "only in A", "only in B", "differ", "first")
    table = ReportTable("Queues", *columns, left=("topic",))
    for one in queues:
        table.add_row(
            printable(one.topic),
            str(one.queue_id),
            f"{one.min_offset_a}..{one.max_offset_a}",
            f"{one.min_offset_b}..{one.max_offset_b}",
            f"{one.only_a:,}",
            f"{one.only_b:,}",
            f"{one.differing_entries:,}",
            "-" if one.first_differing is None else str(one.first_differing),
        )
    return table


def _note_more(count: int, what: str) -> None:
    if count > SHOWN:
        note(f"and {count - SHOWN:,} more {what}: --json lists them")
