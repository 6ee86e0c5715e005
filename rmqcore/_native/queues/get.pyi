from collections.abc import Iterator
from typing import Any, Self, final

from rmqcore._native.files.mapped_file import MappedFiles
from rmqcore._native.format.codec import DelayLevels, MessageView
from rmqcore._native.queues.consume_queue import ConsumeQueue
from rmqcore._native.queues.tag_filter import TagFilter
from rmqcore.vocabulary.status import GetMessageStatus

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
    def compacted_log(self) -> str: ...
    @property
    def suggest_pulling_from_slave(self) -> bool: ...
    def bodies(self) -> list[bytes]: ...
    def buffers(self) -> list[memoryview]: ...
    def release(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[MessageView]: ...
    def _repr_html_(self) -> str: ...

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
def get_warm_messages(
    queue: ConsumeQueue | None,
    files: MappedFiles,
    max_phy_offset: int,
    queue_offset: int,
    max_messages: int,
    tags: TagFilter | None,
    max_bytes: int | None,
    config: Any,
    delay_levels: DelayLevels,
    held_from: int,
) -> GetResult | None: ...
def read_in_messages(
    queue: ConsumeQueue | None,
    files: MappedFiles,
    max_phy_offset: int,
    queue_offset: int,
    max_messages: int,
    tags: TagFilter | None,
    max_bytes: int | None,
    config: Any,
    delay_levels: DelayLevels,
) -> None: ...
