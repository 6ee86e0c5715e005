"""Messages by key: offsets from the index, records from the CommitLog."""

from __future__ import annotations

from rmqcore._native.codec import MessageView
from rmqcore._native.commitlog import views_at
from rmqcore.engine.commitlog import CommitLog
from rmqcore.engine.index_service import IndexService


class QueryResult:
    """The answer of a query.

    Attributes
    ----------
    messages : list of MessageView
        By phy offset. As in Java another key with the same hash can be among them, and a record twice that has the key twice.
    index_last_update_timestamp_ms, index_last_update_phy_offset : int
        The end of the newest index file; both 0 when the index has no entry, as in Java.
    """

    __slots__ = ("index_last_update_phy_offset", "index_last_update_timestamp_ms", "messages")

    def __init__(self, messages: list[MessageView], timestamp_ms: int, phy_offset: int) -> None:
        self.messages = messages
        self.index_last_update_timestamp_ms = timestamp_ms
        self.index_last_update_phy_offset = phy_offset

    def __len__(self) -> int:
        return len(self.messages)

    def __repr__(self) -> str:
        return f"<QueryResult of {len(self.messages)} messages>"


def query_messages(
    index: IndexService,
    commitlog: CommitLog,
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
    log = commitlog
    views = views_at(log.files, found.phy_offsets, log.max_offset, log.delay_levels)
    return QueryResult(views, found.last_update_timestamp_ms, found.last_update_phy_offset)
