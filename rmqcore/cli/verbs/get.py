"""``rmqcore get``: messages of a queue by their offset."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqcore.cli.common import arguments
from rmqcore.cli.common.answers import Answer
from rmqcore.cli.common.errors import note, report_damage
from rmqcore.cli.common.message_table import Columns
from rmqcore.cli.common.output import Wide
from rmqcore.cli.stores.given_store import opened_store
from rmqcore.cli.typed.missing_parts import has_no_queue, has_no_queues
from rmqcore.cli.typed.unknown_topics import UnknownTopics
from rmqcore.errors.exit_codes import DAMAGED, FAILED, OK
from rmqcore.offline.elsewhere import LOOKED_AT
from rmqcore.offline.export.message_rows import MAX_BODY


def get(
    store: arguments.AnyStore,
    topic: arguments.Topic,
    queue: Annotated[
        int,
        typer.Option(
            "--queue", metavar="ID", parser=arguments.queue_id_option, help="The queue id."
        ),
    ],
    offset: Annotated[
        int,
        typer.Option(
            "--offset",
            metavar="N",
            parser=arguments.offset_option,
            help="Queue offset to start at.",
        ),
    ],
    max_messages: Annotated[
        int,
        typer.Option(
            "--max", metavar="N", parser=arguments.count_option, help="At most N messages."
        ),
    ] = 32,
    tags: Annotated[
        str | None,
        typer.Option(
            "--tags",
            metavar="EXPR",
            help="Only these tags, as in a consumer's subscription: 'TagA || TagB'.",
        ),
    ] = None,
    body: arguments.Body = None,
    decompress: arguments.Decompress = False,
    unwrap: arguments.Unwrap = False,
    max_body: arguments.MaxBody = MAX_BODY,
    commitlog: arguments.CommitLog = None,
    follow_links: arguments.FollowLinks = False,
    storage: arguments.Storage = None,
    asked_format: arguments.Format = None,
    out: arguments.Out = None,
    csv_safe: arguments.CsvSafe = False,
    json: arguments.Json = False,
    wide: Wide = False,
    columns: Columns = None,
) -> int:
    """Print messages of a queue, starting at an offset.

    The messages are those that a broker would return to a consumer; those of a compacted topic come from compaction/.
    The status (FOUND, OFFSET_OVERFLOW_ONE ...) and the next offset go to stderr, or into the object of --json. For an
    unknown topic, or in a store without queues, or for a queue that the store does not have, the exit code is 1. It is
    2 if entries of the queue lead to no message, or to one of another queue.

    Example:
      rmqcore get /data/store --topic Orders --queue 3 --offset 1200 --max 10
    """
    answer = Answer(
        asked_format,
        out,
        body,
        decompress=decompress,
        max_body=max_body,
        as_json=json,
        csv_safe=csv_safe,
        unwrap=unwrap,
        wide=wide,
        columns=columns,
    )
    with opened_store(store, storage, commitlog, follow_links=follow_links) as reader:
        unknown = UnknownTopics(reader, [topic], whole_log=False)
        found = reader.get(topic, queue, offset, max_messages, tags=tags)
        status: dict[str, object] = {
            "status": found.status.name,
            "next_begin_offset": found.next_begin_offset,
            "min_offset": found.min_offset,
            "max_offset": found.max_offset,
        }
        if found.compacted_log:
            status["from"] = found.compacted_log
        if found.status in LOOKED_AT or found.compacted_log:
            unknown.met([topic])
        damage = [one.as_dict() for one in reader.damage]
        code = answer.show(found.messages, **status, damage=damage)
        report_damage(reader.damage)
        if reader.damage:
            code = DAMAGED
        if not json:
            note(", ".join(f"{name} {value}" for name, value in status.items()))
        if not (unknown.refuse() or found.compacted_log) and (
            has_no_queues(reader, topic)
            or (found.max_offset == 0 and code == OK and has_no_queue(reader, topic, queue))
        ):
            return FAILED
        return unknown.exit_code(code)
