"""A reader of a live log takes no part of a record for all of it."""

from __future__ import annotations

from typing import Any

import pytest

from rmqcore import Message, codec
from rmqcore.errors import StoreError
from rmqcore.offline.log.unfinished_record import is_unfinished

SHAPES: list[dict[str, Any]] = [
    {"body": b"", "tags": "TagA"},
    {"body": b"x" * 60, "tags": "TagA", "keys": ["k1", "k2"]},
    {"body": b"x" * 60},
    {"body": b"", "topic": "T" * 200, "tags": "TagA"},
    {"body": b"y", "topic": "T" * 200},
    {"body": b"y" * 300, "properties": {"A": "b" * 300}},
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("host", ["127.0.0.1:10911", "[::1]:10911"])
def test_no_beginning_of_a_record_is_whole(shape: dict[str, Any], host: str) -> None:
    """A record met between its topic and its properties was taken for a message without properties.

    Java copies a record into the log from its beginning to its end, so a reader meets it with zeros behind any byte. BODYCRC is
    right from the end of the body on, and all lengths are right once the length of the properties is there.
    """
    raw = _encode({"topic": "Orders", **shape}, host)
    assert not is_unfinished(codec.decode(raw))
    met = 0
    for written in range(len(raw)):
        part = raw[:written] + bytes(len(raw) - written)
        try:
            view = codec.decode(part)
        except StoreError:
            continue
        if view.crc_ok() and part != raw:
            met += 1
            assert is_unfinished(view), written
    assert met, "no part of the record passes for one, so that nothing was tested"


def _encode(fields: dict[str, Any], host: str) -> bytes:
    topic, body = fields.pop("topic"), fields.pop("body")
    message = Message(topic, body, store_host=host, born_host=host, **fields)
    return codec.encode(message, phy_offset=0, queue_offset=0, store_timestamp_ms=1_700_000_000_000)
