"""``rmqcore salvage``: a new, sound store of every record of a damaged one that proves itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rmqcore.cli.common import arguments
from rmqcore.cli.common.errors import note, report_damage
from rmqcore.cli.common.output import counted, human_bytes, print_json, print_line, wants_json
from rmqcore.cli.common.progress import progress_bar
from rmqcore.cli.common.store_settings import read_config
from rmqcore.errors import TargetNotEmptyError
from rmqcore.maintenance.salvage.report import SalvageReport
from rmqcore.maintenance.salvage.salvage import salvage as salvage_store

SHOWN = 10
"""How many queues of a kind a terminal shows; the JSON has more."""


def salvage(
    store: arguments.Store,
    out: Annotated[
        Path,
        typer.Argument(
            metavar="OUT",
            help="A new or empty folder, outside of STORE.",
            show_default=False,
            file_okay=False,
        ),
    ],
    log_only: Annotated[
        bool,
        typer.Option(
            "--log-only", help="Look at the commitlog alone, also where STORE holds more."
        ),
    ] = False,
    config: arguments.BrokerConf = None,
    commitlog: arguments.CommitLog = None,
    follow_links: arguments.FollowLinks = False,
    json: arguments.Json = False,
    no_progress: arguments.NoProgress = False,
) -> int:
    """Make a new, sound store OUT of every record of a damaged one that proves itself.

    STORE is only read, and may be in use; a commitlog directory alone is enough. Records keep their
    physical offsets, message ids and queue offsets, and config/ is copied: a broker goes on with OUT.

    Exit code 2: something is lost. The report says which bytes of the log, and which messages.

    Example:
      rmqcore salvage /data/store /data/salvaged
      rmqcore salvage /backup/commitlog /data/salvaged --log-only
    """
    settings = None if config is None else read_config(config)
    if settings is None and (log_only or not (store / "consumequeue").is_dir()):
        note("queue and index files get the sizes of Java's defaults; --config names others")
    try:
        with progress_bar("salvage", no_progress=no_progress) as progress:
            report = salvage_store(
                store,
                out,
                log_only=log_only,
                config=settings,
                commitlog=commitlog,
                follow_links=follow_links,
                progress=progress,
            )
    except TargetNotEmptyError as error:
        error.hint = "OUT is an empty or new folder; nothing was changed"
        raise
    if wants_json(json):
        print_json(report.as_dict())
    else:
        _print_summary(report)
    report_damage(report.lost)
    for problem in report.config_problems:
        note(f"config: {problem.path} {problem.problem}")
    return report.exit_code


def _print_summary(report: SalvageReport) -> None:
    rate = (
        f", {human_bytes(int(report.message_bytes / report.seconds))}/s" if report.seconds else ""
    )
    print_line(
        f"{counted(report.messages, 'message')} of {human_bytes(report.message_bytes)} in {report.seconds:.1f} s{rate}"
    )
    print_line(
        f"{report.queue_entries:,} entries of {counted(report.queues, 'queue')}, {report.index_entries:,} index entries in "
        f"{counted(report.index_files, 'file')}"
    )
    if report.copied:
        print_line(f"copied as they are: {', '.join(report.copied)}")
    if report.left_behind:
        print_line(f"not copied: {', '.join(report.left_behind)}")
    if report.torn_tail_bytes:
        print_line(
            f"{human_bytes(report.torn_tail_bytes)} behind the last record are half a record, as any unclean exit leaves it"
        )
    _print_missing(report)
    for gap in report.unserved[:SHOWN]:
        print_line(
            f"not served: {gap.topic} queue {gap.queue_id} offsets {gap.first_queue_offset} to {gap.last_queue_offset}: a broker "
            "takes them for expired, because of the gap behind them"
        )
    _print_more(len(report.unserved))
    for aside in report.set_aside[:SHOWN]:
        print_line(
            f"in no queue: {aside.topic} queue {aside.queue_id} offsets {aside.first_queue_offset} to {aside.last_queue_offset}: "
            f"{aside.why}"
        )
    _print_more(len(report.set_aside))
    print_line(_verdict(report))


def _print_missing(report: SalvageReport) -> None:
    for gap in report.missing[:SHOWN]:
        first, last = gap.first_queue_offset, gap.last_queue_offset
        offsets = f"offset {first}" if first == last else f"offsets {first} to {last}"
        print_line(f"missing: {gap.topic} queue {gap.queue_id} {offsets}")
    _print_more(len(report.missing))
    if not report.missing_complete:
        print_line("further messages may be missing: the store has too many queues to look at all")


def _print_more(count: int) -> None:
    if count > SHOWN:
        print_line(f"... and {count - SHOWN:,} more, see --json")


def _verdict(report: SalvageReport) -> str:
    if report.exit_code == 0:
        return f"nothing is lost; the new store is in {report.out}"
    lost = []
    if report.lost:
        lost.append(f"{human_bytes(report.lost_bytes)} of the log")
    if report.missing_messages:
        lost.append(f"{counted(report.missing_messages, 'message')} that queues had")
    if report.set_aside_messages:
        lost.append(f"the places of {report.set_aside_messages:,} messages in queues")
    if report.config_problems:
        lost.append(f"{counted(len(report.config_problems), 'file')} of config")
    return f"lost: {', '.join(lost)}; the new store is in {report.out}"
