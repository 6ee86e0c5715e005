"""Queries by key over all IndexFiles of a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rmqcore._native.codec import MessageView
from rmqcore._native.index import key_hash
from rmqcore.offline.index_files import IndexFileReader

INDEX_TYPES = (None, "K", "U", "T")
TAG_PREFIX = "T#"


@dataclass(frozen=True, slots=True)
class IndexAnswer:
    """What the index files say.

    Attributes
    ----------
    phy_offsets : list of int
        Ascending; hash collisions are among them, and an offset can be there twice.
    last_update_timestamp_ms, last_update_phy_offset : int
        The end of the newest file; both 0 when nothing was found, as in Java.
    """

    phy_offsets: list[int]
    last_update_timestamp_ms: int
    last_update_phy_offset: int


def query_offsets(
    files: Sequence[IndexFileReader],
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
    text = TAG_PREFIX + key if index_type == "T" else key
    wanted = key_hash(topic, text)
    found: list[int] = []
    for file in reversed(files):
        begin, end = file.header.begin_timestamp_ms, file.header.end_timestamp_ms
        if (
            (begin_ms < begin and end_ms > end)
            or begin <= begin_ms <= end
            or begin <= end_ms <= end
        ):
            found += file.find(wanted, begin_ms, end_ms, limit - len(found))
        if begin < begin_ms or len(found) >= limit:
            break
    if not found:
        return IndexAnswer([], 0, 0)
    newest = files[-1].header
    return IndexAnswer(sorted(found), newest.end_timestamp_ms, newest.end_phy_offset)


def has_key(message: MessageView, topic: str, key: str, index_type: str | None) -> bool:
    """Tell whether a message was indexed under this very key, not one with the same hash."""
    if message.topic != topic:
        return False
    if index_type == "T":
        return message.tags == key
    if index_type == "K":
        return key in message.keys
    if index_type == "U":
        return message.uniq_key == key
    return key == message.uniq_key or key in message.keys or key == f"{TAG_PREFIX}{message.tags}"
