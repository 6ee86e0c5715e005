"""``rmqcore spark VERB``: jobs over whole stores through PySpark, each verb in a file ``spark_VERB``.

Nothing of PySpark is imported before a verb runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import typer

from rmqcore.cli.errors import guarded
from rmqcore.cli.spark_audit import audit
from rmqcore.cli.spark_compare import compare
from rmqcore.cli.spark_export import export_parquet
from rmqcore.cli.spark_find import find
from rmqcore.cli.spark_rebuild import rebuild_consume_queues, rebuild_index
from rmqcore.cli.spark_stats import topic_stats

VERBS: dict[str, Callable[..., int]] = {
    "audit": audit,
    "topic-stats": topic_stats,
    "find": find,
    "compare": compare,
    "export-parquet": export_parquet,
    "rebuild-consume-queues": rebuild_consume_queues,
    "rebuild-index": rebuild_index,
}
ALIASES = {"export": "export-parquet"}

spark_app = typer.Typer(
    name="spark",
    help="Jobs over whole stores, or many of them, through PySpark: on this machine or on a cluster.",
    epilog="`rmqcore spark VERB --help` has an example.",
    subcommand_metavar="VERB ...",
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _help(verb: Callable[..., int]) -> str:
    return (inspect.getdoc(verb) or "").replace("\nExample:", "\n\b\nExample:")


for _name, _verb in VERBS.items():
    spark_app.command(_name, help=_help(_verb))(guarded(_verb))
for _alias, _name in ALIASES.items():
    spark_app.command(_alias, hidden=True)(guarded(VERBS[_name]))
