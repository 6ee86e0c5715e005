"""The picture of statistics: messages over time, the largest topics, their latency, and groups' unread messages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rmqcore.cli.common.plot import (
    COLORS,
    bytes_axis,
    count_axis,
    picture,
    shown_name,
    time_axis,
    times,
)
from rmqcore.cli.reports.stats_tables import OTHERS
from rmqcore.offline.stats.report import GroupStats, StatsReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_BARS = 15


def draw_stats(path: Path, report: StatsReport) -> None:
    """Write the picture of a report."""
    largest = sorted(report.groups, key=lambda one: -one.bytes)[:MOST_BARS]
    lagging = sorted(report.consumers, key=lambda one: -one.lag)[:MOST_BARS]
    tall = 0.3 + 0.05 * len(largest)
    heights = [0.8, tall, tall] + ([0.3 + 0.05 * len(lagging)] if lagging else [])
    with picture(path, heights, f"rmqcore stats {report.path}") as panels:
        _draw_timeline(panels[0], report)
        names = [_name(one) for one in largest]
        _draw_bars(
            panels[1], "bytes by " + ", ".join(report.by), names, [one.bytes for one in largest]
        )
        bytes_axis(panels[1].xaxis)
        _draw_latency(panels[2], names, largest)
        if lagging:
            groups = [shown_name(f"{one.group}: {one.topic}") for one in lagging]
            _draw_bars(
                panels[3],
                "messages that groups have not read",
                groups,
                [one.lag for one in lagging],
            )
            count_axis(panels[3].xaxis)


def _name(one: GroupStats) -> str:
    parts = [OTHERS if one.topic is None else one.topic]
    if one.hour_ms is not None:
        parts.append(f"{times([one.hour_ms])[0]:%m-%d %H:%M}")
    if one.queue_id is not None:
        parts.append(f"queue {one.queue_id}")
    return shown_name(" ".join(parts))


def _draw_timeline(axes: Axes, report: StatsReport) -> None:
    axes.set_title("bytes stored a second")
    if report.timeline:
        seconds = report.timeline_width_ms / 1000
        begins = [bucket.begin_ms for bucket in report.timeline]
        ends = times([*begins, begins[-1] + report.timeline_width_ms])
        rates = [bucket.bytes / seconds for bucket in report.timeline]
        axes.stairs(rates, ends, fill=True, color=COLORS[0])  # type: ignore[arg-type]
    time_axis(axes.xaxis)
    bytes_axis(axes.yaxis, "/s")


def _draw_bars(axes: Axes, title: str, names: list[str], values: list[int]) -> None:
    axes.set_title(title)
    axes.barh(range(len(values)), values, color=COLORS[0])
    _name_bars(axes, names)


def _draw_latency(axes: Axes, names: list[str], groups: list[GroupStats]) -> None:
    axes.set_title("born to stored, milliseconds: median and 99th percentile")
    for share, color in (("p50", COLORS[0]), ("p99", COLORS[1])):
        values = [getattr(one, f"latency_{share}_ms") for one in groups]
        known = [at for at, value in enumerate(values) if value is not None]
        axes.plot([values[at] for at in known], known, "o", color=color, label=share)
    axes.set_xscale("symlog")
    axes.set_xlim(left=min(0, *axes.get_xlim()))
    axes.legend()
    _name_bars(axes, names)
    count_axis(axes.xaxis)


def _name_bars(axes: Axes, names: list[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
