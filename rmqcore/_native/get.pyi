from collections.abc import Iterator
from typing import Any, Final, Self, final

from rmqcore._native.codec import DelayLevels, MessageView
from rmqcore._native.mapped_file import MappedFiles
from rmqcore._native.queues import ConsumeQueue
from rmqcore.status import GetMessageStatus

MAX_BYTES: Final[int]
LEAST_BYTES: Final[int]
LAST_EXT_ADDRESS: Final[int]

@final
class TagFilter:
    def __new__(cls, expression: str | None = None) -> Self: ...
    @property
    def codes(self) -> frozenset[int] | None: ...
    def matches(self, tags_code: int) -> bool: ...

@final
class GetLimits:
    # A MessageStoreConfig, which these modules do not know.
    def __new__(cls, config: Any, memory_bytes: int | None = None) -> Self: ...

@final
class GetResult:
    @property
    def status(self) -> GetMessageStatus: ...
    @property
    def next_begin_offset(self) -> int: ...
    @property
    def min_offset(self) -> int: ...
    @property
    def max_offset(self) -> int: ...
    @property
    def buffer_total_size(self) -> int: ...
    @property
    def messages(self) -> list[MessageView]: ...
    @property
    def suggest_pulling_from_slave(self) -> bool: ...
    def release(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[MessageView]: ...

def get_messages(
    queue: ConsumeQueue | None,
    files: MappedFiles,
    max_phy_offset: int,
    queue_offset: int,
    max_messages: int,
    tags: TagFilter | None,
    max_bytes: int | None,
    config: Any,
    delay_levels: DelayLevels,
) -> GetResult: ...
