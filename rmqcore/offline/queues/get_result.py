"""OfflineGetResult: what a reader answers to a get, with all that an open store's `GetResult` has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

from rmqcore._native.format.codec import MessageView
from rmqcore.shown.notebook import get_html
from rmqcore.vocabulary.status import GetMessageStatus


@dataclass(frozen=True, slots=True, repr=False)
class OfflineGetResult:
    """The answer of a get.

    Each message holds its own copy of its record: nothing is mapped, and `release` only lets go of the messages.

    Attributes
    ----------
    status : GetMessageStatus
    next_begin_offset : int
        Queue offset of the next get.
    min_offset, max_offset : int
        The queue's bounds; the maximum is the offset after its last entry.
    buffer_total_size : int
        Bytes of all records in `messages`.
    messages : list of MessageView
    compacted_log : str
        Directory of the log that the answer comes from, if the topic is compacted: places of the messages are bytes of that log.
        Empty if it comes from the CommitLog.
    """

    status: GetMessageStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    buffer_total_size: int = 0
    messages: list[MessageView] = field(default_factory=list)
    compacted_log: str = ""

    @property
    def suggest_pulling_from_slave(self) -> bool:
        """False: a reader counts every message as in memory."""
        return False

    def bodies(self) -> list[bytes]:
        """The bodies of all messages as stored."""
        return [view.body for view in self.messages]

    def buffers(self) -> list[memoryview]:
        """The records as views of bytes; neighbours in the log are one view."""
        runs: list[list[bytes]] = []
        end = -1
        for view in self.messages:
            if view.phy_offset != end:
                runs.append([])
            runs[-1].append(view.raw)
            end = view.phy_offset + view.msg_size
        return [memoryview(b"".join(run)) for run in runs]

    def release(self) -> None:
        """Release the messages; views that are held elsewhere stay valid."""
        object.__setattr__(self, "messages", [])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[MessageView]:
        return iter(self.messages)

    def _repr_html_(self) -> str:
        return get_html(self)

    def __repr__(self) -> str:
        return (
            f"<OfflineGetResult {self.status} of {len(self)} messages, {self.buffer_total_size} bytes, "
            f"next_begin_offset={self.next_begin_offset}>"
        )
