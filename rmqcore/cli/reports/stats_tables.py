"""Tables of statistics, as wide as the terminal is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rich.console import Console
from rich.table import Table

from rmqcore.cli.common import styles
from rmqcore.cli.common.output import counted, human_bytes
from rmqcore.cli.common.shown import printable
from rmqcore.cli.common.times import format_time
from rmqcore.cli.reports.bars import bars, duration, merged
from rmqcore.cli.reports.report_table import ReportTable, facts
from rmqcore.offline.stats.report import ConsumerLag, GroupStats, MessagePlace, StatsReport

WIDE = 120
"""Columns from which tags, keys and whole times fit."""
MOST_BARS = 200
"""Columns of the timeline, also where there is no end of room."""
LEFT_OUT = "\nWith 120 columns, --wide or --json: also sizes, tags and keys."
OTHERS = "(all others)"


def print_stats(console: Console, report: StatsReport, most_rows: int) -> None:
    """Print a report; of each list the first `most_rows`."""
    console.print(_summary(report))
    if report.total is None:
        return
    _print_timeline(console, report)
    wide = console.width >= WIDE
    _print_list(console, _groups(report, most_rows, wide=wide), len(report.groups) - most_rows)
    if report.consumers:
        behind = sorted(report.consumers, key=lambda one: (-one.lag, one.group, one.topic))
        _print_list(console, _consumers(behind[:most_rows], wide=wide), len(behind) - most_rows)
    console.print(_messages("Largest messages", report.largest, wide=wide))
    console.print(_messages("Newest messages", report.newest, wide=wide))
    if not wide:
        console.print(LEFT_OUT)


def _print_list(console: Console, table: ReportTable, more: int) -> None:
    console.print(table)
    if more > 0:
        console.print(f"... and {more:,} more: --rows N shows more, --json lists all")


def _summary(report: StatsReport) -> Table:
    rows = {"store": printable(report.path), "messages": "none"}
    total = report.total
    if total is not None:
        mean = human_bytes(round(total.msg_size_mean))
        first, last = total.first_store_timestamp_ms, total.last_store_timestamp_ms
        speed = human_bytes(round(total.bytes_per_second))
        sizes = total.msg_size_min, total.msg_size_p50, total.msg_size_p99, total.msg_size_max
        latency = (
            total.latency_min_ms,
            total.latency_p50_ms,
            total.latency_p99_ms,
            total.latency_max_ms,
        )
        rows |= {
            "messages": f"{total.messages:,} of {human_bytes(total.bytes)}, {mean} each",
            "sizes": _spread(human_bytes, *sizes),
            "stored": f"{_short(first)} to {_short(last)}, {duration(last - first)}",
            "rate": f"{total.messages_per_second:,.1f}/s, {speed}/s",
            "latency": _spread(duration, *latency),
        }
    if report.compacted:
        rows["compacted"] = "\n".join(printable(one.sentence) for one in report.compacted)
    seconds = max(report.seconds, 1e-9)
    rate = f", {human_bytes(round(total.bytes / seconds))}/s" if total else ""
    return facts(rows | {"counted in": f"{report.seconds:.2f} s{rate}"})


def _spread(
    show: Callable[[int], str], least: int, middle: float | None, high: float | None, most: int
) -> str:
    def text(value: float | None) -> str:
        return "-" if value is None else show(round(value))

    return f"{text(least)} to {text(most)}, median {text(middle)}, 99 % up to {text(high)}"


def _short(timestamp_ms: int) -> str:
    return format_time(timestamp_ms, zone=False)[:19]


def _print_timeline(console: Console, report: StatsReport) -> None:
    values = [bucket.messages for bucket in report.timeline]
    columns = min(console.width, MOST_BARS)
    _, each = merged(values, max(10, columns - 8))
    width = duration(report.timeline_width_ms * each)
    console.print(f"\nMessages by store time, {width} per column", style=styles.HEAD)
    for line in bars(values, report.timeline[0].begin_ms, report.timeline_width_ms, columns):
        console.print(line, no_wrap=True, overflow="crop")


def _groups(report: StatsReport, most_rows: int, *, wide: bool) -> ReportTable:
    by = report.by
    columns = [*by, "messages", "bytes", "share", "msg/s", "latency p50", "latency p99"]
    if wide:
        columns[-2:-2] = ["size p50", "size p99"]
        columns.append("tags")
    table = ReportTable("By " + ", ".join(by), *columns, left=("topic", "tags"))
    for one in report.groups[:most_rows]:
        table.add_row(*_group_cells(one, by, wide=wide))
    return table


def _group_cells(one: GroupStats, by: Sequence[str], *, wide: bool) -> Iterable[str]:
    yield OTHERS if one.topic is None else printable(one.topic)
    if "hour" in by:
        yield "-" if one.hour_ms is None else format_time(one.hour_ms, zone=False)[:16]
    if "queue" in by:
        yield "-" if one.queue_id is None else str(one.queue_id)
    yield f"{one.messages:,}"
    yield human_bytes(one.bytes)
    yield f"{one.share:.1%}"
    yield f"{one.messages_per_second:,.1f}"
    if wide:
        yield _size(one.msg_size_p50)
        yield _size(one.msg_size_p99)
    yield duration(one.latency_p50_ms)
    yield duration(one.latency_p99_ms)
    if wide:
        yield _tags(one)


def _size(value: float | None) -> str:
    return "-" if value is None else human_bytes(round(value))


def _tags(one: GroupStats) -> str:
    most = [
        f"{printable(found.tag)} {found.messages / one.messages:.0%}" for found in one.top_tags[:3]
    ]
    more = one.distinct_tags - len(most)
    if more > 0 or not one.all_tags_counted:
        most.append(f"{more:,}{'' if one.all_tags_counted else '+'} more")
    return ", ".join(most)


def _consumers(consumers: Sequence[ConsumerLag], *, wide: bool) -> ReportTable:
    columns = ["group", "topic", "lag", "behind", "lost"]
    if wide:
        columns += ["queues", "oldest unread"]
    strange = any(one.beyond for one in consumers)
    if strange:
        columns.append("beyond the end")
    table = ReportTable("Consumer groups", *columns, left=("group", "topic"))
    for one in consumers:
        cells = [
            printable(one.group),
            printable(one.topic),
            f"{one.lag:,}",
            duration(one.behind_ms),
            f"{one.lost:,}",
        ]
        if wide:
            cells += [
                str(one.queues),
                "-" if one.first_unread_ms is None else _short(one.first_unread_ms),
            ]
        if strange:
            cells.append(f"{one.beyond} of {counted(one.queues, 'queue')}" if one.beyond else "")
        table.add_row(*cells)
    return table


def _messages(title: str, messages: Sequence[MessagePlace], *, wide: bool) -> ReportTable:
    columns = ["topic", "queue", "offset", "size", "stored", "phy offset"]
    if wide:
        columns += ["tags", "keys"]
    table = ReportTable(title, *columns, left=("topic", "tags", "keys"))
    for one in messages:
        cells = [
            "-" if one.topic is None else printable(one.topic),
            "-" if one.queue_id is None else str(one.queue_id),
            "-" if one.queue_offset is None else str(one.queue_offset),
            human_bytes(one.msg_size),
            _short(one.store_timestamp_ms),
            str(one.phy_offset),
        ]
        if wide:
            cells += [printable(one.tags or "-"), printable(" ".join(one.keys) or "-")]
        table.add_row(*cells)
    return table
