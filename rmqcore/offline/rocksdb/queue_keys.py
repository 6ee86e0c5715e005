"""Keys and values of queues in RocksDB.

Column family ``default``: an entry of a queue.

* key: topic length int, 01, topic, 01, queue id int, 01, queue offset long
* value: phy offset long, size int, tags code long, store timestamp long

Column family ``offset``: the last and the first entry of a queue.

* key: topic length int, 01, topic, 01, ``max`` or ``min``, 01, queue id int
* value: phy offset long, queue offset long

All numbers are big-endian. The first 20 bytes of an entry's value are an entry of a queue file. Topic ``CHECKPOINT_TOPIC`` has no
queue: its value is the CommitLog offset up to which all messages have entries.

Source: RocketMQ 5.5.0 RocksDBConsumeQueueTable, RocksDBConsumeQueueOffsetTable.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from rmqcore._native.format.layout import CQ_STORE_UNIT_SIZE

ENTRIES = "default"
OFFSETS = "offset"
MAX, MIN = b"max", b"min"
CHECKPOINT_TOPIC = "CHECKPOINT_TOPIC"
VALUE_SIZE = CQ_STORE_UNIT_SIZE + 8
_INT, _LONG, _TWO_LONGS = struct.Struct(">i"), struct.Struct(">q"), struct.Struct(">qq")


class Edge(NamedTuple):
    """The first or the last entry of a queue, from column family ``offset``."""

    phy_offset: int
    queue_offset: int


def entry_prefix(topic: str, queue_id: int) -> bytes:
    """Return the common start of the keys of a queue's entries."""
    name = topic.encode()
    return b"%b\x01%b\x01%b\x01" % (_INT.pack(len(name)), name, _INT.pack(queue_id))


def entry_key(prefix: bytes, queue_offset: int) -> bytes:
    """Return the key of an entry."""
    return prefix + _LONG.pack(queue_offset)


def queue_offset_of(key: bytes) -> int:
    """Return the queue offset in the key of an entry."""
    return int(_LONG.unpack(key[-8:])[0])


def times_of(value: bytes) -> tuple[int, int]:
    """Return CommitLog offset and store timestamp in the value of an entry."""
    return int(_LONG.unpack(value[:8])[0]), int(_LONG.unpack(value[-8:])[0])


def edge_key(topic: str, queue_id: int, which: bytes) -> bytes:
    """Return the key of a queue's first or last entry; `which` is `MIN` or `MAX`."""
    name = topic.encode()
    return b"%b\x01%b\x01%b\x01%b" % (_INT.pack(len(name)), name, which, _INT.pack(queue_id))


def edge_of(value: bytes | None) -> Edge | None:
    """Return the entry in a value of column family ``offset``; None for a value of another length."""
    return None if value is None or len(value) != 16 else Edge(*_TWO_LONGS.unpack(value))


def queue_of_edge(key: bytes) -> tuple[str, int, bytes] | None:
    """Return topic, queue id, and `MIN` or `MAX` from a key of column family ``offset``; None for any other key."""
    if len(key) < 14:
        return None
    length = _INT.unpack(key[:4])[0]
    if length < 0 or len(key) != 14 + length:
        return None
    which = key[6 + length : 9 + length]
    if (key[4], key[5 + length], key[9 + length]) != (1, 1, 1) or which not in (MAX, MIN):
        return None
    try:
        topic = key[5 : 5 + length].decode()
    except UnicodeDecodeError:
        return None
    return topic, int(_INT.unpack(key[-4:])[0]), which
