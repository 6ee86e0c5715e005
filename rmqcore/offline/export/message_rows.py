"""Messages as text: each is a JSON object or a CSV row, under the names of `MessageView`.

The text of a body is made here, as `Body` says; the line around it is native (`text/text_rows.c`).
"""

from __future__ import annotations

import binascii
import hashlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from rmqcore._native.text.message_text import csv_line, json_line
from rmqcore.codec.compression import PIECE, plain_pieces
from rmqcore.shown.body_text import Stored, body_start, stored_in_view, utf8_text
from rmqcore.vocabulary.sysflag import COMPRESSED

if TYPE_CHECKING:
    from rmqcore.codec.message import MessageView

Body = Literal["none", "text", "base64", "sha256", "text_or_base64"]
"""How a body is written: left out, UTF-8 text (malformed bytes become U+FFFD), base64, its SHA-256 in hex, or text if it is
UTF-8 and else base64."""

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
"""The names of a message's values, in the order they are written."""

CSV_HEADER = (",".join(FIELDS) + "\n").encode()
"""The first line of CSV."""

MAX_BODY = 4 * 1024 * 1024
"""Default limit of a body as text, in bytes: the largest body that Java's brokers and clients accept by default."""

MAX_STORED_BODY = 16 * 1024 * 1024
"""Default limit of a body in Arrow and Parquet, in bytes."""

MOST_NAMED = 20
"""The most messages that a report names; it counts the others."""

BodyText = Callable[["MessageView"], str | None]
Line = Callable[["MessageView"], bytes]
"""Returns a message as a line, in UTF-8 and with its line end."""


def body_encoder(
    body: Body,
    *,
    plain: bool = False,
    max_body: int | None = MAX_BODY,
    on_shortened: Callable[[int], object] | None = None,
    stored: Stored | None = None,
) -> BodyText:
    """Make a function that returns a message's body as text, None for ``none``.

    Parameters
    ----------
    body : {"none", "text", "base64", "sha256", "text_or_base64"}
    plain : bool
        Decompress the body first; the function then raises `rmqcore.errors.CompressionError` if that fails.
    max_body : int, optional
        Text and base64 hold this many bytes of a longer body, and no more are decompressed; None: all. A hash is always
        over the whole body.
    on_shortened : callable, optional
        Called with the phy offset of each message whose body is longer.
    stored : callable, optional
        Opens the stored bytes of a body, if the views hold only the part by `most_body`: `StoreReader.stored_body`.
    """
    opened = stored_in_view if stored is None else stored
    if body == "none":
        return lambda _view: None
    if body == "sha256":
        return lambda view: _sha256(view, opened, plain=plain)
    encode = _ENCODINGS[body]
    short = sys.maxsize if max_body is None else max_body

    def shown(view: MessageView) -> str:
        if view.body_size <= short and not (plain and view.sys_flag & COMPRESSED):
            return encode(
                view.body, True
            )  # nearly all of them: one more call takes as long as the line
        start, whole = body_start(view, max_body, opened, plain=plain)
        if not whole and on_shortened is not None:
            on_shortened(view.phy_offset)
        return encode(start, whole)

    return shown


class NamedMessages:
    """Messages that a report counts, naming the first ones: with shortened bodies, or batches not taken apart.

    Attributes
    ----------
    count : int
    first : list of int
        Phy offsets of the first ones.
    """

    def __init__(self) -> None:
        self.count = 0
        self.first: list[int] = []

    def add(self, phy_offset: int, _why: object = None) -> None:
        """Count one message."""
        if self.count < MOST_NAMED:
            self.first.append(phy_offset)
        self.count += 1


def most_body(body: Body, *, max_body: int | None = MAX_BODY) -> int | None:
    """Return how many bytes of each stored body `body_encoder` reads from a view; None: all of them.

    It reads further bytes, for a hash or a decompression, from the file that `stored` opens.
    """
    return 0 if body in ("none", "sha256") else max_body


def _sha256(view: MessageView, stored: Stored, *, plain: bool) -> str:
    found = hashlib.sha256()
    with stored(view) as body:
        if plain and view.sys_flag & COMPRESSED:
            for piece in plain_pieces(body, view.sys_flag):
                found.update(piece)
        else:
            for at in range(0, len(body), PIECE):
                found.update(body[at : at + PIECE])
    return found.hexdigest()


def _base64(body: bytes, _whole: bool) -> str:
    return binascii.b2a_base64(body, newline=False).decode("ascii")


def _text(body: bytes, _whole: bool) -> str:
    return body.decode("utf-8", "replace")


def _text_or_base64(body: bytes, whole: bool) -> str:
    text = utf8_text(body, whole=whole)
    return _base64(body, whole) if text is None else text


_ENCODINGS: dict[str, Callable[[bytes, bool], str]] = {
    "base64": _base64,
    "text": _text,
    "text_or_base64": _text_or_base64,
}


def json_encoder(body_text: BodyText) -> Line:
    """Make a function that returns a message as one line of JSON.

    The object has exactly the names in `FIELDS`; ``properties`` is an object, ``keys`` a list,
    ``tags`` and ``uniq_key`` may be null, and ``body`` is the result of `body_text`.
    """
    return lambda view: json_line(view, body_text(view))


def csv_encoder(body_text: BodyText, *, csv_safe: bool = False) -> Line:
    """Make a function that returns a message as one row of CSV, in the order of `FIELDS`.

    ``properties`` is a JSON object in one cell, ``keys`` are joined by spaces as in the KEYS
    property, and a value that the message lacks is an empty cell.

    Parameters
    ----------
    body_text : callable
    csv_safe : bool
        Put an apostrophe before each text that begins like a spreadsheet formula: any producer can put one into a
        message, and the spreadsheet would run it.
    """
    return lambda view: csv_line(view, body_text(view), csv_safe)
