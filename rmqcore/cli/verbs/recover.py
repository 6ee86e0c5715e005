"""``rmqcore recover`` shows what opening a store will do to it, and with ``--apply`` opens it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rmqcore.cli.common import arguments
from rmqcore.cli.common.errors import note
from rmqcore.cli.common.output import (
    ReportFormat,
    counted,
    human_bytes,
    print_json,
    report_format,
    stdout_is_terminal,
    terminal_console,
)
from rmqcore.cli.common.progress import progress_bar
from rmqcore.cli.common.shown import printable
from rmqcore.cli.reports.dropped_messages import DroppedMessages, dropped_messages
from rmqcore.cli.reports.report_table import facts
from rmqcore.cli.stores.store_settings import store_settings
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.locks.lock import lock_holder
from rmqcore.disk.misnamed import Misnamed
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.recovery.aside import InNoQueue
from rmqcore.engine.recovery.index.heal import IndexReport
from rmqcore.engine.recovery.preview import preview_recovery
from rmqcore.engine.recovery.recovery import RecoveryPlan, RecoveryReport
from rmqcore.engine.recovery.thoroughness import RecoverMode
from rmqcore.errors.exit_codes import DAMAGED, FAILED, OK
from rmqcore.maintenance.guard.knowledge import Losses
from rmqcore.maintenance.guard.recovery import approved, recovery_losses
from rmqcore.opening import open_by_mode


def recover(
    store: arguments.Store,
    apply: Annotated[
        bool, typer.Option("--apply", help="Recover the store and close it cleanly.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="With --apply on a terminal: do not ask for confirmation.")
    ] = False,
    deep: Annotated[
        bool,
        typer.Option("--deep", help="Compare all queues and the whole index with the log."),
    ] = False,
    drop: arguments.Drop = None,
    config: arguments.BrokerConf = None,
    commitlog: arguments.CommitLog = None,
    follow_links: arguments.FollowLinks = False,
    asked_format: arguments.ShortFormat = None,
    json: arguments.Json = False,
    no_progress: arguments.NoProgress = False,
) -> int:
    """Show what opening the store would change; --apply recovers it.

    Shows where the log ends and why, the bytes that would be cut, and the corrections of queues and index.
    rmqcore keeps everything that RocketMQ's start keeps, and sometimes more. Without --apply nothing is written.
    On a terminal --apply shows the plan and asks for confirmation, unless --yes is given. In a script, if queue
    entries would be lost, nothing is changed; --drop N accepts the loss of N entries. Bytes cut from the log are
    kept in STORE/cut. --deep compares all queues and the whole index with the log: it finds damage that other
    opens do not look for, and takes about as long as rebuild.

    Exit code 0: nothing is lost. 1: you declined. 2: bytes of the log or queue entries would be cut, messages are
    missing, damaged or would be in no queue, or a queue entry points to a record of another queue. With --apply:
    entries were cut, or messages are still missing, damaged or in no queue.

    Example:
      rmqcore recover /data/store
      rmqcore recover /data/store --apply
      rmqcore recover /data/store --deep --apply
    """
    kind = report_format(asked_format, json)
    paths, settings = store_settings(
        store, config, commitlog, follow_links=follow_links, to_open=True
    )
    fields: dict[str, Any] = {"path": str(store), "applied": apply, "deep": deep}
    if apply:
        asks = _asks(kind, paths, yes=yes)
        if asks and not _agreed(store, paths, settings, deep=deep, no_progress=no_progress):
            note("nothing was changed")
            return FAILED
        approve = approved(paths, drop, agreed=asks)
        report = _apply(paths, settings, approve, deep=deep, no_progress=no_progress)
        _print(kind, {**fields, **report.as_dict()}, _report_rows(report))
        return report.exit_code
    fields["in_use"] = _note_holder(store, paths)
    plan, index, dropped = _preview(paths, settings, deep=deep, no_progress=no_progress)
    fields["loses_something"] = plan.loses_something
    losses = recovery_losses(paths, plan)
    fields["lost_entries"] = losses.count
    fields |= {**plan.as_dict(), **dropped.as_dict(), "index": index.as_dict()}
    fields["broker_differs"] = differs = _broker_differs(settings)
    rows = _plan_rows(plan, index, dropped, losses)
    _print(kind, fields, {**rows, "a broker": differs} if differs else rows)
    return DAMAGED if plan.loses_something else OK


def _broker_differs(settings: MessageStoreConfig) -> str | None:
    """Return where RocketMQ's own start differs from this plan, which is that of an open by rmqcore."""
    if not settings.duplication_enable:
        return None
    return (
        "with duplicationEnable=true RocketMQ rejects records without the property DUP_INFO: when "
        "it starts, it ends the log at the first such record that it reads, and cuts the queues "
        "there"
    )


