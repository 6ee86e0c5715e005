"""A forecast of cleaning as a picture: the log's size, the disk against its ratios, and where groups are in the log."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmqcore.cli.common.plot import (
    COLORS,
    OTHERS_COLOR,
    bytes_axis,
    count_axis,
    picture,
    shown_name,
    time_axis,
    times,
)
from rmqcore.maintenance.retention.report import Forecast, RetentionReport, UnreadForecast

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_GROUPS = 8
"""Most groups to draw, earliest losses first; a picture of more cannot be read."""
MARKS = {"time": "v", "disk": "s", "forced": "X", "manual": "o"}


def plot_retention(report: RetentionReport, path: Path) -> None:
    """Draw a report into a file."""
    groups = _groups(report.present.groups)
    heights = [1.2, 1.0, *([0.6 + 0.12 * len(groups)] if groups else [])]
    with picture(path, heights, f"retention of {report.path}") as panels:
        _log_size(panels[0], report)
        _disk(panels[1], report)
        if groups:
            _positions(panels[2], report, groups)


def _named(report: RetentionReport) -> dict[str, Forecast]:
    named = {"present settings": report.present}
    if report.what_if is not None:
        before, after = report.present.settings, report.what_if.settings
        changed = [f"{name}={after[name]}" for name in after if after[name] != before[name]]
        named[f"what if {', '.join(changed)}"] = report.what_if
    return named


def _line(
    axes: Axes, time_ms: list[int], values: Sequence[float], *style: str, **more: Any
) -> None:
    moments: Any = times(time_ms)  # the stubs know no datetimes
    axes.plot(moments, values, *style, **more)


def _log_size(axes: Axes, report: RetentionReport) -> None:
    axes.set_title("size of the log, and the files that go")
    for (name, forecast), color in zip(_named(report).items(), COLORS, strict=False):
        moments = [point.time_ms for point in forecast.timeline]
        sizes = [point.log_bytes for point in forecast.timeline]
        _line(axes, moments, sizes, label=name, color=color)
        for reason, mark in MARKS.items():
            gone = [file.goes_at_ms or 0 for file in forecast.deleted if file.reason == reason]
            if gone:
                at = [sizes[bisect_right(moments, moment) - 1] for moment in gone]
                _line(axes, gone, at, mark, color=color, markersize=5, label=f"deleted: {reason}")
    axes.set_ylim(bottom=0)
    axes.legend(loc="best")
    time_axis(axes.xaxis)
    bytes_axis(axes.yaxis)


def _disk(axes: Axes, report: RetentionReport) -> None:
    axes.set_title("used part of the disk, and the ratios")
    for (name, forecast), color in zip(_named(report).items(), COLORS, strict=False):
        used = [max(point.used_percent, 0) for point in forecast.timeline]
        _line(axes, [point.time_ms for point in forecast.timeline], used, label=name, color=color)
    colors = cycle(COLORS[2:])
    for level in report.present.levels:
        if level.name != "full":
            axes.axhline(level.percent, color=next(colors), linestyle="--", label=level.name)
    axes.set_ylim(0, 102)
    axes.legend(loc="best")
    time_axis(axes.xaxis)
    count_axis(axes.yaxis, " %")


def _groups(rows: tuple[UnreadForecast, ...]) -> dict[str, list[UnreadForecast]]:
    groups: dict[str, list[UnreadForecast]] = {}
    for row in rows:
        if row.first_unread_phy_offset is not None and (
            row.group in groups or len(groups) < MOST_GROUPS
        ):
            groups.setdefault(row.group, []).append(row)
    return groups


def _positions(
    axes: Axes, report: RetentionReport, groups: dict[str, list[UnreadForecast]]
) -> None:
    """Each group's first unread messages in the log, over the files that go."""
    axes.set_title(
        "positions of groups in the log: grey parts will be deleted; unread messages in them are "
        "lost"
    )
    for file in report.present.deleted:
        axes.axvspan(
            file.file_from_offset,
            file.file_from_offset + file.size,
            color=OTHERS_COLOR,
            alpha=0.35,
            lw=0,
        )
    for height, rows in enumerate(reversed(groups.values())):
        starts = [row.first_unread_phy_offset or 0 for row in rows]
        axes.hlines(height, min(starts), report.max_phy_offset, color=COLORS[0], linewidth=3)
        axes.plot(starts, [height] * len(starts), "|", color=COLORS[5], markersize=12)
    axes.set_yticks(range(len(groups)), [shown_name(name) for name in reversed(groups)])
    axes.set_ylim(-0.6, len(groups) - 0.4)
    axes.set_xlim(report.min_phy_offset, max(report.max_phy_offset, report.min_phy_offset + 1))
    bytes_axis(axes.xaxis)
