from collections.abc import Iterable, Mapping

from typing_extensions import Buffer

from rmqcore._native.put.message import Message

def encode(
    message: Message,
    *,
    phy_offset: int,
    queue_offset: int,
    store_timestamp_ms: int,
    append_prop_crc: bool = False,
) -> bytes: ...
def encode_into(
    buffer: Buffer,
    pos: int,
    message: Message,
    *,
    phy_offset: int,
    queue_offset: int,
    store_timestamp_ms: int,
    append_prop_crc: bool = False,
) -> int: ...
def encode_many(
    messages: Iterable[Message] | object,
    *,
    phy_offset: int,
    store_timestamp_ms: int,
    queue_offset: int = 0,
    append_prop_crc: bool = False,
) -> bytes: ...
def encode_properties(properties: Mapping[str, str | None]) -> bytes: ...
def encode_batch(messages: Iterable[Message]) -> bytes: ...