def _preview(
    paths: StorePaths, settings: MessageStoreConfig, *, deep: bool, no_progress: bool
) -> tuple[RecoveryPlan, IndexReport, DroppedMessages]:
    with progress_bar("recover", no_progress=no_progress) as progress:
        plan, index = preview_recovery(paths, settings, RecoverMode(deep, progress))
    with progress_bar("what is cut", no_progress=no_progress) as progress:
        return plan, index, dropped_messages(paths, plan, progress)


def _asks(kind: ReportFormat | None, paths: StorePaths, *, yes: bool) -> bool:
    """Return True if the plan needs a confirmation on a terminal; a store in use is refused without a question."""
    if yes or kind != ReportFormat.table or not stdout_is_terminal():
        return False
    return sys.stdin is not None and sys.stdin.isatty() and lock_holder(paths.lock) is None


def _agreed(
    store: Path,
    paths: StorePaths,
    settings: MessageStoreConfig,
    *,
    deep: bool,
    no_progress: bool,
) -> bool:
    """Show the plan and ask whether to do it."""
    plan, index, dropped = _preview(paths, settings, deep=deep, no_progress=no_progress)
    losses = recovery_losses(paths, plan)
    _print(ReportFormat.table, {"path": str(store)}, _plan_rows(plan, index, dropped, losses))
    what = f"Drop {dropped.summary()} and recover" if dropped.messages else "Recover"
    return typer.confirm(f"{what} {printable(str(store))}?", err=True)


def _apply(
    paths: StorePaths,
    settings: MessageStoreConfig,
    approve: Callable[[RecoveryPlan], object],
    *,
    deep: bool,
    no_progress: bool,
) -> RecoveryReport:
    with (
        progress_bar("recover", no_progress=no_progress) as progress,
        open_by_mode(
            paths.root,
            settings,
            RecoverMode(deep, progress, approve),
            follow_links=paths.follow_links,
        ) as opened,
    ):
        return opened.recovery


def _note_holder(store: object, paths: StorePaths) -> bool:
    """Return whether a process has the store open, and print a note: then the plan is that of a moment."""
    holder = lock_holder(paths.lock)
    if holder is not None:
        who = f"process {holder}" if holder else "another process"
        note(
            f"{store} is in use by {who}: the plan shows what would happen if that process died now"
        )
    return holder is not None


# ---- output -----------------------------------------------------------------------------------------


def _print(kind: ReportFormat | None, fields: dict[str, Any], rows: dict[str, str]) -> None:
    if kind != ReportFormat.table:
        print_json(fields, one_line=kind is not None)
        return
    terminal_console().print(facts({"store": printable(fields["path"]), **rows}))


