"""``rmqcore cat``: records in physical order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Annotated, Any, BinaryIO

import typer

from rmqcore.cli.common import arguments
from rmqcore.cli.common.allocator import give_large_pieces_back
from rmqcore.cli.common.arrow_output import write_batches
from rmqcore.cli.common.bodies import Bodies, refuse_text_in_columns
from rmqcore.cli.common.errors import report_damage, say
from rmqcore.cli.common.message_table import Columns
from rmqcore.cli.common.message_writers import JsonObjectWriter, MessageWriter
from rmqcore.cli.common.output import (
    BINARY,
    RowFormat,
    Wide,
    open_output,
    stdout_is_terminal,
)
from rmqcore.cli.common.progress import Progress, progress_bar
from rmqcore.cli.stores.given_store import opened_store
from rmqcore.cli.typed.body_pattern import (
    BodyPattern,
    Grep,
    IgnoreCase,
    Regexp,
    body_pattern,
)
from rmqcore.cli.typed.line_template import FormatOrTemplate
from rmqcore.cli.typed.message_output import message_output
from rmqcore.cli.typed.unknown_topics import UnknownTopics
from rmqcore.cli.values import whole_number
from rmqcore.codec.message import MessageView
from rmqcore.disk.queue_files import compacted_directories
from rmqcore.errors.exit_codes import DAMAGED, FAILED, OK
from rmqcore.offline.export.message_rows import (
    FIELDS,
    MAX_BODY,
    MAX_STORED_BODY,
    json_encoder,
)
from rmqcore.offline.export.record_batches import RecordBatches
from rmqcore.offline.log.walk import Blank
from rmqcore.offline.reader import StoreReader
from rmqcore.vocabulary.units import LONG_MAX

Limit = Annotated[
    int | None,
    typer.Option(
        "--limit", metavar="N", parser=whole_number(0, LONG_MAX), help="Stop after N records."
    ),
]
Blanks = Annotated[
    bool,
    typer.Option("--blank", help="Also show BLANK records, the padding at the end of full files."),
]
Compacted = Annotated[
    bool,
    typer.Option(
        "--compacted",
        help="Read the logs in compaction/, which have the newest message of each key of compacted topics, instead of the "
        "CommitLog.",
    ),
]


Unwrapped = Callable[[Iterable[MessageView | Blank]], Iterator[MessageView | Blank]]
Read = Callable[..., Iterator[MessageView | Blank]]


def cat(
    store: arguments.AnyStore,
    topics: arguments.Topics = None,
    queues: arguments.Queues = None,
    tags: arguments.Tags = None,
    keys: arguments.Keys = None,
    since: arguments.Since = None,
    until: arguments.Until = None,
    from_phy: arguments.FromPhy = None,
    to_phy: arguments.ToPhy = None,
    grep: Grep = None,
    regexp: Regexp = False,
    ignore_case: IgnoreCase = False,
    limit: Limit = None,
    body: arguments.Body = None,
    decompress: arguments.Decompress = False,
    unwrap: arguments.Unwrap = False,
    max_body: arguments.MaxStoredBody = None,
    blank: Blanks = False,
    compacted: Compacted = False,
    verify_crc: arguments.VerifyCrc = False,
    commitlog: arguments.CommitLog = None,
    follow_links: arguments.FollowLinks = False,
    storage: arguments.Storage = None,
    asked_format: FormatOrTemplate = None,
    out: arguments.Out = None,
    csv_safe: arguments.CsvSafe = False,
    json: arguments.Json = False,
    no_progress: arguments.NoProgress = False,
    wide: Wide = False,
    columns: Columns = None,
) -> int:
    """Print messages in the order in which they are stored.

    A message must match all filters. Damage is skipped and listed on stderr, and the exit code is 2. For an
    unknown topic the exit code is 1, and for a compacted one if the log has deleted messages that are live:
    --compacted shows these.

    Tables and templates show decompressed bodies, the other formats show them as stored.

    Example:
      rmqcore cat /data/store --topic Orders --key ORDER_1
      rmqcore cat /data/store --since 1h --grep paid --format '{keys} {body}'
      rmqcore cat /data/store --since 2026-11-21T08:00 --limit 100 | jq .msg_id
      rmqcore cat /data/store --format parquet -o messages.parquet
    """
    wanted = arguments.conditions(topics, queues, tags, keys, since, until, from_phy, to_phy)
    output = message_output(
        asked_format, out, wide=wide, columns=columns, csv_safe=csv_safe, as_json=json
    )
    kind = output.kind
    if blank and (output.template or kind not in (RowFormat.table, RowFormat.jsonl)):
        raise typer.BadParameter(
            f"{'a template' if output.template else kind} cannot show BLANK records: use table or "
            "jsonl",
            param_hint="--blank",
        )
    if compacted:
        _refuse_of_log(kind, blank=blank, offsets=(from_phy, to_phy))
    refuse_text_in_columns(kind, body, decompress=decompress)
    pattern = body_pattern(grep, regexp=regexp, ignore_case=ignore_case, kind=kind)
    with opened_store(store, storage, commitlog, follow_links=follow_links) as reader:
        if kind in BINARY:
            give_large_pieces_back()
        if max_body is None:
            max_body = MAX_STORED_BODY if kind in BINARY else MAX_BODY
        bodies = output.bodies(
            body,
            decompress=decompress,
            max_body=max_body,
            stored=None if compacted else reader.stored_body,
        )
        unknown = UnknownTopics(
            reader,
            topics,
            whole_log=limit is None and pattern is None and {*wanted.keywords()} == {"topics"},
            shown=None if compacted else wanted,
        )
        with (
            open_output(out, styled=output.styled) as sink,
            progress_bar("cat", no_progress=no_progress, over_output=out is None) as progress,
        ):
            if kind in BINARY:
                names = [name for name in FIELDS if bodies.shown or name != "body"]
                write_batches(
                    RecordBatches(
                        reader,
                        names,
                        wanted,
                        max_body=max_body,
                        on_shortened=bodies.tell_shortened,
                        on_wrapped=bodies.tell_wrapped if unwrap else None,
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
                    else output.writer(sink, bodies, terminal=terminal)
                )
                most_body = bodies.most_body if pattern is None and not unwrap else None
                read: Read
                if compacted:
                    read = partial(_compacted, reader, verify_crc=verify_crc, **wanted.keywords())
                else:
                    read = partial(
                        reader.messages,
                        verify_crc=verify_crc,
                        blanks=blank,
                        most_body=most_body,
                        **wanted.keywords(),
                    )
                _copy(
                    read,
                    writer,
                    progress,
                    limit,
                    pattern,
                    unknown,
                    bodies.unwrapped if unwrap else None,
                )
        report_damage(reader.damage)
        if compacted:
            missing = _refuse_uncompacted(reader, topics)
        elif kind in BINARY:
            missing = unknown.tell_elsewhere()
        else:
            missing = limit != 0 and unknown.refuse()
        if reader.damage or bodies.failures or (pattern is not None and pattern.failures):
            return DAMAGED
        return FAILED if missing else OK


def _json_writer(reader: StoreReader, sink: BinaryIO, bodies: Bodies) -> MessageWriter:
    return JsonObjectWriter(
        sink,
        json_encoder(bodies.text),
        lambda: {"damage": [found.as_dict() for found in reader.damage]},
    )


def _refuse_of_log(kind: str, *, blank: bool, offsets: tuple[int | None, int | None]) -> None:
    """Refuse options that mean the CommitLog, with ``--compacted``."""
    if kind in BINARY:
        raise typer.BadParameter(
            f"{kind} cannot be written of compacted topics: use table, jsonl or csv",
            param_hint="--compacted",
        )
    if blank or offsets != (None, None):
        raise typer.BadParameter(
            "--from-phy, --to-phy and --blank are about the CommitLog, which is not read",
            param_hint="--compacted",
        )


def _refuse_uncompacted(reader: StoreReader, topics: Iterable[str] | None) -> bool:
    """Print the requested topics that are not compacted as errors; return True if any is."""
    known = {topic for topic, _, _ in compacted_directories(reader.paths)}
    asked = [f"compacted topic {topic!r}" for topic in topics or () if topic not in known]
    if not known and not topics:
        asked = ["compacted topics"]
    for what in asked:
        say(
            f"{reader.path} has no {what}",
            f"`rmqcore info {reader.path}` lists the compacted topics; without --compacted `rmqcore cat` reads the log",
        )
    return bool(asked)


def _compacted(
    reader: StoreReader, *, progress: Progress, **asked: Any
) -> Iterator[MessageView | Blank]:
    del progress
    return reader.compacted_messages(**asked)


def _copy(
    read: Read,
    writer: MessageWriter,
    progress: Progress | None,
    limit: int | None,
    pattern: BodyPattern | None,
    unknown: UnknownTopics,
    unwrapped: Unwrapped | None,
) -> None:
    def advance(done_bytes: int, total_bytes: int) -> None:
        writer.flush()  # shows a rare match when it is found, not when a chunk is full
        if progress is not None:
            progress(done_bytes, total_bytes)

    write = writer.write
    items = unknown.watch(read(progress=advance))
    if unwrapped is not None:
        items = unwrapped(items)
    for item in islice(items if pattern is None else _matching(items, pattern), limit):
        write(item)
    writer.close()


def _matching(
    items: Iterable[MessageView | Blank], pattern: BodyPattern
) -> Iterator[MessageView | Blank]:
    return (item for item in items if isinstance(item, MessageView) and pattern(item))
