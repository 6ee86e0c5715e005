from collections.abc import Iterator
from typing import ClassVar, final, overload

from rmqcore._native.files.mapped_file import MappedFiles
from rmqcore._native.format.codec import DelayLevels, MessageView
from rmqcore._native.index.mapped_index import IndexFiles
from rmqcore._native.put.appender import Appender

@final
class QueryResult:
    @property
    def messages(self) -> list[MessageView]: ...
    @property
    def index_last_update_timestamp_ms(self) -> int: ...
    @property
    def index_last_update_phy_offset(self) -> int: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[MessageView]: ...
    @overload
    def __getitem__(self, at: int, /) -> MessageView: ...
    @overload
    def __getitem__(self, at: slice, /) -> list[MessageView]: ...
    def __eq__(self, value: object, /) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]
    def _repr_html_(self) -> str: ...

def query_messages(
    index: IndexFiles,
    files: MappedFiles,
    appender: Appender,
    levels: DelayLevels,
    topic: str,
    key: str,
    limit: int,
    begin_ms: int,
    end_ms: int,
    index_type: str | None,
) -> QueryResult: ...
