"""``rmqcore fsck``: every record, queue entry and index entry checked against the others."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rmqcore.cli import filters
from rmqcore.cli.output import (
    ReportFormat,
    human_bytes,
    print_json,
    printable,
    report_format,
    terminal_console,
)
from rmqcore.cli.progress import progress_bar

if TYPE_CHECKING:
    from rmqcore.offline.fsck import FsckReport

SHOWN_A_KIND = 10
_STYLES = {"error": "red", "warning": "yellow"}


def fsck(
    store: filters.Store,
    asked_format: filters.ShortFormat = None,
    json: filters.Json = False,
    no_progress: filters.NoProgress = False,
) -> int:
    """Check every record, queue entry and index entry against each other; nothing is written.

    Exit code 0: sound, also when the store is in use or a broker start would finish what an unclean
    exit left. 2: damaged. Piped, each finding is a line of JSON, and the last line is the summary.

    Example:
      rmqcore fsck /data/store
      rmqcore fsck /data/store --json > report.json
    """
    from rmqcore.offline.fsck import fsck as check_store

    kind = report_format(asked_format, json)
    with progress_bar("fsck", no_progress=no_progress) as progress:
        report = check_store(store, progress=progress)
    if kind is None:
        print_json(report.as_dict())
    elif kind == ReportFormat.jsonl:
        _print_lines(report.as_dict())
    else:
        _print_tables(report)
    return report.exit_code


def _print_lines(report: dict[str, Any]) -> None:
    for finding in report.pop("findings"):
        print_json(finding)
    print_json({"kind": "summary", **report})


def _print_tables(report: FsckReport) -> None:
    console = terminal_console()
    values = report.as_dict()
    findings = values.pop("findings")
    summary = Table(show_header=False, box=None, pad_edge=False)
    summary.add_column(style="bold")
    summary.add_column(overflow="fold")
    for name, value in values.items():
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            summary.add_row(name.replace("_", " "), _shown(name, value))
    console.print(summary)
    _print_findings(console, findings)
    console.print(_verdict(report.exit_code, findings))


def _shown(name: str, value: float | str) -> str:
    if name.endswith("bytes") and isinstance(value, int):
        return f"{value} ({human_bytes(value)})"
    return printable(str(value))


def _print_findings(console: Console, findings: list[dict[str, Any]]) -> None:
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for finding in findings:
        groups[str(finding["severity"]), str(finding["kind"])].append(finding)
    for (severity, kind), group in groups.items():
        style = _STYLES.get(severity, "none")
        console.print(f"\n[{style}]{escape(severity)}[/]: [bold]{escape(kind)}[/], {len(group)}")
        for finding in group[:SHOWN_A_KIND]:
            console.print(f"  {escape(_line(finding))}", soft_wrap=True)
        if len(group) > SHOWN_A_KIND:
            console.print(f"  ... and {len(group) - SHOWN_A_KIND} more: --json has all of them")


def _line(finding: dict[str, Any]) -> str:
    where = (
        finding["path"]
        if finding["phy_offset"] is None
        else f"{finding['path']}@{finding['phy_offset']}"
    )
    return printable(f"{where}: {finding['message']}")


def _verdict(exit_code: int, findings: list[dict[str, Any]]) -> str:
    counts = Counter(str(finding["severity"]) for finding in findings)
    found = ", ".join(f"{count} {severity}" for severity, count in counts.items()) or "no findings"
    return f"\n[bold red]damaged[/]: {found}" if exit_code else f"\n[bold green]sound[/]: {found}"
