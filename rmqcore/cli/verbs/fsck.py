"""``rmqcore fsck``: every record, queue entry and index entry checked against the others."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rmqcore.cli.common import arguments, styles
from rmqcore.cli.common.output import (
    ReportFormat,
    Wide,
    counted,
    human_bytes,
    print_json,
    report_format,
    terminal_console,
)
from rmqcore.cli.common.progress import progress_bar
from rmqcore.cli.common.shown import folded, printable
from rmqcore.cli.reports.report_table import facts
from rmqcore.cli.stores.given_store import fetching, storage_options
from rmqcore.offline.fsck import FsckReport
from rmqcore.offline.fsck import fsck as check_store
from rmqcore.offline.fsck.findings import ERROR, INFO, KINDS, WARNING, Finding

SHOWN_A_KIND = 10
"""Most findings of a kind on a terminal; the JSON has more."""

_STYLES = {ERROR: styles.BAD, WARNING: styles.DOUBTFUL, INFO: styles.HEAD}


def fsck(
    store: arguments.AnyStore,
    max_findings: Annotated[
        int,
        typer.Option(
            "--max-findings",
            metavar="N",
            parser=arguments.count_option,
            help="List at most N findings of each kind; all are counted.",
        ),
    ] = 1000,
    commitlog: arguments.CommitLog = None,
    follow_links: arguments.FollowLinks = False,
    storage: arguments.Storage = None,
    asked_format: arguments.ShortFormat = None,
    json: arguments.Json = False,
    wide: Wide = False,
    no_progress: arguments.NoProgress = False,
) -> int:
    """Check every record, queue entry and index entry.

    Log, queues and index are compared with each other; nothing is written. Exit code 0: sound, or a broker start
    would complete the work of an unclean exit, or the store is in use. 2: damaged. In a pipe each finding is a
    line of JSON, and the last line is the summary.

    Example:
      rmqcore fsck /data/store
      rmqcore fsck /data/store --json > report.json
    """
    kind = report_format(asked_format, json, wide=wide)
    options = storage_options(store, storage)
    with fetching(store), progress_bar("fsck", no_progress=no_progress) as progress:
        report = check_store(
            store,
            commitlog=commitlog,
            follow_links=follow_links,
            progress=progress,
            max_findings=max_findings,
            storage_options=options,
        )
    if kind is None:
        print_json(report.as_dict())
    elif kind == ReportFormat.jsonl:
        _print_lines(report)
    else:
        _print_tables(terminal_console(wide=wide), report)
    return report.exit_code


def _print_lines(report: FsckReport) -> None:
    summary = report.as_dict()
    for finding in summary.pop("findings"):
        print_json(finding, one_line=True)
    print_json({"kind": "summary", **summary}, one_line=True)


def _print_tables(console: Console, report: FsckReport) -> None:
    console.print(_summary(report))
    groups: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for finding in report.findings:
        groups[finding.severity, finding.kind].append(finding)
    for severity in (ERROR, WARNING, INFO):
        for kind, counts in report.totals.items():
            if counts.get(severity):
                _print_group(console, severity, kind, counts[severity], groups[severity, kind])
    _print_loss(console, report)
    console.print(_verdict(report))


def _summary(report: FsckReport) -> Table:
    counts = report.counts
    rate = (
        f" ({human_bytes(round(counts['record_bytes'] / report.seconds))}/s)"
        if report.seconds
        else ""
    )
    rows = {
        "store": printable(report.path),
        "records": f"{counts['records']:,} of {human_bytes(counts['record_bytes'])}",
        "queue entries": f"{counts['cq_entries']:,}",
        "index entries": f"{counts['index_entries']:,}",
        "damaged ranges": f"{counts['damaged_ranges']:,} of {human_bytes(counts['damaged_bytes'])}",
        "time": f"{report.seconds:.2f} s{rate}",
    }
    return facts(rows)


def _print_group(
    console: Console, severity: str, kind: str, count: int, kept: list[Finding]
) -> None:
    style = _STYLES[severity]
    console.print(
        Text.assemble(
            "\n", (severity, style), " ", (kind, styles.HEAD), f" ({count}): {KINDS[kind]}"
        )
    )
    for finding in kept[:SHOWN_A_KIND]:
        where = (
            finding.path if finding.phy_offset is None else f"{finding.path}@{finding.phy_offset}"
        )
        text = printable(f"{where}: {finding.message}")
        for number, line in enumerate(folded(text, console.width - 4, inside=True)):
            console.print(f"{'    ' if number else '  '}{line}", soft_wrap=True)
    if count > SHOWN_A_KIND:
        console.print(f"  ... and {count - min(SHOWN_A_KIND, len(kept))} more: --json lists them")


def _print_loss(console: Console, report: FsckReport) -> None:
    unreachable = report.would_be_lost["unreachable"]
    cut = report.would_be_lost["broker_start"]
    if unreachable["records"]:
        size = human_bytes(unreachable["bytes"])
        console.print(
            f"\nNo consumer can fetch {counted(unreachable['records'], 'record')} of {size}."
        )
    if cut["cut_bytes"]:
        size = human_bytes(cut["cut_bytes"])
        console.print(
            f"\nA broker start would cut the log at {cut['cut_phy_offset']} and drop the {size} behind it, "
            f"with {counted(cut['cut_records'], 'sound record')}."
        )


def _verdict(report: FsckReport) -> Text:
    counts: Counter[str] = Counter()
    for of_kind in report.totals.values():
        counts.update(of_kind)
    found = ", ".join(
        counted(counts[severity], severity)
        if severity != INFO
        else f"{counts[severity]:,} {severity}"
        for severity in (ERROR, WARNING, INFO)
        if counts[severity]
    )
    word = ("damaged", styles.BAD) if report.exit_code else ("sound", styles.GOOD)
    return Text.assemble("\n", word, f": {found or 'nothing found'}")
