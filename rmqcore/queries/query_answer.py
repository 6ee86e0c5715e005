"""QueryAnswer: a reader's result of a query, with the attributes of an open store's `QueryResult`."""

from __future__ import annotations

from collections.abc import Iterable

from rmqcore._native.format.codec import MessageView
from rmqcore.shown.notebook import query_html


class QueryAnswer(list[MessageView]):
    """The messages of a query, a list.

    Attributes
    ----------
    messages : list of MessageView
        The same messages.
    index_last_update_timestamp_ms, index_last_update_phy_offset : int
        The end of the newest index file; both 0 when the index has no entry.
    missing_phy_offsets : list of int
        CommitLog offsets that entries of the key's hash name, but where the log has no record: it was deleted or
        damaged since, or the index belongs to another log.
    unasked_files : list of str
        Index files whose entries cannot all be found, files of another log, and messages whose keys no file has, each
        with the reason: the result may lack messages.
    """

    def __init__(
        self,
        messages: Iterable[MessageView] = (),
        index_last_update_timestamp_ms: int = 0,
        index_last_update_phy_offset: int = 0,
        missing_phy_offsets: Iterable[int] = (),
        unasked_files: Iterable[str] = (),
    ) -> None:
        super().__init__(messages)
        self.index_last_update_timestamp_ms = index_last_update_timestamp_ms
        self.index_last_update_phy_offset = index_last_update_phy_offset
        self.missing_phy_offsets = list(missing_phy_offsets)
        self.unasked_files = list(unasked_files)

    @property
    def messages(self) -> list[MessageView]:
        """The messages, by phy offset."""
        return self

    def _repr_html_(self) -> str:
        return query_html(self)
