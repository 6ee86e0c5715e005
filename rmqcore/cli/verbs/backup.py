"""``rmqcore backup``: a consistent copy of a store that may be in use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rmqcore.cli.common import arguments
from rmqcore.cli.common.errors import note, report_damage
from rmqcore.cli.common.output import counted, human_bytes, print_json, terminal_console, wants_json
from rmqcore.cli.common.progress import progress_bar
from rmqcore.cli.common.shown import printable
from rmqcore.cli.common.times import format_time
from rmqcore.cli.reports.report_table import facts
from rmqcore.cli.stores.store_settings import store_settings
from rmqcore.cli.values import whole_number
from rmqcore.errors import TargetNotEmptyError
from rmqcore.maintenance.backup.backup import backup as back_up
from rmqcore.maintenance.backup.report import BackupReport, Way
from rmqcore.vocabulary.units import INT_MAX

MIB = 1 << 20
SHOWN = 5

_mebibytes = whole_number(1, INT_MAX, "a whole number of MiB")


def backup(
    store: arguments.Store,
    dest: Annotated[
        Path,
        typer.Argument(
            metavar="DEST",
            help="A new or empty directory, or an earlier backup of this store.",
            show_default=False,
            parser=arguments.local_path,
        ),
    ],
    no_check: Annotated[
        bool, typer.Option("--no-check", help="Do not run fsck on the copy.")
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep files in the backup that the store has deleted.")
    ] = False,
    no_hard_links: Annotated[
        bool,
        typer.Option(
            "--no-hard-links", help="Copy full CommitLog files too, instead of linking them."
        ),
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            metavar="MIB",
            parser=_mebibytes,
            help="Limit reading to N MiB per second.",
        ),
    ] = None,
    config: arguments.BrokerConf = None,
    commitlog: arguments.CommitLog = None,
    follow_links: arguments.FollowLinks = False,
    json: arguments.Json = False,
    no_progress: arguments.NoProgress = False,
) -> int:
    """Copy a store in use; later runs copy only new data.

    The store is only read, and its lock is not taken. DEST becomes a separate, cleanly closed store with every
    message before the watermark. To restore, copy DEST back.

    Exit code 2: fsck found damage in the copy, or the copy was not cleanly closed.

    Example:
      rmqcore backup /data/store /data/backup
      rmqcore backup /data/store /data/backup --limit 50
    """
    paths, settings = store_settings(store, config, commitlog, follow_links=follow_links)
    try:
        with progress_bar("backup", no_progress=no_progress) as progress:
            report = back_up(
                store,
                dest,
                config=settings,
                commitlog=paths.commitlogs if commitlog is not None or config is not None else None,
                follow_links=follow_links,
                hard_links=not no_hard_links,
                keep_deleted=keep,
                check=not no_check,
                limit_bytes_per_second=None if limit is None else limit * MIB,
                progress=progress,
            )
    except TargetNotEmptyError as error:
        error.hint = (
            "DEST must be a new or empty directory, or an earlier backup of this store; nothing "
            "was changed"
        )
        raise
    if wants_json(json):
        print_json(report.as_dict())
    else:
        _print_table(report)
    report_damage(report.missing)
    return report.exit_code


def _print_table(report: BackupReport) -> None:
    stored = report.watermark_store_timestamp_ms
    rows = {
        "store": printable(report.path),
        "backup": printable(report.dest),
        "log": f"{report.min_phy_offset} to {report.watermark_phy_offset}, the watermark",
        "last message": format_time(stored),
        "copied": _way(report.copied),
        "shared blocks": _way(report.cloned),
        "hard links": _way(report.linked),
        "unchanged": _way(report.unchanged),
        "deleted": counted(report.deleted, "file"),
        "fsck": _verdict(report),
        "state": report.state,
        "time": f"{report.seconds:.2f} s",
    }
    terminal_console().print(facts(rows))
    if report.state_reason:
        note(report.state_reason)
    _note_list("deleted by the store during the backup, and not copied", report.deleted_meanwhile)
    _note_list("incomplete in the store", report.torn)
    _note_list("not copied", report.skipped)
    _note_list("unreadable; zeros in the copy", report.unreadable)


def _way(way: Way) -> str:
    return f"{counted(way.files, 'file')}, {human_bytes(way.bytes)}" if way.files else "-"


def _verdict(report: BackupReport) -> str:
    if report.fsck is None:
        return "not checked"
    if report.fsck["exit_code"] == 0:
        return f"sound, {counted(report.fsck['records'], 'record')}"
    whose = "the store has the same damage"
    if not report.fsck["in_source"]:
        whose = (
            "the store does not have these errors, so backup.json marks the backup as damaged; "
            "see `rmqcore fsck`"
        )
    return f"damaged: {whose}"


def _note_list(what: str, places: list[str]) -> None:
    if places:
        more = f" and {len(places) - SHOWN} more" if len(places) > SHOWN else ""
        note(f"{what}: {', '.join(map(printable, places[:SHOWN]))}{more}")
