"""All queues of a store without queues, made during recovery's scan, which saves a second pass over the log.

Batch by batch they become the queues that dispatch would make, so a kill leaves the same state as a kill of a dispatch.
If the scan shows that dispatch cannot make queues from this log, they are deleted again.
"""

from __future__ import annotations

from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.engine.queues.consume_queues import ConsumeQueues

MAKING_ROWS = 32768
"""Records of a batch: a batch costs a write for each of its queues, and should stay in a core's cache."""


class QueueMaker:
    """Writes the records of a scan into queues, each queue's in order from queue offset 0 on.

    Attributes
    ----------
    made : bool
        True if the queues have all records passed to `take`.
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
        """Delete the queues made, and ignore later batches.

        Raises
        ------
        OSError
            A file cannot be deleted.
        """
        if self.made:
            self.made = False
            self._queues.destroy_all()
