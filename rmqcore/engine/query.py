"""Messages by key: offsets from the index, records from the CommitLog."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rmqcore._native.codec import MessageView
from rmqcore.engine.index_service import IndexService


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The answer of a query.

    Attributes
    ----------
    messages : list of MessageView
        By phy offset. As in Java an other key with the same hash can be among them, and a record twice that has the key twice.
    index_last_update_timestamp_ms, index_last_update_phy_offset : int
        The end of the newest index file; both 0 when the index has no entry, as in Java.
    """

    messages: list[MessageView] = field(default_factory=list)
    index_last_update_timestamp_ms: int = 0
    index_last_update_phy_offset: int = 0


def query_messages(
    index: IndexService,
    view_at: Callable[[int], MessageView | None],
    topic: str,
    key: str,
    max_messages: int,
    begin_ms: int,
    end_ms: int,
    index_type: str | None,
) -> QueryResult:
    """Find messages by key, newest first chosen, in physical order.

    Entries whose records are gone are left out.

    Source: RocketMQ 5.5.0 DefaultMessageStore#queryMessage. Its second and third round ask the same again, because they go on
    before the store time of a record that is not there.
    """
    found = index.query_offsets(topic, key, max_messages, begin_ms, end_ms, index_type)
    if not found.phy_offsets:
        return QueryResult()
    views = [view for offset in found.phy_offsets if (view := view_at(offset)) is not None]
    return QueryResult(views, found.last_update_timestamp_ms, found.last_update_phy_offset)
