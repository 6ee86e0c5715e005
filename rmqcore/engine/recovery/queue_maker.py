"""All queues of a store that has none, made while recovery's scan goes over the log: the log is read once less.

They are the queues that dispatch would make, one batch after the other, so a kill in the middle leaves what it leaves of a
dispatch. Where the log turns out to be one that dispatch cannot make them from, they are taken away again.
"""

from __future__ import annotations

from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.engine.queues.consume_queues import ConsumeQueues

MAKING_ROWS = 32768
"""Records of a batch: each costs a write for each of its queues, and all of it should stay in a core's cache."""


class QueueMaker:
    """Writes the records of a scan into queues, each queue's in order from queue offset 0 on.

    Attributes
    ----------
    made : bool
        Queues have all records that were taken.
    """

    def __init__(self, queues: ConsumeQueues) -> None:
        self.made = False
        self._queues = queues

    def take(self, scan: ColumnScan, batch: Batch) -> None:
        """Write the entries of the next batch's records.

        Raises
        ------
        OSError
            A file cannot be made or written.
        """
        self._queues.put_batch(scan, batch, 0, -1)
        self.made = True

    def stop(self) -> None:
        """Delete what was made; later batches are ignored.

        Raises
        ------
        OSError
            A file cannot be deleted.
        """
        if self.made:
            self.made = False
            self._queues.destroy_all()