def _plan_rows(
    plan: RecoveryPlan, index: IndexReport, dropped: DroppedMessages, losses: Losses
) -> dict[str, str]:
    rows = {"last exit": "clean" if plan.clean_exit else "not clean: the abort file is there"}
    if plan.distrust:
        rows["last exit"] = f"the abort file is missing, but {plan.distrust}"
    if plan.scan is None or plan.start is None:
        rows["log"] = "there is no CommitLog file"
    else:
        rows["reads from"] = f"{plan.scan.start_phy_offset} ({plan.start.reason})"
        rows["reads"] = (
            f"{counted(plan.scan.records, 'record')} of {human_bytes(plan.scan.record_bytes)}"
        )
        rows["log ends at"] = f"{plan.end_phy_offset}: {plan.scan.stop}"
    if plan.findings.damage:
        rows["passes over"] = "\n".join(map(str, plan.findings.damage[:10])) + (
            f"\nand {len(plan.findings.damage) - 10:,} more" * (len(plan.findings.damage) > 10)
        )
    if plan.cut.tail is not None:
        stale = ", stale bytes" if plan.cuts_stale_bytes else ""
        rows["will cut"] = (
            f"{human_bytes(plan.cut.tail.size)} behind it in {plan.cut.tail.path}{stale}"
        )
    if plan.cut.later:
        rows["will move"] = "\n".join(
            f"{part.path} ({human_bytes(part.size)})" for part in plan.cut.later
        )
    if plan.cut_bytes:
        rows["drops"] = dropped.text()
    if plan.cut.unused:
        rows["will delete"] = f"{counted(len(plan.cut.unused), 'file')} preallocated and unused"
    rows["compared"] = f"{counted(plan.findings.compared_records, 'record')} with the queue entries"
    rows["makes right"] = counted(plan.differing_entries, "queue entry")
    if plan.truncated_queues:
        rows["shortens"] = ", ".join(f"{t} {q}" for t, q in plan.truncated_queues[:10]) + (
            f" and {len(plan.truncated_queues) - 10:,} more" * (len(plan.truncated_queues) > 10)
        )
    if losses.count:
        rows["loses"] = f"{losses}: in a script --apply needs --drop {losses.count}"
    if plan.destroys_queues:
        rows["deletes"] = "all consume queues"
    if plan.aside.count:
        rows["in no queue"] = _aside_row(plan.aside)
    if plan.findings.misnamed:
        rows["misnamed"] = _misnamed_row(plan.findings.misnamed)
        stay = plan.findings.keeps_misnamed
        rows["misnamed"] += (
            "\nthese entries are kept"
            if stay
            else "\nentries at the end of a queue are removed, the others are kept"
        )
    if plan.warnings:
        rows["warning"] = "\n".join(plan.warnings)
    if plan.scan is not None and plan.scan.unread is not None:
        rows["unreadable"] = str(plan.scan.unread)
    rows["index"] = _index_row(index)
    rows["verdict"] = "nothing is lost"
    if plan.findings.misnamed:
        rows["verdict"] = "nothing is lost; records are damaged"
    if plan.drops_something:
        rows["verdict"] = "something is lost"
        if dropped.messages:
            rows["verdict"] += f": {dropped.summary()}; their bytes go to cut/"
    return rows


def _aside_row(found: InNoQueue) -> str:
    """Messages whose place another message has, by queue."""
    lines = [f"{counted(found.count, 'message')}: another message has their queue offset"]
    lines += [
        f"{printable(one.topic)} {one.queue_id}: {one.first_queue_offset} to {one.last_queue_offset}"
        f" (CommitLog offsets {one.first_phy_offset} to {one.last_phy_offset})"
        for one in found.records[:10]
    ]
    if len(found.records) > len(lines) - 1:
        lines.append(f"and {len(found.records) - 10:,} more ranges")
    return "\n".join(lines)


def _misnamed_row(found: Sequence[Misnamed]) -> str:
    """Entries whose records name another place."""
    lines = [printable(str(one)) for one in found[:10]]
    return "\n".join([*lines, f"and {len(found) - 10:,} more"] if len(found) > 10 else lines)


def _index_row(index: IndexReport) -> str:
    parts = [f"{counted(index.files, 'file')} as before"]
    if index.compared_bytes:
        parts[0] += f", compared with {human_bytes(index.compared_bytes)} of log"
    if index.damage is not None:
        parts.append(index.damage)
    if index.removed_files:
        parts.append(f"{counted(len(index.removed_files), 'file')} to be rebuilt")
    return "\n".join(parts)


def _report_rows(report: RecoveryReport) -> dict[str, str]:
    rows = {
        "reads from": f"{report.start_phy_offset} ({report.start_reason})",
        "read": f"{counted(report.scanned_records, 'record')} of {human_bytes(report.scanned_bytes)}",
        "log ends at": f"{report.end_phy_offset}: {report.stop_reason}",
        "cut": human_bytes(report.cut_bytes),
        "kept in": "\n".join(report.cut_files) or "-",
        "compared": f"{counted(report.compared_records, 'record')} with the queue entries",
        "made right": counted(report.healed_entries, "queue entry"),
        "queue entries cut": f"{report.truncated_entries:,}",
        "index": _index_row(report.index),
        "time": f"{report.plan_seconds + report.apply_seconds:.2f} s",
    }
    if report.aside.count:
        rows["in no queue"] = _aside_row(report.aside)
    if report.misnamed:
        rows["misnamed"] = _misnamed_row(report.misnamed)
    if report.warnings:
        rows["warning"] = "\n".join(report.warnings)
    if report.unread is not None:
        rows["unreadable"] = str(report.unread)
    return rows
