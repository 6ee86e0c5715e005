"""``rmqcore cat``: records in physical order."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any, BinaryIO

import typer

from rmqcore.cli.common import arguments
from rmqcore.cli.common.allocator import give_large_pieces_back
from rmqcore.cli.common.arrow_output import write_batches
from rmqcore.cli.common.bodies import Bodies, BodyMode, refuse_text_in_columns
from rmqcore.cli.common.errors import DAMAGED, OK, report_damage
from rmqcore.cli.common.message_writers import JsonObjectWriter, MessageWriter, text_writer
from rmqcore.cli.common.output import (
    BINARY,
    RowFormat,
    open_output,
    refuse_csv_safe,
    refuse_format_with_json,
    row_format,
    stdout_is_terminal,
)
from rmqcore.cli.common.progress import Progress, progress_bar
from rmqcore.offline.export.message_rows import (
    FIELDS,
    MAX_BODY,
    MAX_STORED_BODY,
    json_encoder,
)
from rmqcore.offline.export.record_batches import RecordBatches
from rmqcore.offline.reader import StoreReader

Limit = Annotated[
    int | None, typer.Option("--limit", metavar="N", min=0, help="Stop after N records.")
]
Blanks = Annotated[
    bool, typer.Option("--blank", help="Also show the BLANK records that end full files.")
]


def cat(
    store: arguments.Store,
    topics: arguments.Topics = None,
    queues: arguments.Queues = None,
    tags: arguments.Tags = None,
    keys: arguments.Keys = None,
    since: arguments.Since = None,
    until: arguments.Until = None,
    from_phy: arguments.FromPhy = None,
    to_phy: arguments.ToPhy = None,
    limit: Limit = None,
    body: arguments.Body = None,
    decompress: arguments.Decompress = False,
    max_body: arguments.MaxStoredBody = None,
    blank: Blanks = False,
    verify_crc: arguments.VerifyCrc = False,
    commitlog: arguments.CommitLog = None,
    follow_links: arguments.FollowLinks = False,
    asked_format: arguments.Format = None,
    out: arguments.Out = None,
    csv_safe: arguments.CsvSafe = False,
    json: arguments.Json = False,
    no_progress: arguments.NoProgress = False,
) -> int:
    """Print records in physical order, oldest first.

    All filters that are given must hold. Damage is skipped and listed on stderr; the exit code is 2 then.

    Example:
      rmqcore cat /data/store --topic Orders --key ORDER_1
      rmqcore cat /data/store --since 2026-11-21T08:00 --limit 100 | jq .msg_id
      rmqcore cat /data/store --format parquet -o messages.parquet
    """
    refuse_format_with_json(asked_format, json)
    wanted = arguments.conditions(topics, queues, tags, keys, since, until, from_phy, to_phy)
    kind = RowFormat.jsonl if json else row_format(asked_format, out)
    if blank and kind not in (RowFormat.table, RowFormat.jsonl):
        raise typer.BadParameter(
            f"{kind} has no BLANK records: use table or jsonl", param_hint="--blank"
        )
    refuse_csv_safe(kind, csv_safe)
    refuse_text_in_columns(kind, body, decompress=decompress)
    reader = StoreReader(store, commitlog=commitlog, follow_links=follow_links)
    if kind in BINARY:
        give_large_pieces_back()
    if max_body is None:
        max_body = MAX_STORED_BODY if kind in BINARY else MAX_BODY
    bodies = Bodies(
        body or BodyMode.text, decompress=decompress, max_body=max_body, stored=reader.stored_body
    )
    with (
        open_output(out, styled=kind == RowFormat.table) as sink,
        progress_bar("cat", no_progress=no_progress, over_output=out is None) as progress,
    ):
        if kind in BINARY:
            columns = [name for name in FIELDS if bodies.shown or name != "body"]
            write_batches(
                RecordBatches(
                    reader,
                    columns,
                    wanted,
                    max_body=max_body,
                    on_shortened=bodies.tell_shortened,
                    verify_crc=verify_crc,
                    progress=progress,
                ),
                sink,
                kind,
                limit=limit,
                seekable=out is not None,
            )
        else:
            terminal = out is None and stdout_is_terminal()
            writer = (
                _json_writer(reader, sink, bodies)
                if json
                else text_writer(kind, sink, bodies, terminal=terminal, csv_safe=csv_safe)
            )
            more = {"verify_crc": verify_crc, "blanks": blank, "most_body": bodies.most_body}
            _copy(reader, writer, progress, limit, {**wanted.keywords(), **more})
    report_damage(reader.damage)
    return DAMAGED if reader.damage or bodies.failures else OK


def _json_writer(reader: StoreReader, sink: BinaryIO, bodies: Bodies) -> MessageWriter:
    return JsonObjectWriter(
        sink,
        json_encoder(bodies.text),
        lambda: {"damage": [found.as_dict() for found in reader.damage]},
    )


def _copy(
    reader: StoreReader,
    writer: MessageWriter,
    progress: Progress | None,
    limit: int | None,
    asked: dict[str, Any],
) -> None:
    def advance(done_bytes: int, total_bytes: int) -> None:
        writer.flush()  # shows a rare match when it is found, not when a chunk is full
        if progress is not None:
            progress(done_bytes, total_bytes)

    write = writer.write
    for item in islice(reader.messages(progress=advance, **asked), limit):
        write(item)
    writer.close()
