"""``rmqcore tail``: the newest messages, and new ones when they arrive."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Annotated

import typer

from rmqcore.cli.common import arguments
from rmqcore.cli.common.errors import report_damage
from rmqcore.cli.common.message_table import Columns
from rmqcore.cli.common.output import (
    BINARY,
    Wide,
    open_output,
    stdout_is_terminal,
)
from rmqcore.cli.typed.body_pattern import Grep, IgnoreCase, Regexp, body_pattern
from rmqcore.cli.typed.line_template import FormatOrTemplate
from rmqcore.cli.typed.message_output import message_output
from rmqcore.cli.typed.unknown_topics import UnknownTopics
from rmqcore.cli.values import whole_number
from rmqcore.codec.message import MessageView
from rmqcore.errors.exit_codes import DAMAGED, FAILED, OK
from rmqcore.offline.export.message_rows import MAX_BODY
from rmqcore.offline.log.walk import Blank
from rmqcore.offline.reader import StoreReader
from rmqcore.offline.tail import LogTail
from rmqcore.vocabulary.units import INT_MAX

POLL_SECONDS = 0.2


def tail(
    store: arguments.Store,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Continue with new messages as they are stored.")
    ] = False,
    lines: Annotated[
        int,
        typer.Option(
            "-n",
            "--lines",
            metavar="N",
            parser=whole_number(0, INT_MAX),
            help="Start with the N newest messages.",
        ),
    ] = 10,
    topics: arguments.Topics = None,
    queues: arguments.Queues = None,
    tags: arguments.Tags = None,
    keys: arguments.Keys = None,
    since: arguments.Since = None,
    until: arguments.Until = None,
    grep: Grep = None,
    regexp: Regexp = False,
    ignore_case: IgnoreCase = False,
    body: arguments.Body = None,
    decompress: arguments.Decompress = False,
    unwrap: arguments.Unwrap = False,
    max_body: arguments.MaxBody = MAX_BODY,
    commitlog: arguments.CommitLog = None,
    follow_links: arguments.FollowLinks = False,
    asked_format: FormatOrTemplate = None,
    csv_safe: arguments.CsvSafe = False,
    wide: Wide = False,
    columns: Columns = None,
) -> int:
    """Print the newest messages; with -f continue with new ones.

    Ctrl-C ends it with exit code 130, as it does tail -f. -n counts messages that match the filters. New and
    deleted CommitLog files are followed. An unknown topic is an error; with -f, tail waits for it.

    Tables and templates show decompressed bodies, the other formats show them as stored.

    Example:
      rmqcore tail /data/store -f --topic Orders
      rmqcore tail /data/store -n 1 --format jsonl
      rmqcore tail /data/store -f --grep paid --format '{keys} {body}'
    """
    wanted = arguments.conditions(topics, queues, tags, keys, since, until)
    output = message_output(asked_format, None, wide=wide, columns=columns, csv_safe=csv_safe)
    kind = output.kind
    if kind in BINARY:
        raise typer.BadParameter(
            f"{kind} cannot be written message by message: use table, jsonl or csv",
            param_hint="--format",
        )
    pattern = body_pattern(grep, regexp=regexp, ignore_case=ignore_case, kind=kind)
    reader = StoreReader(store, commitlog=commitlog, follow_links=follow_links)
    newest = LogTail(reader, **wanted.keywords(), matches=pattern)
    unknown = UnknownTopics(
        reader, topics, whole_log=pattern is None and {*wanted.keywords()} == {"topics"}
    )
    bodies = output.bodies(body, decompress=decompress, max_body=max_body)
    missing = False

    def shown(views: Iterable[MessageView | Blank]) -> Iterator[MessageView]:
        for view in bodies.unwrapped(views) if unwrap else views:
            if isinstance(view, MessageView) and (not unwrap or pattern is None or pattern(view)):
                yield view

    with open_output(None, styled=output.styled) as sink:
        writer = output.writer(sink, bodies, terminal=stdout_is_terminal())
        for view in deque(shown(unknown.watch(newest.newest(lines))), maxlen=lines):
            writer.write(view)
        writer.flush()
        if follow:
            unknown.tell()
        elif lines:
            missing = unknown.refuse()
        reported = _report(newest, 0)
        if not follow and newest.unfinished is not None:
            newest.damage.append(newest.unfinished)
            reported = _report(newest, reported)
        while follow:
            for view in shown(newest.poll()):
                writer.write(view)
            writer.flush()
            reported = _report(newest, reported)
            time.sleep(POLL_SECONDS)
    if newest.damage or bodies.failures or (pattern is not None and pattern.failures):
        return DAMAGED
    return FAILED if missing else OK


def _report(newest: LogTail, reported: int) -> int:
    report_damage(newest.damage[reported:])
    return len(newest.damage)
