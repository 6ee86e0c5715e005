from collections.abc import Sequence
from typing import Final, NamedTuple, Self, final

import numpy as np
import numpy.typing as npt

from rmqcore._native.queues.queue_table import QueueTable
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan

DIFFERS: Final[int]
HELD: Final[int]
BACK: Final[int]
REFUSED: Final[int]
TAGS: Final[int]
EXT_ADDRESS_MAX: Final[int]

class SeenQueue(NamedTuple):
    topic: str
    queue_id: int
    rows: int
    first: int
    last: int
    first_phy: int
    last_phy: int
    last_end: int
    low: int
    low_phy: int
    backs: int
    since: int
    prev_first: int
    prev_last: int
    prev_first_phy: int
    prev_last_phy: int
    prev_last_end: int
    prev_low: int
    prev_low_phy: int

@final
class QueueCompare:
    def __new__(
        cls, table: QueueTable, *, with_ext: bool = False, none_held: bool = False
    ) -> Self: ...
    def __len__(self) -> int: ...
    def compare_batch(
        self, scan: ColumnScan, batch: Batch
    ) -> tuple[int, npt.NDArray[np.uint8], npt.NDArray[np.int32]]: ...
    def compare_entries(
        self,
        topics: Sequence[str],
        queue_ids: npt.NDArray[np.int32],
        queue_offsets: npt.NDArray[np.int64],
        entries: npt.NDArray[np.void],
    ) -> tuple[int, npt.NDArray[np.uint8], npt.NDArray[np.int32]]: ...
    def restart(self) -> None: ...
    def seen(self, number: int) -> SeenQueue: ...

def write_entries(
    table: QueueTable, topic: str, queue_id: int, queue_offset: int, entries: npt.NDArray[np.void]
) -> None: ...
