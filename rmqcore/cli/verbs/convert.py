"""``rmqcore convert``: a store with RocksDB queues as one with queues as files."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from rmqcore.cli.common import arguments
from rmqcore.cli.common.errors import note
from rmqcore.cli.common.output import counted, human_bytes, print_json, terminal_console, wants_json
from rmqcore.cli.common.progress import progress_bar
from rmqcore.cli.common.shown import printable
from rmqcore.cli.reports.report_table import facts
from rmqcore.cli.stores.store_settings import read_config
from rmqcore.maintenance.backup.report import Way
from rmqcore.maintenance.convert.convert import convert as convert_store
from rmqcore.maintenance.convert.report import ConvertReport

SHOWN = 10


def convert(
    store: arguments.Store,
    out: arguments.NewStore,
    queues: Annotated[
        str, typer.Option("--queues", metavar="KIND", help="How OUT stores its queues: file.")
    ] = "file",
    config: arguments.BrokerConf = None,
    commitlog: arguments.CommitLog = None,
    follow_links: arguments.FollowLinks = False,
    no_check: Annotated[
        bool, typer.Option("--no-check", help="Do not run fsck on the new store.")
    ] = False,
    json: arguments.Json = False,
    no_progress: arguments.NoProgress = False,
) -> int:
    """Convert a store with RocksDB queues to one with queue files.

    STORE is only read, and must not be in use. OUT has the same log, so messages keep their ids and offsets, and
    each queue keeps its start and end. A broker uses OUT with storeType=default.

    Exit code 2: a queue of OUT starts or ends elsewhere, a part of STORE could not be read, or fsck finds damage
    in OUT: in the log, or because the database is not that of the log.

    Example:
      rmqcore convert /data/store /data/converted --queues file
    """
    settings = None if config is None else read_config(config)
    with progress_bar("convert", no_progress=no_progress) as progress:
        report = convert_store(
            store,
            out,
            queues=queues,
            config=settings,
            commitlog=commitlog,
            follow_links=follow_links,
            check=not no_check,
            progress=progress,
        )
    if wants_json(json):
        print_json(report.as_dict())
    else:
        _print_table(terminal_console(), report)
    for one in report.differing[:SHOWN]:
        note(
            f"queue {one.topic}/{one.queue_id}: {one.min_offset}..{one.max_offset} in STORE, "
            f"{one.new_min_offset}..{one.new_max_offset} in OUT"
        )
    if report.missing_entries:
        note(
            f"the database lacks {counted(report.missing_entries, 'entry')}: OUT has fillers in "
            "their place"
        )
    if report.fsck is not None and report.fsck["exit_code"]:
        kinds = ", ".join(sorted(report.fsck["totals"]))
        note(f"fsck finds damage in OUT ({kinds}): `rmqcore fsck {printable(report.out)}` lists it")
    for place in report.unreadable[:SHOWN]:
        note(f"unreadable: {place}")
    for problem in report.config_problems:
        note(f"config: {problem.path} {problem.problem}")
    return report.exit_code


def _print_table(console: Console, report: ConvertReport) -> None:
    ways = {"linked": report.linked, "cloned": report.cloned, "copied": report.copied}
    rows = {
        "store": printable(report.path),
        "new store": printable(report.out),
        "log and index": ", ".join(_way(name, way) for name, way in ways.items() if way.files),
        "queues": f"{report.queues:,} with {counted(report.queue_entries, 'entry')}",
    }
    if report.idle_queues:
        rows["without entries"] = (
            f"{counted(report.idle_queues, 'queue')}, with their end offsets kept"
        )
    if report.kept:
        rows["copied as is"] = printable(", ".join(report.kept))
    if report.left_behind:
        rows["not copied"] = printable(", ".join(report.left_behind))
    console.print(facts(rows))


def _way(name: str, way: Way) -> str:
    return f"{counted(way.files, 'file')} of {human_bytes(way.bytes)} {name}"
