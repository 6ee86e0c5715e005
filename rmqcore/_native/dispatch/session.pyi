from collections.abc import Collection
from typing import Final, Self, final

from typing_extensions import Buffer

from rmqcore._native.index.mapped_index import MappedIndexFile
from rmqcore._native.put.appender import Appender
from rmqcore._native.queues.queue_table import QueueTable
from rmqcore._native.scan.scan import ColumnScan
from rmqcore._native.threads.bell import Bell

END: Final[int]
IDLE: Final[int]
TIME: Final[int]
RUNG: Final[int]
LEFT: Final[int]

@final
class Dispatched:
    def __new__(cls) -> Self: ...
    cq_from: int
    index_from: int
    last_phy_offset: int
    last_store_timestamp_ms: int
    @property
    def sessions(self) -> int: ...
    @property
    def batches(self) -> int: ...
    def run(
        self,
        scan: ColumnScan,
        window: tuple[Buffer, int, int],
        table: QueueTable,
        covered_from: int,
        index: MappedIndexFile | None = None,
        index_alarm: int = 0,
        *,
        log: Appender | None = None,
        bell: Bell | None = None,
        end_offset: int = 0,
        far_behind: int,
        heard: Collection[str] = (),
    ) -> int: ...
