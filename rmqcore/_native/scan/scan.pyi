from collections.abc import Iterable
from typing import Final, Self

from typing_extensions import Buffer

from rmqcore._native.format.codec import DelayLevels, MessageView
from rmqcore._native.scan.batch import Batch, ColumnList
from rmqcore._native.scan.filter import Filter
from rmqcore._native.scan.places import Place
from rmqcore._native.scan.skips import Skips

END: Final[int]
FULL: Final[int]
STOP: Final[int]
DEFAULT_DELAY_LEVELS: Final[DelayLevels]

class _Scan: ...

class ColumnScan(_Scan):
    def __new__(
        cls,
        columns: ColumnList | Iterable[str] | None = None,
        *,
        filter: Filter | None = None,
        delay_levels: DelayLevels | None = None,
        stop_offset: int | None = None,
        batch_rows: int = 8192,
        batch_bytes: int = ...,
        topic_room: int | None = None,
    ) -> Self: ...
    @property
    def columns(self) -> ColumnList: ...
    @property
    def numbering(self) -> int: ...
    def end_batch(self) -> None: ...
    @property
    def pending_rows(self) -> int: ...
    def feed(
        self,
        buf: Buffer,
        length: int,
        pos: int,
        phy_offset: int,
        end_offset: int,
        *,
        check_place: bool = True,
        check_crc: bool = True,
        trusted: int = -1,
        skips: Skips | None = None,
    ) -> Place: ...
    def take(self) -> Batch: ...
    def topics(self, first: int = 0) -> list[str]: ...
    def tags(self, first: int = 0) -> list[str]: ...

class ViewScan(_Scan):
    def __new__(
        cls,
        *,
        filter: Filter | None = None,
        delay_levels: DelayLevels | None = None,
        stop_offset: int | None = None,
        batch_views: int = 1024,
        most_copied: int = ...,
    ) -> Self: ...
    @property
    def pending_rows(self) -> int: ...
    def feed(
        self,
        buf: Buffer,
        length: int,
        pos: int,
        phy_offset: int,
        end_offset: int,
        *,
        check_place: bool = True,
        check_crc: bool = True,
        trusted: int = -1,
        skips: Skips | None = None,
    ) -> Place: ...
    def take(self) -> list[MessageView]: ...
