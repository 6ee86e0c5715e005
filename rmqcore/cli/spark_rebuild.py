"""``rmqcore spark rebuild-consume-queues`` and ``rebuild-index``: queues and index from the CommitLog, by Spark's workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rmqcore.cli import filters
from rmqcore.cli.errors import report_damage
from rmqcore.cli.output import print_json, stdout_is_terminal
from rmqcore.cli.rebuild import print_summary
from rmqcore.cli.recover import BrokerConf
from rmqcore.cli.spark_session import (
    Conf,
    Log,
    Master,
    Out,
    SourceOption,
    source_options,
    spark_session,
)

if TYPE_CHECKING:
    from rmqcore.offline.rebuild import RebuildReport

Store = Annotated[
    str, typer.Argument(metavar="STORE", help="A store: its root, or a URI.", show_default=False)
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

    options = source_options(option, [store], table="corrupt")
    with spark_session(master, conf, log, what="rebuild", no_progress=no_progress) as spark:
        report = jobs.rebuild_consume_queues(
            spark, store, out, config, overwrite=overwrite, **options
        )
    return _show(report, json=json)


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

    options = source_options(option, [store], table="corrupt")
    with spark_session(master, conf, log, what="rebuild", no_progress=no_progress) as spark:
        report = jobs.rebuild_index(spark, store, out, config, overwrite=overwrite, **options)
    return _show(report, json=json)


def _show(report: RebuildReport, *, json: bool) -> int:
    if json or not stdout_is_terminal():
        print_json(report.as_dict())
    else:
        print_summary(report, applied=False)
    report_damage(report.damage)
    return report.exit_code
