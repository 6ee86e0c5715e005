"""``rmqcore recover``: what opening a store will do to it, and with ``--apply`` doing it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from rmqcore.cli import filters
from rmqcore.cli.errors import DAMAGED, OK, note
from rmqcore.cli.output import (
    ReportFormat,
    human_bytes,
    print_json,
    printable,
    report_format,
    terminal_console,
)
from rmqcore.cli.progress import progress_bar
from rmqcore.config import MessageStoreConfig
from rmqcore.engine.lock import lock_holder
from rmqcore.engine.paths import StorePaths
from rmqcore.engine.recovery import RecoveryPlan, RecoveryReport, preview_recovery
from rmqcore.errors import NotAStoreError
from rmqcore.offline.store_config import found_config
from rmqcore.opening import open as open_store

BrokerConf = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The broker.conf; file sizes are found from the files.",
        dir_okay=False,
    ),
]


def recover(
    store: filters.Store,
    apply: Annotated[
        bool, typer.Option("--apply", help="Do it, and leave the store cleanly closed.")
    ] = False,
    config: BrokerConf = None,
    asked_format: filters.ShortFormat = None,
    json: filters.Json = False,
    no_progress: filters.NoProgress = False,
) -> int:
    """Show what opening the store will do: where the log ends and why, what is cut, dispatched again.

    Without --apply nothing is written. What --apply cuts from the log is kept in STORE/cut.

    Exit code 0: nothing is lost. 2: bytes of the log or entries of queues will be cut, or messages
    are missing; with --apply: messages are still missing.

    Example:
      rmqcore recover /data/store
      rmqcore recover /data/store --apply
    """
    kind = report_format(asked_format, json)
    paths, settings = store_settings(store, config)
    if apply:
        with open_store(paths.root, settings, create=False, services=False) as opened:
            report = opened.recovery
        _print(
            kind, {"path": str(store), "applied": True, **report.as_dict()}, _report_rows(report)
        )
        return DAMAGED if report.warnings else OK
    holder = lock_holder(paths.lock)
    if holder is not None:
        who = f"process {holder}" if holder else "another process"
        note(f"{store} is in use by {who}: this is what would happen if that died now")
    with progress_bar("recover", no_progress=no_progress) as progress:
        plan = preview_recovery(paths, settings, progress)
    fields = {
        "path": str(store),
        "applied": False,
        "in_use": holder is not None,
        "loses_something": plan.loses_something,
    }
    _print(kind, {**fields, **plan.as_dict()}, _plan_rows(plan))
    return DAMAGED if plan.loses_something else OK


def store_settings(store: Path, config: Path | None) -> tuple[StorePaths, MessageStoreConfig]:
    """Paths and configuration of a store, its file sizes found from the files."""
    base = MessageStoreConfig.from_broker_conf(config) if config is not None else None
    commitlog = base.store_path_commit_log if base is not None else None
    paths = StorePaths(store, commitlog=commitlog)
    names = os.listdir(store)  # says that there is no such directory, or that it is none
    if not {"commitlog", "consumequeue"} & set(names) and not paths.commitlog.is_dir():
        raise NotAStoreError(f"{store} holds no commitlog/ or consumequeue/")
    return paths, found_config(paths, base)


# ---- output -----------------------------------------------------------------------------------------


def _print(kind: ReportFormat | None, fields: dict[str, Any], rows: dict[str, str]) -> None:
    if kind != ReportFormat.table:
        print_json(fields, one_line=kind is not None)
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in {"store": printable(fields["path"]), **rows}.items():
        table.add_row(name, escape(value))
    terminal_console().print(table)


def _plan_rows(plan: RecoveryPlan) -> dict[str, str]:
    rows = {"last exit": "clean" if plan.clean_exit else "not clean: the abort file is there"}
    if plan.scan is None or plan.start is None:
        rows["log"] = "there is no CommitLog file"
    else:
        rows["reads from"] = f"{plan.scan.start_phy_offset} ({plan.start.reason})"
        rows["reads"] = f"{plan.scan.records:,} records of {human_bytes(plan.scan.record_bytes)}"
        rows["log ends at"] = f"{plan.end_phy_offset}: {plan.scan.stop}"
    if plan.cut.tail is not None:
        rows["will cut"] = f"{human_bytes(plan.cut.tail.size)} behind it in {plan.cut.tail.path}"
    if plan.cut.later:
        rows["will move"] = "\n".join(
            f"{part.path} ({human_bytes(part.size)})" for part in plan.cut.later
        )
    if plan.cut.unused:
        rows["will delete"] = f"{len(plan.cut.unused)} files that were made ahead and hold nothing"
    rows["dispatches again"] = f"{plan.redispatch_count:,} records (what a queue has, it ignores)"
    if plan.truncated_queues:
        rows["shortens"] = ", ".join(f"{t} {q}" for t, q in plan.truncated_queues[:10]) + (
            f" and {len(plan.truncated_queues) - 10:,} more" * (len(plan.truncated_queues) > 10)
        )
    if plan.destroys_queues:
        rows["deletes"] = "all consume queues"
    if plan.warnings:
        rows["warning"] = "\n".join(plan.warnings)
    rows["verdict"] = "something is lost" if plan.loses_something else "nothing is lost"
    return rows


def _report_rows(report: RecoveryReport) -> dict[str, str]:
    rows = {
        "reads from": f"{report.start_phy_offset} ({report.start_reason})",
        "read": f"{report.scanned_records:,} records of {human_bytes(report.scanned_bytes)}",
        "log ends at": f"{report.end_phy_offset}: {report.stop_reason}",
        "cut": human_bytes(report.cut_bytes),
        "kept in": "\n".join(report.cut_files) or "-",
        "dispatched again": f"{report.redispatched_records:,} records",
        "queue entries cut": f"{report.truncated_entries:,}",
        "time": f"{report.plan_seconds + report.apply_seconds:.2f} s",
    }
    if report.warnings:
        rows["warning"] = "\n".join(report.warnings)
    return rows
