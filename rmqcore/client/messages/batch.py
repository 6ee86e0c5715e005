"""Messages in one body: what a batch is sent as, and what a stored batch holds.

Source: RocketMQ 5.5.0 MessageDecoder#encodeMessage, #decodeMessage.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from rmqcore.errors import ProtocolError

_HEAD = struct.Struct(">iiiii")
"""TOTALSIZE, MAGICCODE, BODYCRC, FLAG and the body's length; the second and third are always 0."""
_SHORT = struct.Struct(">h")
MOST_PROPERTIES_SIZE = 32_767
PART = "batch"


class BatchMessage(NamedTuple):
    """A message of a batch."""

    flag: int
    body: bytes
    properties: bytes
    """As a record has them."""


def encode_batch_message(message: BatchMessage) -> bytes:
    """Give the bytes of one message; those of all, one after the other, are a batch's body.

    Raises
    ------
    ValueError
        Its properties are too long.
    """
    if len(message.properties) > MOST_PROPERTIES_SIZE:
        raise ValueError(
            f"properties of {len(message.properties)} bytes, at most {MOST_PROPERTIES_SIZE} fit"
        )
    size = _HEAD.size + len(message.body) + _SHORT.size + len(message.properties)
    head = _HEAD.pack(size, 0, 0, message.flag, len(message.body))
    return b"".join((head, message.body, _SHORT.pack(len(message.properties)), message.properties))


def decode_batch(body: bytes) -> Iterator[BatchMessage]:
    """Give the messages of a batch's body.

    Raises
    ------
    ProtocolError
        Its lengths do not fit each other.
    """
    pos = 0
    while pos < len(body):
        message, pos = _decode_one(body, pos)
        yield message


def _decode_one(body: bytes, pos: int) -> tuple[BatchMessage, int]:
    left = len(body) - pos
    if left < _HEAD.size + _SHORT.size:
        raise ProtocolError(PART, pos, "message", f"{_HEAD.size + _SHORT.size} bytes", left)
    size, _, _, flag, body_size = _HEAD.unpack_from(body, pos)
    if not _HEAD.size + _SHORT.size <= size <= left:
        raise ProtocolError(PART, pos, "TOTALSIZE", f"at most {left}", size)
    most = size - _HEAD.size - _SHORT.size
    if not 0 <= body_size <= most:
        raise ProtocolError(PART, pos + 16, "body length", f"0 to {most}", body_size)
    start = pos + _HEAD.size
    after = start + body_size
    properties_size = _SHORT.unpack_from(body, after)[0]
    end = after + _SHORT.size + properties_size
    if end != pos + size:
        raise ProtocolError(PART, after, "properties length", most - body_size, properties_size)
    properties = body[after + _SHORT.size : end]
    return BatchMessage(flag, body[start:after], properties), end
