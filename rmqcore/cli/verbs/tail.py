"""``rmqcore tail``: the newest messages, and those that come."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from rmqcore.cli.common import arguments
from rmqcore.cli.common.bodies import Bodies, BodyMode
from rmqcore.cli.common.errors import DAMAGED, OK, report_damage
from rmqcore.cli.common.message_writers import text_writer
from rmqcore.cli.common.output import (
    BINARY,
    RowFormat,
    open_output,
    refuse_csv_safe,
    row_format,
    stdout_is_terminal,
)
from rmqcore.offline.export.message_rows import MAX_BODY
from rmqcore.offline.reader import StoreReader
from rmqcore.offline.tail import LogTail

POLL_SECONDS = 0.2


def tail(
    store: arguments.Store,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on with messages as they are stored.")
    ] = False,
    lines: Annotated[
        int,
        typer.Option("-n", "--lines", metavar="N", min=0, help="Newest messages to begin with."),
    ] = 10,
    topics: arguments.Topics = None,
    queues: arguments.Queues = None,
    tags: arguments.Tags = None,
    keys: arguments.Keys = None,
    since: arguments.Since = None,
    until: arguments.Until = None,
    body: arguments.Body = None,
    decompress: arguments.Decompress = False,
    max_body: arguments.MaxBody = MAX_BODY,
    commitlog: arguments.CommitLog = None,
    follow_links: arguments.FollowLinks = False,
    asked_format: arguments.Format = None,
    csv_safe: arguments.CsvSafe = False,
) -> int:
    """Print the newest messages; with -f go on as a broker stores more, until Ctrl-C (exit code 130, as for tail -f).

    Filters come first: -n counts messages that match. New and deleted CommitLog files are followed.

    Example:
      rmqcore tail /data/store -f --topic Orders
      rmqcore tail /data/store -n 1 --format jsonl
    """
    wanted = arguments.conditions(topics, queues, tags, keys, since, until)
    kind = row_format(asked_format, None)
    if kind in BINARY:
        raise typer.BadParameter(
            f"{kind} does not grow line by line: use table, jsonl or csv", param_hint="--format"
        )
    refuse_csv_safe(kind, csv_safe)
    newest = LogTail(
        StoreReader(store, commitlog=commitlog, follow_links=follow_links), **wanted.keywords()
    )
    bodies = Bodies(body or BodyMode.text, decompress=decompress, max_body=max_body)
    with open_output(None, styled=kind == RowFormat.table) as sink:
        writer = text_writer(kind, sink, bodies, terminal=stdout_is_terminal(), csv_safe=csv_safe)
        for view in newest.newest(lines):
            writer.write(view)
        writer.flush()
        reported = _report(newest, 0)
        if not follow and newest.unfinished is not None:
            newest.damage.append(newest.unfinished)
            reported = _report(newest, reported)
        while follow:
            for view in newest.poll():
                writer.write(view)
            writer.flush()
            reported = _report(newest, reported)
            time.sleep(POLL_SECONDS)
    return DAMAGED if newest.damage or bodies.failures else OK


def _report(newest: LogTail, reported: int) -> int:
    report_damage(newest.damage[reported:])
    return len(newest.damage)
