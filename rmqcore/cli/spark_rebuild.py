"""``rmqcore spark rebuild-consume-queues`` and ``rebuild-index``: queues and index from the CommitLog, by Spark's workers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from rmqcore.cli import filters
from rmqcore.cli.errors import report_damage
from rmqcore.cli.output import print_json, stdout_is_terminal
from rmqcore.cli.recover import BrokerConf
from rmqcore.cli.spark_session import (
    Conf,
    Log,
    Master,
    SourceOption,
    check_stores,
    pairs,
    spark_session,
)

Store = Annotated[
    str, typer.Argument(metavar="STORE", help="A store: its root, or a URI.", show_default=False)
]
Out = Annotated[
    str,
    typer.Option(
        "-o",
        "--out",
        metavar="DIR",
        help="A new or empty folder that all workers see.",
        show_default=False,
    ),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace what something else has made there.")
]


def rebuild_consume_queues(
    store: Store,
    out: Out,
    config: BrokerConf = None,
    overwrite: Overwrite = False,
    master: Master = "local[*]",
    conf: Conf = None,
    option: SourceOption = None,
    log: Log = None,
    json: filters.Json = False,
    no_progress: filters.NoProgress = False,
) -> int:
    """Build DIR/consumequeue from the CommitLog, the same bytes as `rmqcore rebuild --cq` makes.

    Nothing appears in DIR before all is built. Exit code 2: the log is damaged; stderr says where.

    Example:
      rmqcore spark rebuild-consume-queues /data/store -o /data/rebuilt
    """
    from rmqcore import spark as jobs

    return _rebuild(
        "rebuild_consume_queues", jobs, store, out, config, overwrite, master, conf, option, log, json, no_progress
    )  # fmt: skip


def rebuild_index(
    store: Store,
    out: Out,
    config: BrokerConf = None,
    overwrite: Overwrite = False,
    master: Master = "local[*]",
    conf: Conf = None,
    option: SourceOption = None,
    log: Log = None,
    json: filters.Json = False,
    no_progress: filters.NoProgress = False,
) -> int:
    """Build DIR/index from the CommitLog, the same bytes as one process makes.

    Nothing appears in DIR before all is built. Exit code 2: the log is damaged; stderr says where.

    Example:
      rmqcore spark rebuild-index /data/store -o /data/rebuilt
    """
    from rmqcore import spark as jobs

    return _rebuild(
        "rebuild_index", jobs, store, out, config, overwrite, master, conf, option, log, json, no_progress
    )  # fmt: skip


def _rebuild(
    name: str,
    jobs: Any,
    store: str,
    out: str,
    config: Path | None,
    overwrite: bool,
    master: str,
    conf: list[str] | None,
    option: list[str] | None,
    log: Path | None,
    json: bool,
    no_progress: bool,
) -> int:
    options = pairs(option, "--option")
    check_stores([store], options, "corrupt")
    with spark_session(master, conf, log, what="rebuild", no_progress=no_progress) as spark:
        build: Callable[..., Any] = getattr(jobs, name)
        report = build(spark, store, out, config, overwrite=overwrite, **options)
    fields = report.as_dict()
    if json or not stdout_is_terminal():
        print_json(fields)
    else:
        for field, value in fields.items():
            if field != "damage":
                typer.echo(f"{field}: {value}")
    report_damage(report.damage)
    return int(report.exit_code)
