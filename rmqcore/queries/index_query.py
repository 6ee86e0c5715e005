"""Queries by key over all IndexFiles of a store, and the check that a record found has the key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rmqcore._native.format.codec import MessageView
from rmqcore._native.index.index_reader import IndexHeader, time_matched
from rmqcore._native.index.mapped_index import IndexAnswer
from rmqcore.codec import index_key_hash

__all__ = [
    "INDEX_TYPES",
    "TAG_PREFIX",
    "TAG_TYPE",
    "IndexAnswer",
    "has_key",
    "has_key_hash",
    "hash_of",
    "query_offsets",
]

INDEX_TYPES = (None, "K", "U", "T")
TAG_TYPE = "T"
TAG_PREFIX = "T#"


class SearchableIndexFile(Protocol):
    """An index file that is read, not mapped; `rmqcore._native.index.mapped_index.IndexFiles` searches mapped ones."""

    @property
    def header(self) -> IndexHeader:
        """The header of the file."""

    def find(self, key_hash: int, begin_ms: int, end_ms: int, limit: int) -> list[int]:
        """Return the phy offsets of entries with a hash, newest first."""


def query_offsets(
    files: Sequence[SearchableIndexFile],
    topic: str,
    key: str,
    limit: int,
    begin_ms: int,
    end_ms: int,
    index_type: str | None,
) -> IndexAnswer:
    """Find at most `limit` entries of a key, from the newest file and the newest entry on.

    Source: RocketMQ 5.5.0 IndexService#queryOffset, DefaultMessageStore#queryMessage.
    """
    wanted = hash_of(topic, key, index_type)
    found: list[int] = []
    for file in reversed(files):
        header = file.header
        if time_matched(header, begin_ms, end_ms):
            found += file.find(wanted, begin_ms, end_ms, limit - len(found))
        if header.begin_timestamp_ms < begin_ms or len(found) >= limit:
            break
    if not found:
        return IndexAnswer([], 0, 0)
    newest = files[-1].header
    return IndexAnswer(sorted(found), newest.end_timestamp_ms, newest.end_phy_offset)


def hash_of(topic: str, key: str, index_type: str | None) -> int:
    """Return the hash under which an index file has a key."""
    return index_key_hash(topic, TAG_PREFIX + key if index_type == TAG_TYPE else key)


def has_key_hash(message: MessageView, key_hash: int) -> bool:
    """Return whether a message has any key, id or tag with a hash: otherwise no entry with the hash is of this message."""
    texts = [*message.keys, f"{TAG_PREFIX}{message.tags}"]
    if message.uniq_key is not None:
        texts.append(message.uniq_key)
    return any(index_key_hash(message.topic, text) == key_hash for text in texts)


def has_key(message: MessageView, topic: str, key: str, index_type: str | None) -> bool:
    """Return whether a message was indexed under this key, not under another key with the same hash."""
    if message.topic != topic:
        return False
    if index_type == TAG_TYPE:
        return message.tags == key
    if index_type == "K":
        return key in message.keys
    if index_type == "U":
        return message.uniq_key == key
    return key == message.uniq_key or key in message.keys or key == f"{TAG_PREFIX}{message.tags}"
