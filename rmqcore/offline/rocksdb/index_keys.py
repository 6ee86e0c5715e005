"""Keys and values of the index in RocksDB, column family ``default``.

* key of an entry: hour long, ``@``, topic, ``@``, ``K``, ``U`` or ``T``, ``@``, key, ``@``, UNIQ_KEY, ``@``, phy offset long
* value: store timestamp long
* ``lastOffsetPy``, ``lastStoreTimeStamp``: phy offset and store timestamp of the newest message, a long each

The hour is the store timestamp in milliseconds, rounded down to a whole hour. An entry of type ``U`` has no key of its own:
UNIQ_KEY stands in its place. All numbers are big-endian. Each of the texts may hold ``@``: a key can be read in several ways.

Source: RocketMQ 5.5.0 IndexRocksDBRecord, IndexRocksDBStore, MessageRocksDBStorage.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

ENTRIES = "default"
LAST_OFFSET = b"lastOffsetPy"
LAST_TIME = b"lastStoreTimeStamp"
SPLIT = b"@"
TYPES = (b"K", b"U", b"T")
HOUR_MS = 3_600_000
LONG = struct.Struct(">q")
SHORTEST = LONG.size + len(b"@t@U@u@") + LONG.size


class Row(NamedTuple):
    """The values of an entry.

    Attributes
    ----------
    phy_offset, store_timestamp_ms : int
    text : bytes
        The key without its hour and the phy offset: ``@topic@type@...@``.
    """

    phy_offset: int
    store_timestamp_ms: int
    text: bytes


def hour_key(hour_ms: int) -> bytes:
    """Return the common start of all keys of an hour."""
    return LONG.pack(hour_ms)


def hour_of(key: bytes) -> int | None:
    """Return the hour in the key of an entry; None for any other key."""
    if len(key) < SHORTEST or key[LONG.size : LONG.size + 1] != SPLIT:
        return None
    return int(LONG.unpack_from(key)[0])


def entry_text(topic: str, index_type: str, key: str) -> bytes:
    """Return the part of a key between its hour and the UNIQ_KEY (behind the UNIQ_KEY for type ``U``)."""
    return f"@{topic}@{index_type}@{key}@".encode()


def row_of(key: bytes, value: bytes) -> Row | None:
    """Return an entry; None if key or value are not those of an entry."""
    hour = hour_of(key)
    if hour is None or len(value) != LONG.size:
        return None
    text = key[LONG.size : -LONG.size]
    stored_ms = int(LONG.unpack(value)[0])
    if not text.endswith(SPLIT) or stored_ms // HOUR_MS * HOUR_MS != hour:
        return None
    if not any(SPLIT + one + SPLIT in text for one in TYPES):
        return None
    return Row(int(LONG.unpack(key[-LONG.size :])[0]), stored_ms, text)


def texts_of(topic: str, uniq_key: str, keys: Iterable[str], tags: str | None) -> set[bytes]:
    """Return the texts of all entries that RocketMQ makes of a message."""
    found = {f"@{topic}@K@{key}@{uniq_key}@" for key in keys if key}
    if tags:
        found.add(f"@{topic}@T@{tags}@{uniq_key}@")
    found.add(f"@{topic}@U@{uniq_key}@")
    return {text.encode() for text in found}
