"""``rmqcore retention``: what will be deleted when and why, and what consumer groups would lose unread."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqcore.cli.common import arguments
from rmqcore.cli.common.output import ReportFormat, Wide, print_json, report_format
from rmqcore.cli.common.plot import PlotFile, check_plot
from rmqcore.cli.common.progress import progress_bar
from rmqcore.cli.reports.retention_plot import plot_retention
from rmqcore.cli.reports.retention_tables import print_retention
from rmqcore.cli.stores.store_settings import read_config
from rmqcore.cli.values import number
from rmqcore.config import MessageStoreConfig
from rmqcore.errors.exit_codes import OK
from rmqcore.maintenance.retention.retention import HORIZON_DAYS, MOST_BYTES_PER_SECOND, MOST_DAYS
from rmqcore.maintenance.retention.retention import retention as make_forecast
from rmqcore.maintenance.retention.rule_settings import changed_rules

_horizon = number(
    lambda days: 0 < days <= MOST_DAYS, f"a number of days above 0 and up to {MOST_DAYS:.0f}"
)
_rate = number(
    lambda rate: 0 <= rate <= MOST_BYTES_PER_SECOND,
    f"a number of bytes per second from 0 to {MOST_BYTES_PER_SECOND}",
)


def retention(
    store: arguments.Store,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            "--what-if",
            metavar="NAME=VALUE",
            help="Also predict with this setting, by RocketMQ's name; may be repeated.",
        ),
    ] = None,
    horizon: Annotated[
        float,
        typer.Option(
            "--horizon",
            metavar="DAYS",
            parser=_horizon,
            help="How many days ahead to predict.",
        ),
    ] = HORIZON_DAYS,
    now: Annotated[
        int | None,
        typer.Option(
            "--now",
            metavar="TIME",
            parser=arguments.time_option,
            help="Predict from this time.",
            show_default="the clock's",
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            "--rate",
            metavar="BYTES",
            parser=_rate,
            help="Write rate of the log, in bytes per second.",
            show_default="measured from the store times of the last day",
        ),
    ] = None,
    plot: PlotFile = None,
    config: arguments.BrokerConf = None,
    commitlog: arguments.CommitLog = None,
    follow_links: arguments.FollowLinks = False,
    asked_format: arguments.ShortFormat = None,
    json: arguments.Json = False,
    wide: Wide = False,
    no_progress: arguments.NoProgress = False,
) -> int:
    """Predict which files will be deleted, when and why.

    Also predicts when the disk is full, and which unread messages consumer groups lose. The cleaning rules of an
    open store are applied to the days to come, while the log grows at the rate of its last day. Without --config
    the rules are RocketMQ's defaults. Nothing is written.

    Example:
      rmqcore retention /data/store
      rmqcore retention /data/store --what-if fileReservedTime=24
      rmqcore retention /data/store --horizon 30 --json | jq .present.levels
    """
    kind = report_format(asked_format, json, wide=wide)
    check_plot(plot)
    settings = None if config is None else read_config(config)
    changes = _changes(what_if or [], settings)
    with progress_bar("retention", no_progress=no_progress) as progress:
        report = make_forecast(
            store,
            what_if=changes,
            config=settings,
            commitlog=commitlog,
            follow_links=follow_links,
            now_ms=now,
            horizon_days=horizon,
            bytes_per_second=rate,
            progress=progress,
        )
    if plot is not None:
        plot_retention(report, plot)
    if kind == ReportFormat.table:
        print_retention(report, wide=wide)
    else:
        print_json(report.as_dict(), one_line=kind is not None)
    return OK


def _changes(texts: list[str], settings: MessageStoreConfig | None) -> dict[str, object] | None:
    changes: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise typer.BadParameter(
                f"{text!r} is not NAME=VALUE, such as fileReservedTime=24", param_hint="--what-if"
            )
        changes[name.strip()] = value.strip()
    try:
        changed_rules(settings or MessageStoreConfig(), changes)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--what-if") from error
    return changes or None
