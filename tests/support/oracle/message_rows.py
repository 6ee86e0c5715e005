"""Lines of JSON and rows of CSV, made of the values of a MessageView with Python's own json and csv."""

from __future__ import annotations

import csv
import io
import json
from json.encoder import encode_basestring as quote  # what json.dumps has for ensure_ascii=False
from typing import Any

from rmqcore.codec.message import MessageView

FIELDS = (
    "phy_offset",
    "msg_size",
    "magic",
    "body_crc",
    "queue_id",
    "flag",
    "queue_offset",
    "sys_flag",
    "born_timestamp_ms",
    "born_host",
    "store_timestamp_ms",
    "store_host",
    "reconsume_times",
    "prepared_transaction_offset",
    "body",
    "topic",
    "properties",
    "tags",
    "keys",
    "uniq_key",
    "msg_id",
    "tags_code",
)
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""How texts begin that a spreadsheet may take for a formula; the last four are the wide forms, which some take too."""


def json_line(view: MessageView, text: str | None) -> bytes:
    """A message as one line of JSON; the text of its body is given."""
    tags = view.tags
    uniq_key = view.uniq_key
    properties = ", ".join(
        [f"{quote(name)}: {quote(value)}" for name, value in view.properties.items()]
    )
    return (
        f'{{"phy_offset": {view.phy_offset}, "msg_size": {view.msg_size}, "magic": {view.magic}, '
        f'"body_crc": {view.body_crc}, "queue_id": {view.queue_id}, "flag": {view.flag}, '
        f'"queue_offset": {view.queue_offset}, "sys_flag": {view.sys_flag}, '
        f'"born_timestamp_ms": {view.born_timestamp_ms}, "born_host": "{view.born_host}", '
        f'"store_timestamp_ms": {view.store_timestamp_ms}, "store_host": "{view.store_host}", '
        f'"reconsume_times": {view.reconsume_times}, '
        f'"prepared_transaction_offset": {view.prepared_transaction_offset}, '
        f'"body": {"null" if text is None else quote(text)}, "topic": {quote(view.topic)}, '
        f'"properties": {{{properties}}}, "tags": {"null" if tags is None else quote(tags)}, '
        f'"keys": [{", ".join([quote(key) for key in view.keys])}], '
        f'"uniq_key": {"null" if uniq_key is None else quote(uniq_key)}, '
        f'"msg_id": "{view.msg_id}", "tags_code": {view.tags_code}}}\n'
    ).encode("utf-8", "replace")


def csv_row(view: MessageView, text: str | None, *, csv_safe: bool = False) -> list[Any]:
    """A message as the values of a row of CSV, in the order of `FIELDS`; the text of its body is given."""
    row: list[Any] = [getattr(view, name) if name != "body" else text for name in FIELDS]
    row[_PROPERTIES] = json.dumps(row[_PROPERTIES], ensure_ascii=False)
    row[_KEYS] = " ".join(row[_KEYS])
    return [_no_formula(value) for value in row] if csv_safe else row


def csv_line(view: MessageView, text: str | None, *, csv_safe: bool = False) -> bytes:
    """A message as a row of CSV."""
    line = io.StringIO()
    # A field with a character of the line's end is quoted: by this end those with CR are, too, before Python 3.13.
    csv.writer(line, lineterminator="\r\n").writerow(csv_row(view, text, csv_safe=csv_safe))
    return (line.getvalue().removesuffix("\r\n") + "\n").encode("utf-8", "replace")


def _no_formula(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


_PROPERTIES = FIELDS.index("properties")
_KEYS = FIELDS.index("keys")
