"""Tables of a salvage: saved and lost messages."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from rmqcore.cli.common.output import counted, human_bytes
from rmqcore.cli.common.shown import printable
from rmqcore.cli.reports.report_table import ReportTable, facts
from rmqcore.disk.set_aside import SetAside
from rmqcore.maintenance.salvage.queue_loss import MissingMessages
from rmqcore.maintenance.salvage.report import SalvageReport

SHOWN = 10
"""Most queues of a kind on a terminal; the JSON has more."""


def print_salvage(console: Console, report: SalvageReport) -> None:
    """Print a report for people."""
    rate = (
        f", {human_bytes(int(report.message_bytes / report.seconds))}/s" if report.seconds else ""
    )
    rows = {
        "store": printable(report.path),
        "new store": printable(report.out),
        "messages": f"{report.messages:,} of {human_bytes(report.message_bytes)} in {report.seconds:.1f} s{rate}",
        "queues": f"{report.queues:,} with {counted(report.queue_entries, 'entry')}",
        "index": f"{counted(report.index_files, 'file')} with {counted(report.index_entries, 'entry')}",
    }
    if report.copied:
        rows["copied as is"] = printable(", ".join(report.copied))
    if report.left_behind:
        rows["not copied"] = printable(", ".join(report.left_behind))
    if report.torn_tail_bytes:
        rows["half a record"] = (
            f"{human_bytes(report.torn_tail_bytes)} behind the last record, as after any unclean "
            "exit"
        )
    if report.moved_messages:
        rows["moved"] = (
            f"{counted(report.moved_messages, 'message')}: the first message of each file of the "
            "old log got a new physical offset and message id"
        )
    rows["lost"] = _lost(report)
    if not report.missing_complete:
        rows["not known"] = (
            "more messages may be missing: the store has too many queues to check all of them"
        )
    if report.misnamed:
        shown = [printable(str(one)) for one in report.misnamed[:SHOWN]]
        more = len(report.misnamed) - len(shown)
        rows["misnamed"] = "\n".join(
            [*shown, *[f"and {more:,} more: --json lists them"] * bool(more)]
        )
    console.print(facts(rows))
    _print_places(console, "Missing: in the queues, but not in the log", report.missing)
    _print_places(
        console,
        "Not served: a broker considers them expired, because of the gap behind them",
        report.unserved,
    )
    _print_places(console, "In no queue", report.set_aside)


def _lost(report: SalvageReport) -> str:
    lost = []
    if report.lost:
        lost.append(f"{human_bytes(report.lost_bytes)} of the log")
    if report.missing_messages:
        lost.append(f"{counted(report.missing_messages, 'message')} of queue entries")
    if report.set_aside_messages:
        places = "place" if report.set_aside_messages == 1 else "places"
        lost.append(f"the {places} of {counted(report.set_aside_messages, 'message')} in queues")
    if report.config_problems:
        lost.append(f"{counted(len(report.config_problems), 'file')} of config/")
    return ", ".join(lost) or "nothing"


def _print_places(
    console: Console, title: str, places: Sequence[MissingMessages | SetAside]
) -> None:
    if not places:
        return
    whys = [place.why for place in places if isinstance(place, SetAside)]
    table = ReportTable(
        title, "topic", "queue", "offsets", *(["why"] if whys else []), left=("topic", "why")
    )
    for number, place in enumerate(places[:SHOWN]):
        first, last = place.first_queue_offset, place.last_queue_offset
        offsets = str(first) if first == last else f"{first} to {last}"
        table.add_row(place.topic, str(place.queue_id), offsets, *whys[number : number + 1])
    console.print(table)
    if len(places) > SHOWN:
        console.print(f"... and {len(places) - SHOWN:,} more: --json lists them")
