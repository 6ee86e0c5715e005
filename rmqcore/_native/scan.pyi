from collections.abc import Iterable
from typing import Final, Self, final

from typing_extensions import Buffer

from rmqcore._native.codec import DelayLevels, MessageView

BLANK: Final[int]
END: Final[int]
FULL: Final[int]
STOP: Final[int]
SHORT: Final[int]
ZERO: Final[int]
BODYCRC: Final[int]
PAST_FILE: Final[int]
SHORT_FILE: Final[int]
BLANKSIZE: Final[int]
PROPCRC: Final[int]
NOTHING: Final[int]
SPLIT_MORE: Final[int]
SPLIT_ODD: Final[int]
COLUMNS: Final[dict[str, int]]
PUBLIC_COLUMNS: Final[tuple[str, ...]]
DEFAULT_DELAY_LEVELS: Final[DelayLevels]

class Filter:
    def __new__(
        cls,
        *,
        topics: Iterable[str] | None = None,
        queue_ids: int | Iterable[int] | None = None,
        tags: Iterable[str] | None = None,
        keys: Iterable[str] | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
        start_phy_offset: int | None = None,
        end_phy_offset: int | None = None,
    ) -> Self: ...

class ColumnList:
    def __new__(cls, names: Iterable[str] | None = None) -> Self: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    def schema_capsule(self) -> object: ...

@final
class Batch:
    def __len__(self) -> int: ...
    @property
    def num_rows(self) -> int: ...
    @property
    def column_names(self) -> tuple[str, ...]: ...
    @property
    def nbytes(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...
    def buffer(self, name: str, part: str = "values") -> memoryview: ...

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
    ) -> Self: ...
    @property
    def columns(self) -> ColumnList: ...
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
    ) -> tuple[int, int, int, int]: ...
    def take(self) -> Batch: ...
    def topics(self, first: int = 0) -> list[str]: ...

class ViewScan(_Scan):
    def __new__(
        cls,
        *,
        filter: Filter | None = None,
        delay_levels: DelayLevels | None = None,
        stop_offset: int | None = None,
        batch_views: int = 1024,
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
    ) -> tuple[int, int, int, int]: ...
    def take(self) -> list[MessageView]: ...

def step(
    buf: Buffer, length: int, pos: int, phy_offset: int, end_offset: int
) -> tuple[int, int, int, int]: ...
def guesses(buf: Buffer, length: int, pos: int, phy_offset: int, end_offset: int) -> list[int]: ...
def find(
    buf: Buffer, length: int, pos: int, phy_offset: int, end_offset: int
) -> tuple[int, int, int]: ...
def split_start(
    buf: Buffer,
    length: int,
    boundary: int,
    phy_offset: int,
    end_offset: int,
    max_record_size: int,
    *,
    anchored: bool = False,
) -> int: ...
def used_bytes(buf: Buffer, length: int) -> int: ...
def prop_crc_failures(
    buf: Buffer, begin: int, end: int, limit: int, *, required: bool = False
) -> tuple[int, int, list[tuple[int, int, int]]]: ...
def multi_dispatch_records(buf: Buffer, begin: int, end: int) -> list[tuple[int, str, str]]: ...
def stream_capsule(batches: Iterable[Batch], columns: ColumnList) -> object: ...
