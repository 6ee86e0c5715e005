"""``rmqcore stats``: messages of a store by topic, hour and queue, and the lag of consumers."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from rmqcore.cli.common import arguments
from rmqcore.cli.common.errors import note, report_damage
from rmqcore.cli.common.output import (
    ReportFormat,
    Wide,
    print_json_lists,
    report_format,
    terminal_console,
)
from rmqcore.cli.common.plot import PlotFile, check_plot
from rmqcore.cli.common.progress import progress_bar
from rmqcore.cli.reports.stats_picture import draw_stats
from rmqcore.cli.reports.stats_tables import print_stats
from rmqcore.cli.stores.given_store import opened_store
from rmqcore.cli.typed.unknown_topics import UnknownTopics
from rmqcore.cli.values import choice
from rmqcore.offline.stats import stats as count_store
from rmqcore.shown.report import plain_value


class By(StrEnum):
    """Values of ``--by``."""

    hour = "hour"
    queue = "queue"


Rows = Annotated[
    int,
    typer.Option(
        "-n",
        "--rows",
        metavar="N",
        parser=arguments.count_option,
        help="Show at most N rows of each table.",
    ),
]


def stats(
    store: arguments.AnyStore,
    by: Annotated[
        list[By] | None,
        choice(By, "--by", help="Also count by hour or queue; may be repeated."),
    ] = None,
    topics: arguments.Topics = None,
    queues: arguments.Queues = None,
    tags: arguments.Tags = None,
    keys: arguments.Keys = None,
    since: arguments.Since = None,
    until: arguments.Until = None,
    from_phy: arguments.FromPhy = None,
    to_phy: arguments.ToPhy = None,
    rows: Rows = 20,
    plot: PlotFile = None,
    commitlog: arguments.CommitLog = None,
    follow_links: arguments.FollowLinks = False,
    storage: arguments.Storage = None,
    asked_format: arguments.ShortFormat = None,
    json: arguments.Json = False,
    wide: Wide = False,
    no_progress: arguments.NoProgress = False,
) -> int:
    """Count messages by topic and time; show the lag of groups.

    Shows bytes, rates, tags, sizes, latencies, a timeline, the ten largest and newest messages, and the lag of
    consumer groups. The log is read once. Damage is skipped and listed on stderr, and the exit code is 2; for an
    unknown topic it is 1. In a pipe it prints one line of JSON with all rows.

    Example:
      rmqcore stats /data/store
      rmqcore stats /data/store --by hour --topic Orders
      rmqcore stats /data/store --json --plot stats.png
    """
    kind = report_format(asked_format, json, wide=wide)
    check_plot(plot)
    wanted = arguments.conditions(topics, queues, tags, keys, since, until, from_phy, to_phy)
    with opened_store(store, storage, commitlog, follow_links=follow_links) as reader:
        unknown = UnknownTopics(
            reader, topics, whole_log={*wanted.keywords()} == {"topics"}, shown=wanted
        )
        with progress_bar("stats", no_progress=no_progress) as progress:
            report = count_store(
                reader.path,
                by=[name.value for name in by or ()],
                **wanted.keywords(),
                commitlog=commitlog,
                follow_links=follow_links,
                progress=progress,
            )
        if kind == ReportFormat.table:
            print_stats(terminal_console(wide=wide), report, rows)
        else:
            lists = (
                "groups",
                "consumers",
                "largest",
                "newest",
                "timeline",
                "damage",
                "compacted",
            )
            head = {name: value for name, value in vars(report).items() if name not in lists}
            print_json_lists(
                {name: plain_value(value) for name, value in head.items()},
                {name: map(plain_value, getattr(report, name)) for name in lists},
            )
        if plot is not None:
            draw_stats(plot, report)
        for problem in report.problems:
            note(f"consumer offsets: {problem}")
        report_damage(report.damage)
        unknown.met(one.topic for one in report.groups)
        unknown.refuse()
        return unknown.exit_code(report.exit_code)
