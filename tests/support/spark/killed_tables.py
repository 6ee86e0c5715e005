"""A process that adds to a table once, and kills itself with SIGKILL before a step: ``FOLDER FORMAT STEP``.

A step is each file or folder that is made, written, moved or deleted, each task, and each commit of a table's log. Tells how many
steps there were when it comes to the end.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rmqcore.disk.inside.folder import Folder
from rmqcore.spark.jobs import export as export_job
from rmqcore.spark.lake import compact as compact_job
from rmqcore.spark.lake.compact import compact
from rmqcore.spark.lake.export_table import export_table

CALLS = ("make", "write", "move", "delete", "remove", "open_file")


class Steps:
    """Counts steps, and does something before one of them."""

    def __init__(self, at: int, stop: Callable[[], None]) -> None:
        self.left = at
        self.done = 0
        self._stop = stop

    def step(self) -> None:
        if self.left == 0:
            self._stop()
        self.left -= 1
        self.done += 1

    def counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **given: Any) -> Any:
            self.step()
            return call(*args, **given)

        return run


def watch(steps: Steps, replace: Callable[[Any, str, Any], None]) -> None:
    """Count all steps of runs and compactions, which have their tasks in this process."""

    def run_tasks(_spark: Any, work: Callable[[Any], Any], payloads: list[Any]) -> list[Any]:
        return [steps.counted(work)(payload) for payload in payloads]

    for job in (export_job, compact_job):
        replace(job, "run_tasks", run_tasks)
    for name in CALLS:
        replace(Folder, name, steps.counted(getattr(Folder, name)))


def watch_logs(steps: Steps, replace: Callable[[Any, str, Any], None]) -> None:
    """Count the commits of Delta and Iceberg too, before and behind them."""
    import deltalake.transaction
    from deltalake import DeltaTable
    from pyiceberg.catalog.sql import SqlCatalog

    def around(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **given: Any) -> Any:
            answer = steps.counted(call)(*args, **given)
            steps.step()
            return answer

        return run

    replace(DeltaTable, "create_write_transaction", around(DeltaTable.create_write_transaction))
    make = "create_table_with_add_actions"
    replace(
        deltalake.transaction, make, around(deltalake.transaction.create_table_with_add_actions)
    )
    replace(SqlCatalog, "create_table", around(SqlCatalog.create_table))
    replace(SqlCatalog, "commit_table", around(SqlCatalog.commit_table))


def main(folder: Path, format: Any, step: int) -> None:
    steps = Steps(step, lambda: os.kill(os.getpid(), signal.SIGKILL))
    watch(steps, setattr)
    if format != "parquet":
        watch_logs(steps, setattr)
    spark: Any = None
    export_table(
        spark, f"b={folder / 'store'}", folder / "out", format=format, maxPartitionBytes="1m"
    )
    if format == "parquet":
        compact(spark, folder / "out")
    sys.stdout.write(str(steps.done))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
