"""``rmqcore spark VERB``: jobs over whole stores through PySpark, each verb in a file of its own.

PySpark is imported only when a verb runs.
"""

from __future__ import annotations

from collections.abc import Callable

import typer

from rmqcore.cli.common.commands import add_command
from rmqcore.cli.spark.audit import audit
from rmqcore.cli.spark.compare import compare
from rmqcore.cli.spark.export import export_parquet
from rmqcore.cli.spark.find import find
from rmqcore.cli.spark.rebuild import rebuild_consume_queues, rebuild_index
from rmqcore.cli.spark.table import compact, export_table
from rmqcore.cli.spark.topic_stats import topic_stats

VERBS: dict[str, Callable[..., int]] = {
    "audit": audit,
    "topic-stats": topic_stats,
    "find": find,
    "compare": compare,
    "export-parquet": export_parquet,
    "export-table": export_table,
    "compact": compact,
    "rebuild-consume-queues": rebuild_consume_queues,
    "rebuild-index": rebuild_index,
}
ALIASES = {"export": "export-parquet"}

spark_app = typer.Typer(
    name="spark",
    help="Run jobs over many stores with PySpark, here or on a cluster.",
    epilog="`rmqcore spark VERB --help` has an example.",
    subcommand_metavar="VERB ...",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
)


for _name, _verb in VERBS.items():
    add_command(spark_app, _verb, _name)
for _alias, _name in ALIASES.items():
    add_command(spark_app, VERBS[_name], _alias, hidden=True)
