"""The screen of ``rmqcore top``: as high and wide as the terminal is at that moment."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.text import Text

from rmqcore.cli.common import styles
from rmqcore.cli.common.output import counted, human_bytes
from rmqcore.cli.common.shown import printable
from rmqcore.cli.common.times import format_time
from rmqcore.cli.reports.bars import duration, sparkline
from rmqcore.cli.reports.report_table import ReportTable
from rmqcore.cli.reports.stats_tables import OTHERS
from rmqcore.offline.stats.live import LiveSample, TopicRate
from rmqcore.offline.stats.report import ConsumerLag

LEAST_ROWS = 3
MOST_COPIES = 6
"""Lines of master and slaves in a terminal."""
WIDE = 100


class Sort(StrEnum):
    """Values of ``--sort``."""

    bytes = "bytes"
    messages = "messages"
    average = "average"
    lag = "lag"
    topic = "topic"


def sorted_topics(sample: LiveSample, sort: Sort) -> list[TopicRate]:
    """Sort the topics of a sample by the order asked for; every order except by name is descending."""
    lags: dict[str | None, int] = {}
    for one in sample.consumers:
        lags[one.topic] = lags.get(one.topic, 0) + one.lag
    keys = {
        Sort.bytes: lambda one: -one.bytes,
        Sort.messages: lambda one: -one.messages,
        Sort.average: lambda one: -one.average_messages_per_second,
        Sort.lag: lambda one: -lags.get(one.topic, 0),
        Sort.topic: lambda one: one.topic or "",
    }
    return sorted(sample.topics, key=keys[sort])


def screen(
    console: Console,
    sample: LiveSample,
    sort: Sort,
    replication: Sequence[str] = (),
    *,
    whole: bool = False,
) -> RenderableType:
    """Return the screen of a sample and its broker's copies; it fits the terminal, or has all rows with `whole`."""
    topics = sorted_topics(sample, sort)
    groups = sorted(sample.consumers, key=lambda one: (-one.lag, one.group, one.topic))
    copies = replication if whole else replication[:MOST_COPIES]
    head = [*_head(sample, console.width), *map(_line, copies)]
    problems = [_line(f"! {text}", styles.DOUBTFUL) for text in sample.problems[:3]]
    rows = len(topics) + len(groups)
    if not whole:
        rows = max(LEAST_ROWS, console.height - len(head) - len(problems) - 5)
    group_rows = min(len(groups), max(rows // 3, rows - len(topics)))
    topic_rows = max(rows - group_rows - (2 if groups else 0), 1)
    parts: list[RenderableType] = [
        *head,
        *problems,
        _topics(topics[:topic_rows], console.width, one_line=not whole),
    ]
    if groups:
        parts += ["", _groups(groups[:group_rows], one_line=not whole)]
    return Group(*parts)


def _line(text: str, style: str = "") -> Text:
    return Text(printable(text), style=style, no_wrap=True, overflow="ellipsis")


def _head(sample: LiveSample, width: int) -> list[Text]:
    total = sample.total
    disk = "disk unknown"
    if sample.disk_used_percent >= 0:
        disk = f"disk {sample.disk_used_percent} % used, {human_bytes(sample.disk_free_bytes)} free"
    lines = [
        _line(f"{format_time(sample.time_ms, zone=False)[:19]}  {sample.path}", styles.HEAD),
        _line(
            f"{total.messages_per_second:,.0f} msg/s, {human_bytes(round(total.bytes_per_second))}/s"
            f"; {total.average_messages_per_second:,.0f} msg/s in {_kept(sample)}"
        ),
    ]
    log = (
        f"log {human_bytes(sample.log_bytes)} in {counted(sample.log_file_count, 'file')}, "
        f"up to {sample.max_phy_offset}"
    )
    both = f"{log}; {disk}"
    lines += map(_line, [both] if cell_len(both) <= width else [log, disk])
    if sample.damaged_ranges:
        ranges = counted(sample.damaged_ranges, "damaged range")
        size = human_bytes(sample.damaged_bytes)
        lines.append(_line(f"{ranges} of {size}: rmqcore fsck lists them", styles.BAD))
    if sample.restarts:
        lines.append(
            _line(f"the store was recreated {counted(sample.restarts, 'time')}", styles.DOUBTFUL)
        )
    lines.append(Text(sparkline(total.history[-width:]), style=styles.PICTURE, no_wrap=True))
    return lines


def _kept(sample: LiveSample) -> str:
    return counted(len(sample.total.history), "sample")


def _topics(topics: Sequence[TopicRate], width: int, *, one_line: bool) -> ReportTable:
    columns = ["topic", "msg/s", "bytes/s", "average"]
    if width >= WIDE:
        columns.append("history")
    table = ReportTable("", *columns, left=("topic", "history"), one_line=one_line)
    for one in topics:
        cells = [
            OTHERS if one.topic is None else printable(one.topic),
            f"{one.messages_per_second:,.0f}",
            human_bytes(round(one.bytes_per_second)),
            f"{one.average_messages_per_second:,.1f}",
        ]
        if width >= WIDE:
            cells.append(sparkline(one.history[-30:]))
        table.add_row(*cells)
    return table


def _groups(groups: Sequence[ConsumerLag], *, one_line: bool) -> ReportTable:
    columns = ("group", "topic", "lag", "behind")
    table = ReportTable("", *columns, left=("group", "topic"), one_line=one_line)
    for one in groups:
        table.add_row(
            printable(one.group), printable(one.topic), f"{one.lag:,}", duration(one.behind_ms)
        )
    return table
