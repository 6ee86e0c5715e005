"""``rmqcore salvage``: a new, sound store of every record of a damaged one that proves itself."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqcore.cli.common import arguments
from rmqcore.cli.common.errors import note, report_damage
from rmqcore.cli.common.output import print_json, terminal_console, wants_json
from rmqcore.cli.common.progress import progress_bar
from rmqcore.cli.reports.salvage_tables import print_salvage
from rmqcore.cli.stores.store_settings import read_config
from rmqcore.maintenance.salvage.salvage import salvage as salvage_store


def salvage(
    store: arguments.Store,
    out: arguments.NewStore,
    log_only: Annotated[
        bool,
        typer.Option(
            "--log-only",
            help="Read only the commitlog, even if STORE has queues, index and config.",
        ),
    ] = False,
    config: arguments.BrokerConf = None,
    commitlog: arguments.CommitLog = None,
    follow_links: arguments.FollowLinks = False,
    for_version: arguments.ForVersion = None,
    json: arguments.Json = False,
    no_progress: arguments.NoProgress = False,
) -> int:
    """Copy every sound record of a damaged store to a new store.

    STORE is only read, and may be in use; a commitlog directory alone is enough. Records keep their physical
    offsets, message ids and queue offsets, and config/ is copied, so a broker can continue with OUT.

    Exit code 2: something is lost; the report lists bytes of the log and messages.

    Example:
      rmqcore salvage /data/store /data/salvaged
      rmqcore salvage /backup/commitlog /data/salvaged --log-only
    """
    settings = None if config is None else read_config(config)
    if settings is None and (log_only or not (store / "consumequeue").is_dir()):
        note("queue and index files get the sizes of Java's defaults; --config names others")
    with progress_bar("salvage", no_progress=no_progress) as progress:
        report = salvage_store(
            store,
            out,
            log_only=log_only,
            config=settings,
            commitlog=commitlog,
            follow_links=follow_links,
            for_version=for_version,
            progress=progress,
        )
    if wants_json(json):
        print_json(report.as_dict())
    else:
        print_salvage(terminal_console(), report)
    report_damage(report.lost)
    for problem in report.config_problems:
        note(f"config: {problem.path} {problem.problem}")
    for finding in report.batch_queue_problems:
        note(f"{finding.path}: {finding.message}")
    return report.exit_code
