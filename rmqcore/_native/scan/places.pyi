from collections.abc import Sequence
from typing import Final, final

from typing_extensions import Buffer

BLANK: Final[int]
SHORT: Final[int]
ZERO: Final[int]
BODYCRC: Final[int]
PAST_FILE: Final[int]
SHORT_FILE: Final[int]
BLANKSIZE: Final[int]
PROPCRC: Final[int]
PHYSICALOFFSET: Final[int]
NOTHING: Final[int]
COSTLY: Final[int]
DLEDGER_PAST: Final[int]
DLEDGER_BODY: Final[int]
DLEDGER_HEAD: Final[int]
DLEDGER_NEED: Final[int]
SPLIT_MORE: Final[int]
SPLIT_ODD: Final[int]
SPLIT_NOTHING: Final[int]

@final
class Place:
    def __init__(
        self, pos: int, code: int, *, size: int = 0, found: int = 0, expected: int = 0
    ) -> None: ...
    @property
    def pos(self) -> int: ...
    @property
    def code(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def found(self) -> int: ...
    @property
    def expected(self) -> int: ...
    @property
    def is_blank(self) -> bool: ...
    def describe(self) -> tuple[str, object, object]: ...
    def moved(self, by: int) -> Place: ...

def step(buf: Buffer, length: int, pos: int, phy_offset: int, end_offset: int) -> Place: ...
def dledger_step(buf: Buffer, length: int, pos: int, phy_offset: int, end_offset: int) -> Place: ...
def find(buf: Buffer, length: int, pos: int, phy_offset: int, end_offset: int) -> Place: ...
def find_within(
    buf: Buffer, length: int, pos: int, phy_offset: int, end_offset: int, credit: int
) -> tuple[Place, int]: ...
def split_start(
    buf: Buffer,
    length: int,
    boundary: int,
    phy_offset: int,
    end_offset: int,
    max_record_size: int,
    *,
    anchored: bool = False,
    dledger: bool = False,
) -> int: ...
def used_bytes(buf: Buffer, length: int) -> int: ...

@final
class Gaps:
    def __init__(self, bounds: Sequence[tuple[int, int]] = ()) -> None: ...
    def __len__(self) -> int: ...

def prop_crc_failures(
    buf: Buffer,
    begin: int,
    end: int,
    limit: int,
    *,
    required: bool = False,
    gaps: Gaps | None = None,
) -> tuple[int, int, list[tuple[int, int, int]]]: ...
def multi_dispatch_records(
    buf: Buffer, begin: int, end: int, *, gaps: Gaps | None = None
) -> list[tuple[int, str, str]]: ...
