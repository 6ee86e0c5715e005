"""``rmqcore query``: messages by key, from the index."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from rmqcore.cli import filters
from rmqcore.cli.answers import Answer
from rmqcore.cli.errors import note
from rmqcore.offline.reader import StoreReader


class IndexType(StrEnum):
    """What the index holds beside keys."""

    tag = "T"


def query(
    store: filters.Store,
    topic: Annotated[str, typer.Option("--topic", metavar="NAME", help="The topic.")],
    key: Annotated[
        str,
        typer.Option(
            "--key", metavar="KEY", help="A word of KEYS, or the client's message id (UNIQ_KEY)."
        ),
    ],
    since: filters.Since = None,
    until: filters.Until = None,
    limit: Annotated[
        int,
        typer.Option("--limit", metavar="N", parser=filters.count_option, help="At most so many."),
    ] = 32,
    index_type: Annotated[
        IndexType | None,
        typer.Option("--index-type", help="T: --key is a tag (indexed since 5.4.0)."),
    ] = None,
    body: filters.Body = None,
    decompress: filters.Decompress = False,
    asked_format: filters.Format = None,
    out: filters.Out = None,
    json: filters.Json = False,
) -> int:
    """Print the newest messages with a key, as the index finds them.

    When the index is missing or damaged, `rmqcore cat STORE --key KEY` finds the same by reading everything.

    Example:
      rmqcore query /data/store --topic Orders --key ORDER_1 --limit 5
    """
    filters.conditions(None, None, None, None, since, until)
    answer = Answer(asked_format, out, body, decompress=decompress, as_json=json)
    end_ms = None if until is None else max(0, until - 1)  # the index includes its end
    kind = None if index_type is None else index_type.value
    found = StoreReader(store).query(topic, key, limit, since or 0, end_ms, index_type=kind)
    code = answer.show(found)
    if not found and not json:
        note(f"the index has no message of {topic} with this {'tag' if kind else 'key'}")
    return code
