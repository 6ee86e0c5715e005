"""Notebook displays of messages, results and stores: short tables of escaped text."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol

from rmqcore.codec.message import Message, MessageView
from rmqcore.errors import CompressionError, StoreError
from rmqcore.shown.body_text import body_start, utf8_text
from rmqcore.shown.html_tables import (
    SHOWN_ROWS,
    cut,
    escaped,
    items_html,
    shown,
    table_html,
    utc_time,
    values_html,
)
from rmqcore.vocabulary.sysflag import COMPRESSED

MOST_BODY, MOST_CELL = 2_000, 80
"""Most bytes of a body to show, of one message and in a table of many."""


class Item(Protocol):
    """A queue."""

    def as_dict(self) -> dict[str, Any]:
        """Its values by name."""


Shown = tuple[Mapping[str, object], Sequence[Item]]
"""Shown parts of a store: its facts, and queues."""
COLUMNS = ("topic", "queue_id", "queue_offset", "phy_offset", "stored", "tags", "keys", "body")


def message_html(view: MessageView) -> str:
    """Format a stored message: its place, its header, and the first part of its body."""
    values = view.as_dict()
    del values["body"], values["properties"]
    text, note = _body(view, MOST_BODY)
    parts = [values_html("MessageView", values), _properties(view.properties)]
    return "\n".join([*parts, _block(view.body_size, note, text)])


def new_message_html(message: Message) -> str:
    """Format a message that is not stored yet."""
    given: Any = message.body  # None too, which only a put refuses
    body = memoryview(b"" if given is None else given).cast("B")
    text, note = _text(bytes(body[:MOST_BODY]), whole=len(body) <= MOST_BODY)
    values: dict[str, object] = {
        "topic": message.topic,
        "queue_id": message.queue_id,
        "tags": message.tags,
        "keys": list(message.keys),
    }
    parts = [values_html("Message", values), _properties(message.properties)]
    return "\n".join([*parts, _block(len(body), note, text)])


def messages_html(title: str, facts: Mapping[str, object], messages: Iterable[MessageView]) -> str:
    """Format a result: its numbers, and a line for each message."""
    views = list(messages)
    more = f", showing the first {SHOWN_ROWS}" if len(views) > SHOWN_ROWS else ""
    parts = [values_html(title, facts), f"<b>messages</b> ({len(views):,}{more})"]
    if views:
        parts.append(table_html(COLUMNS, map(_line, islice(views, SHOWN_ROWS))))
    return "\n".join(parts)


def get_html(answer: Any) -> str:
    """Format the result of a `get`, of an open store or of a reader."""
    names = ("status", "next_begin_offset", "min_offset", "max_offset", "buffer_total_size")
    facts = {name: getattr(answer, name) for name in names}
    return messages_html("GetResult", facts, answer.messages)


def query_html(answer: Any) -> str:
    """Format the result of a `query`, of an open store or of a reader."""
    names = ("index_last_update_timestamp_ms", "index_last_update_phy_offset")
    facts = {name: getattr(answer, name) for name in names}
    return messages_html("QueryResult", facts, answer.messages)


def put_html(result: Any) -> str:
    """Format a `PutResult`: where the message is, or why it was not stored."""
    names = ["status", "reason"]
    if result.stored:
        names += ["phy_offset", "msg_size", "queue_offset", "msg_id", "count", "store_timestamp_ms"]
    return values_html("PutResult", {name: getattr(result, name) for name in names})


def store_html(title: str, path: object, read: Callable[[], Shown]) -> str:
    """Format an open store as `read` shows it, or say why it cannot be read now: an exception would replace the whole output."""
    facts: Mapping[str, object]
    try:
        facts, queues = read()
    except (StoreError, OSError) as error:
        facts, queues = {"path": str(path), "not read": error}, ()
    parts = [values_html(title, facts)]
    if queues:
        first = [queue.as_dict() for queue in queues[:SHOWN_ROWS]]
        parts.append(items_html("queues", first, len(queues)))
    return "\n".join(parts)


def reader_html(
    path: object, info: Callable[[], Any], queues: Callable[[int, int], Sequence[Item]]
) -> str:
    """Format a reader: its `StoreInfo`, and its queues unless they are many, because each is looked up in its files.

    `queues` returns those with messages between two CommitLog offsets.
    """

    def read() -> Shown:
        found = info()
        few = found.queue_count is not None and found.queue_count <= SHOWN_ROWS
        return found.as_dict(), queues(found.min_phy_offset, found.max_phy_offset) if few else ()

    return store_html("StoreReader", path, read)


def _line(view: MessageView) -> list[str]:
    body, note = _body(view, MOST_CELL)
    return [
        cut(view.topic),
        str(view.queue_id),
        str(view.queue_offset),
        str(view.phy_offset),
        utc_time(view.store_timestamp_ms),
        cut(view.tags or ""),
        cut(" ".join(view.keys)),
        cut(body) + (f" ({note})" if note else ""),
    ]


def _properties(properties: Mapping[str, str]) -> str:
    rows = [
        (cut(name), shown(name, value)) for name, value in islice(properties.items(), SHOWN_ROWS)
    ]
    return f"<b>properties</b> ({len(properties):,})\n{table_html((), rows)}"


def _body(view: MessageView, most: int) -> tuple[str, str]:
    """Return the start of a body, decompressed if possible, and a note about it."""
    how = "decompressed" if view.sys_flag & COMPRESSED else ""
    try:
        start, whole = body_start(view, most, plain=True)
    except CompressionError as error:
        how = f"as it is stored: {error}"
        start, whole = body_start(view, most, plain=False)
    text, note = _text(start, whole=whole)
    return text, ", ".join(filter(None, [how, note]))


def _text(start: bytes, *, whole: bool) -> tuple[str, str]:
    note = "" if whole else f"the first {len(start):,} bytes"
    text = utf8_text(start, whole=whole)
    if text is not None:
        return text, note
    return base64.b64encode(start).decode("ascii"), ", ".join(filter(None, ["base64", note]))


def _block(size: int, note: str, text: str) -> str:
    said = f", {note}" if note else ""
    return f"<b>body</b> ({size:,} bytes{escaped(said)})\n<pre>{escaped(text)}</pre>"
