"""What a careful program in Python alone does with records: `struct` and `zlib`, each format compiled once, nothing done twice.

`bench.codec_benches` sets it beside `rmqcore.codec`. It refuses what ours refuses where something wrong would be written or read:
separators in properties, a magic, lengths that do not add up. A function that takes a record apart calls none, for speed.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from zlib import crc32

_HEAD = struct.Struct(">iIIiiqqiq8sq8siqi")  # TOTALSIZE to BODYLENGTH, both hosts IPv4
_HEAD_SIZE = 88
_U16 = struct.Struct(">H")
_BYTES = [bytes((length,)) for length in range(128)]
_ID = struct.Struct(">4siq")
_INNER = struct.Struct(">iIIii")
_MAGIC, _MAGIC_V2 = 0xDAA320A7, 0xDAA320AB
_HOSTS_V6 = 0x30

Head = tuple[int | bytes, ...]


@dataclass(slots=True)
class PlainMessage:
    """What a record is made of. Its hosts are packed: a program has one or two of them."""

    topic: str
    body: bytes
    properties: dict[str, str]
    queue_id: int
    flag: int = 0
    sys_flag: int = 0
    born_host: bytes = b"\x7f\x00\x00\x01\x00\x00\x00\x00"
    store_host: bytes = b"\x7f\x00\x00\x01\x00\x00\x00\x00"
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0


def encode(
    message: PlainMessage, phy_offset: int, queue_offset: int, store_timestamp_ms: int
) -> bytes:
    topic, body = message.topic.encode(), message.body
    properties = encode_properties(message.properties)
    size = _HEAD_SIZE + len(body) + 1 + len(topic) + 2 + len(properties)
    if len(topic) < 128:
        magic, length = _MAGIC, _BYTES[len(topic)]
    else:
        magic, length, size = _MAGIC_V2, _U16.pack(len(topic)), size + 1
    head = _HEAD.pack(
        size,
        magic,
        crc32(body) & 0x7FFFFFFF,
        message.queue_id,
        message.flag,
        queue_offset,
        phy_offset,
        message.sys_flag,
        store_timestamp_ms,
        message.born_host,
        store_timestamp_ms,
        message.store_host,
        message.reconsume_times,
        message.prepared_transaction_offset,
        len(body),
    )
    return b"".join((head, body, length, topic, _U16.pack(len(properties)), properties))


def encode_many(messages: list[PlainMessage], phy_offset: int, store_timestamp_ms: int) -> bytes:
    """Records one after the other; those of a queue count up."""
    records = []
    counts: dict[tuple[str, int], int] = {}
    for message in messages:
        queue = message.topic, message.queue_id
        queue_offset = counts.get(queue, 0)
        counts[queue] = queue_offset + 1
        record = encode(message, phy_offset, queue_offset, store_timestamp_ms)
        phy_offset += len(record)
        records.append(record)
    return b"".join(records)


def decode(buf: bytes, pos: int) -> tuple[Head, str, bytes, dict[str, str]]:
    """The numbers of a record, its topic, its body and its properties."""
    head = _HEAD.unpack_from(buf, pos)
    size, magic, sys_flag, body_size = head[0], head[1], head[7], head[14]
    end = pos + size
    body = pos + _HEAD_SIZE
    topic = body + body_size + 1
    if body_size < 0 or topic > end or end > len(buf):
        raise ValueError(f"lengths at {pos}")
    if magic == _MAGIC and not sys_flag & _HOSTS_V6:
        topic_end = topic + buf[topic - 1]
    else:
        raise ValueError(
            f"the record at {pos} is not of version 1 with IPv4 hosts, which this program reads"
        )
    properties = topic_end + 2
    if properties > end or properties + _U16.unpack_from(buf, topic_end)[0] != end:
        raise ValueError(f"lengths at {pos}")
    return (
        head,
        buf[topic:topic_end].decode(),
        buf[body : body + body_size],
        decode_properties(buf[properties:end]),
    )


def decode_all(buf: bytes) -> list[tuple[Head, int, int, int, int]]:
    """A tuple of each record: its numbers, and where body, topic and properties lie. Nothing of these is copied or decoded."""
    unpack, unpack_length = _HEAD.unpack_from, _U16.unpack_from
    found = []
    pos, size_of_all = 0, len(buf)
    while pos < size_of_all:
        head = unpack(buf, pos)
        size, magic, sys_flag, body_size = head[0], head[1], head[7], head[14]
        end = pos + size
        body = pos + _HEAD_SIZE
        topic = body + body_size + 1
        if body_size < 0 or topic > end or end > size_of_all:
            raise ValueError(f"lengths at {pos}")
        if magic == _MAGIC and not sys_flag & _HOSTS_V6:
            topic_end = topic + buf[topic - 1]
        else:
            raise ValueError(
                f"the record at {pos} is not of version 1 with IPv4 hosts, which this program reads"
            )
        properties = topic_end + 2
        if properties > end or properties + unpack_length(buf, topic_end)[0] != end:
            raise ValueError(f"lengths at {pos}")
        found.append((head, body, topic, topic_end, end))
        pos = end
    return found


def decode_all_read(buf: bytes) -> list[tuple[Head, str, bytes, dict[str, str]]]:
    """The numbers, the topic, the body and the properties of each record."""
    found = []
    pos, size = 0, len(buf)
    while pos < size:
        record = decode(buf, pos)
        found.append(record)
        pos += record[0][0]  # type: ignore[operator]
    return found


def encode_properties(properties: dict[str, str]) -> bytes:
    text = ""
    for name, value in properties.items():
        if "\x01" in name or "\x02" in name or "\x02" in value:
            raise ValueError(f"property {name!r}={value!r} holds a separator")
        text += f"{name}\x01{value}\x02"  # a third quicker than a list that is joined
    return text.encode()


def decode_properties(buf: bytes) -> dict[str, str]:
    properties = {}
    for pair in buf.decode("utf-8", "replace").split("\x02"):
        if pair:
            name, _, value = pair.partition("\x01")
            if name and value:
                properties[name] = value
    return properties


def java_hash(text: str) -> int:
    found = 0
    for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"):
        found = 31 * found + unit & 0xFFFFFFFF
    return found - (found >> 31 << 32)


def index_key_hash(topic: str, key: str) -> int:
    found = abs(java_hash(f"{topic}#{key}"))
    return 0 if found == 1 << 31 else found


def msg_id(store_host: str, phy_offset: int) -> str:
    host, _, port = store_host.rpartition(":")
    return _ID.pack(socket.inet_aton(host), int(port), phy_offset).hex().upper()


def parse_msg_id(text: str) -> tuple[str, int]:
    host, port, phy_offset = _ID.unpack(bytes.fromhex(text))
    return f"{socket.inet_ntoa(host)}:{port}", phy_offset


def encode_batch(messages: list[PlainMessage]) -> bytes:
    """What a producer sends as the body of many messages."""
    parts: list[bytes] = []
    for message in messages:
        body, properties = message.body, encode_properties(message.properties)
        size = _INNER.size + len(body) + 2 + len(properties)
        parts += (
            _INNER.pack(size, 0, 0, message.flag, len(body)),
            body,
            _U16.pack(len(properties)),
            properties,
        )
    return b"".join(parts)


def decode_batch(buf: bytes) -> list[tuple[int, bytes, dict[str, str]]]:
    found = []
    pos, size_of_all = 0, len(buf)
    while pos < size_of_all:
        size, _, _, flag, body_size = _INNER.unpack_from(buf, pos)
        body = pos + _INNER.size
        body_end = body + body_size
        properties = body_end + 2
        end = pos + size
        if body_size < 0 or properties > end or end > size_of_all:
            raise ValueError(f"lengths at {pos}")
        if properties + _U16.unpack_from(buf, body_end)[0] != end:
            raise ValueError(f"lengths at {pos}")
        found.append((flag, buf[body:body_end], decode_properties(buf[properties:end])))
        pos = end
    return found
