from collections.abc import Sequence
from typing import Final, NamedTuple, Self, final

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

INDEX_ENTRY_DTYPE: Final[np.dtype[np.void]]
FIELDS: Final[dict[int, str]]

class IndexHeader(NamedTuple):
    begin_timestamp_ms: int
    end_timestamp_ms: int
    begin_phy_offset: int
    end_phy_offset: int
    hash_slot_count: int
    index_count: int

class IndexFinding(NamedTuple):
    entry_index: int
    field: str
    expected: int
    found: int

def decode_header(buf: Buffer) -> IndexHeader: ...
def encode_header(fields: Sequence[int]) -> bytes: ...
def time_matched(header: IndexHeader, begin_ms: int, end_ms: int) -> bool: ...

@final
class ChainWalk:
    def __new__(
        cls,
        header: IndexHeader,
        hash_: int,
        slot_value: int,
        begin_ms: int,
        end_ms: int,
        slots: int = 0,
    ) -> Self: ...
    @property
    def next_index(self) -> int: ...
    @property
    def broken_index(self) -> int: ...
    @property
    def stray_index(self) -> int: ...
    @property
    def before_stray(self) -> int: ...
    def step(self, window: Buffer, first_index: int, limit: int) -> list[int]: ...

@final
class IndexCheck:
    def __new__(cls, heads: npt.NDArray[np.int32], limit: int) -> Self: ...
    @property
    def findings(self) -> list[IndexFinding]: ...
    @property
    def finding_count(self) -> int: ...
    @property
    def next_index(self) -> int: ...
    @property
    def last_phy_offset(self) -> int | None: ...
    @property
    def used_slots(self) -> int: ...
    def entries(self, buf: Buffer) -> None: ...
    def slots(self, buf: Buffer, first_slot: int) -> None: ...
