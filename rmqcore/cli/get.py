"""``rmqcore get``: messages of a queue by their offset."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqcore.cli import filters
from rmqcore.cli.answers import Answer
from rmqcore.cli.errors import note
from rmqcore.offline.reader import StoreReader


def get(
    store: filters.Store,
    topic: Annotated[str, typer.Option("--topic", metavar="NAME", help="The topic.")],
    queue: Annotated[
        int,
        typer.Option("--queue", metavar="ID", parser=filters.queue_id_option, help="The queue id."),
    ],
    offset: Annotated[
        int,
        typer.Option(
            "--offset", metavar="N", parser=filters.offset_option, help="Queue offset to begin at."
        ),
    ],
    max_messages: Annotated[
        int,
        typer.Option("--max", metavar="N", parser=filters.count_option, help="At most so many."),
    ] = 32,
    tags: Annotated[
        str | None,
        typer.Option(
            "--tags",
            metavar="EXPR",
            help="Only these tags: 'TagA || TagB', as a consumer subscribes.",
        ),
    ] = None,
    body: filters.Body = None,
    decompress: filters.Decompress = False,
    asked_format: filters.Format = None,
    out: filters.Out = None,
    json: filters.Json = False,
) -> int:
    """Print messages of a queue from an offset on, as a broker would answer a consumer.

    The status (FOUND, OFFSET_OVERFLOW_ONE ...) and the next offset go to stderr, or into the object of --json.

    Example:
      rmqcore get /data/store --topic Orders --queue 3 --offset 1200 --max 10
    """
    answer = Answer(asked_format, out, body, decompress=decompress, as_json=json)
    found = StoreReader(store).get(topic, queue, offset, max_messages, tags=tags)
    status = {
        "status": found.status.name,
        "next_begin_offset": found.next_begin_offset,
        "min_offset": found.min_offset,
        "max_offset": found.max_offset,
    }
    code = answer.show(found.messages, **status)
    if not json:
        note(", ".join(f"{name} {value}" for name, value in status.items()))
    return code
