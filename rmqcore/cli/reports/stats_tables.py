"""Tables of statistics, as wide as the terminal is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rich.console import Console
from rich.table import Table

from rmqcore.cli.common.output import human_bytes
from rmqcore.cli.common.shown import printable
from rmqcore.cli.common.times import format_time
from rmqcore.cli.reports.bars import bars, duration, merged
from rmqcore.offline.stats.report import ConsumerLag, GroupStats, MessagePlace, StatsReport

WIDE = 120
"""From so many columns on there is room for tags, keys and whole times."""
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
    console.print(_messages("\nLargest messages", report.largest, wide=wide))
    console.print(_messages("\nNewest messages", report.newest, wide=wide))


def new_list(title: str, *columns: str, left: Sequence[str] = ()) -> Table:
    """Make a table without lines, whose columns stand right but for those named in `left`, the first of which may be cut."""
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        header_style="dim",
    )
    for number, name in enumerate(columns):
        table.add_column(
            name,
            justify="left" if name in left else "right",
            no_wrap=True,
            overflow="ellipsis",
            min_width=8 if number == 0 else None,
        )
    return table


def _print_list(console: Console, table: Table, more: int) -> None:
    console.print(table)
    if more > 0:
        console.print(f"... and {more:,} more: --rows N shows more, --json has all of them")


def _summary(report: StatsReport) -> Table:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    total = report.total
    table.add_row("store", printable(report.path))
    if total is None:
        table.add_row("messages", "none")
    else:
        mean = human_bytes(round(total.msg_size_mean))
        table.add_row("messages", f"{total.messages:,} of {human_bytes(total.bytes)}, {mean} each")
        table.add_row(
            "sizes",
            _spread(
                human_bytes,
                total.msg_size_min,
                total.msg_size_p50,
                total.msg_size_p99,
                total.msg_size_max,
            ),
        )
        first, last = total.first_store_timestamp_ms, total.last_store_timestamp_ms
        table.add_row("stored", f"{_short(first)} to {_short(last)}, {duration(last - first)}")
        table.add_row(
            "rate",
            f"{total.messages_per_second:,.1f}/s, {human_bytes(round(total.bytes_per_second))}/s",
        )
        table.add_row(
            "latency",
            _spread(
                duration,
                total.latency_min_ms,
                total.latency_p50_ms,
                total.latency_p99_ms,
                total.latency_max_ms,
            ),
        )
    seconds = max(report.seconds, 1e-9)
    speed = f", {human_bytes(round(total.bytes / seconds))}/s" if total else ""
    table.add_row("counted in", f"{report.seconds:.2f} s{speed}")
    return table


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
    _, each = merged(values, max(10, console.width - 8))
    width = duration(report.timeline_width_ms * each)
    console.print(f"\nMessages by store time, {width} a column", style="bold")
    for line in bars(values, report.timeline[0].begin_ms, report.timeline_width_ms, console.width):
        console.print(line, no_wrap=True, overflow="crop")


def _groups(report: StatsReport, most_rows: int, *, wide: bool) -> Table:
    by = report.by
    columns = [*by, "messages", "bytes", "share", "msg/s", "latency p50", "p99"]
    if wide:
        columns[-2:] = ["size p50", "size p99", "latency p50", "latency p99", "tags"]
    elif len(by) > 2:
        del columns[-2:]
    table = new_list("\nBy " + ", ".join(by), *columns, left=("topic", "tags"))
    for one in report.groups[:most_rows]:
        table.add_row(*_group_cells(one, by, wide=wide))
    return table


def _group_cells(one: GroupStats, by: Sequence[str], *, wide: bool) -> Iterable[str]:
    yield OTHERS if one.topic is None else printable(one.topic)
    if "hour" in by:
        yield (
            "-"
            if one.hour_ms is None
            else format_time(one.hour_ms, zone=False)[0 if wide else 5 : 16]
        )
    if "queue" in by:
        yield "-" if one.queue_id is None else str(one.queue_id)
    yield f"{one.messages:,}"
    yield human_bytes(one.bytes)
    yield f"{one.share:.1%}"
    yield f"{one.messages_per_second:,.1f}"
    if wide:
        yield _size(one.msg_size_p50)
        yield _size(one.msg_size_p99)
    if wide or len(by) <= 2:
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


def _consumers(consumers: Sequence[ConsumerLag], *, wide: bool) -> Table:
    columns = ["group", "topic", "lag", "behind", "lost"]
    if wide:
        columns += ["queues", "oldest unread"]
    strange = any(one.beyond for one in consumers)
    if strange:
        columns.append("beyond the end")
    table = new_list("\nConsumer groups", *columns, left=("group", "topic"))
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
            cells.append(f"{one.beyond} of {one.queues} queues" if one.beyond else "")
        table.add_row(*cells)
    return table


def _messages(title: str, messages: Sequence[MessagePlace], *, wide: bool) -> Table:
    columns = ["topic", "queue", "offset", "size", "stored", "phy offset"]
    if wide:
        columns += ["tags", "keys"]
    table = new_list(title, *columns, left=("topic", "tags", "keys"))
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
