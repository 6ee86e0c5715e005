"""``rmqcore spark rebuild-consume-queues`` and ``rebuild-index``: queues and index from the CommitLog, by Spark's workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rmqcore.cli.common import arguments
from rmqcore.cli.common.errors import report_damage
from rmqcore.cli.common.output import print_json
from rmqcore.cli.common.rebuild_summary import print_summary
from rmqcore.cli.spark.run_options import Out, RunOptions, spark_verb

if TYPE_CHECKING:
    from rmqcore.maintenance.rebuild.report import RebuildReport

Store = Annotated[
    str, typer.Argument(metavar="STORE", help="A store: its root, or a URI.", show_default=False)
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Also replace files in OUT that another program made.")
]


@spark_verb
def rebuild_consume_queues(
    run: RunOptions,
    store: Store,
    out: Out,
    config: arguments.BrokerConf = None,
    overwrite: Overwrite = False,
) -> int:
    """Build DIR/consumequeue from the CommitLog.

    The files have the same bytes as those of `rmqcore rebuild --cq`. They appear in DIR once all are built. Exit
    code 2: the log is damaged; stderr names the ranges.

    Example:
      rmqcore spark rebuild-consume-queues /data/store -o /data/rebuilt
    """
    from rmqcore import spark as jobs

    options = run.source_options([store], table="corrupt")
    with run.session("rebuild") as spark:
        report = jobs.rebuild_consume_queues(
            spark, store, out, config, overwrite=overwrite, **options
        )
    return _show(report, run)


@spark_verb
def rebuild_index(
    run: RunOptions,
    store: Store,
    out: Out,
    config: arguments.BrokerConf = None,
    overwrite: Overwrite = False,
) -> int:
    """Build DIR/index from the CommitLog.

    The files have the same bytes as if one process had built them. They appear in DIR once all are built. Exit
    code 2: the log is damaged; stderr names the ranges.

    Example:
      rmqcore spark rebuild-index /data/store -o /data/rebuilt
    """
    from rmqcore import spark as jobs

    options = run.source_options([store], table="corrupt")
    with run.session("rebuild") as spark:
        report = jobs.rebuild_index(spark, store, out, config, overwrite=overwrite, **options)
    return _show(report, run)


def _show(report: RebuildReport, run: RunOptions) -> int:
    if run.prints_json:
        print_json(report.as_dict())
    else:
        print_summary(report, applied=False)
    report_damage(report.damage)
    return report.exit_code
