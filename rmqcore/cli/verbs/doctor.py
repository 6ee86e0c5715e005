"""``rmqcore doctor``: the problems of a store, their causes, and the commands to type."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqcore.cli.common import arguments
from rmqcore.cli.common.output import ReportFormat, print_json, report_format
from rmqcore.cli.common.progress import progress_bar
from rmqcore.cli.reports.doctor_text import print_diagnoses
from rmqcore.cli.stores.store_settings import read_config
from rmqcore.maintenance.doctor.doctor import doctor as examine


def doctor(
    store: arguments.Store,
    thorough: Annotated[
        bool,
        typer.Option(
            "--thorough", help="Also compare log, queues and index completely, as fsck does."
        ),
    ] = False,
    config: arguments.BrokerConf = None,
    for_version: Annotated[
        str | None,
        typer.Option(
            "--for-version",
            metavar="V",
            help="Count the records that this release of RocketMQ cannot read, such as 4.9.",
        ),
    ] = None,
    commitlog: arguments.CommitLog = None,
    follow_links: arguments.FollowLinks = False,
    asked_format: arguments.ShortFormat = None,
    json: arguments.Json = False,
    no_progress: arguments.NoProgress = False,
) -> int:
    """List the problems of a store, with the safe next step.

    Each problem has its cause, the evidence and a command. doctor only reads, for seconds: names, sizes, both
    ends of files, checkpoint, configuration and disk. The commands that it prints change nothing, or keep the
    files that they replace.

    Exit code 0: no errors, perhaps warnings. 2: messages are lost or cannot be fetched, or a broker does not
    start or refuses messages.

    Example:
      rmqcore doctor /data/store
      rmqcore doctor /data/store --thorough
    """
    kind = report_format(asked_format, json)
    with progress_bar("doctor", no_progress=no_progress) as progress:
        report = examine(
            store,
            thorough=thorough,
            config=None if config is None else read_config(config),
            commitlog=commitlog,
            follow_links=follow_links,
            broker_conf=config,
            for_version=for_version,
            progress=progress,
        )
    if kind == ReportFormat.table:
        print_diagnoses(report)
    else:
        print_json(report.as_dict(), one_line=kind is not None)
    return report.exit_code
