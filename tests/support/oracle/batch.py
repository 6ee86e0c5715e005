"""The body of a producer's batch as slow, obvious Python.

Nothing of rmqcore is imported here. Source of the rules: RocketMQ 5.5.0 MessageDecoder#encodeMessage, #decodeMessage.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

HEAD = struct.Struct(">iiiii")
SMALLEST = HEAD.size + 2


@dataclass(frozen=True)
class Inner:
    """A message of a batch; the properties are the string of the format."""

    flag: int
    body: bytes
    properties: bytes


@dataclass(frozen=True)
class Refused:
    """The bytes are not a message of a batch: the field, its position, and what it holds."""

    field: str
    pos: int
    found: object


def encode_message(message: Inner) -> bytes:
    """TOTALSIZE, MAGICCODE 0, BODYCRC 0, FLAG, BODYLENGTH, body, PROPERTIESLENGTH, properties."""
    size = SMALLEST + len(message.body) + len(message.properties)
    head = HEAD.pack(size, 0, 0, message.flag, len(message.body))
    return head + message.body + struct.pack(">h", len(message.properties)) + message.properties


def encode_batch(messages: Iterable[Inner]) -> bytes:
    return b"".join(map(encode_message, messages))


def read_batch(body: bytes, *, check_size: bool = True) -> list[Inner] | Refused:
    found = []
    pos = 0
    while pos < len(body):
        one = _one(body, pos, check_size=check_size)
        if isinstance(one, Refused):
            return one
        message, pos = one
        found.append(message)
    return found


def _one(body: bytes, start: int, *, check_size: bool) -> tuple[Inner, int] | Refused:
    left = len(body) - start
    if left < SMALLEST:
        return Refused("TOTALSIZE", start, f"cut off after {left} bytes")
    size, _, _, flag, body_len = HEAD.unpack_from(body, start)
    if not check_size:
        size = left
    elif not SMALLEST <= size <= left:
        return Refused("TOTALSIZE", start, size)
    if not 0 <= body_len <= size - SMALLEST:
        return Refused("BODYLENGTH", start + 16, body_len)
    at = start + HEAD.size
    content = body[at : at + body_len]
    at += body_len
    (properties_len,) = struct.unpack_from(">h", body, at)
    room = size - SMALLEST - body_len
    if not 0 <= properties_len <= room:
        return Refused("PROPERTIESLENGTH", at, properties_len)
    if check_size and properties_len != room:
        return Refused("TOTALSIZE", start, size)
    end = at + 2 + properties_len
    return Inner(flag, content, body[at + 2 : end]), end
