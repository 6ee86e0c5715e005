"""Comparison of the queue offsets at which a read begins with the present beginnings of the queues."""

from __future__ import annotations

from collections.abc import Iterable

from rmqcore.errors import DataLossError
from rmqcore.offline.queues.queues import queue_info
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.options.values import QueueOffsets
from rmqcore.spark.storage.store_location import StoreLocation


def check_queue_starts(options: SourceOptions, stores: Iterable[StoreLocation]) -> None:
    """Make sure that no queue begins behind its queue offset in ``startingOffsets``, if failOnDataLoss is on.

    Looks into the ConsumeQueues of the queues that the option names. A queue without ConsumeQueue files passes, and so do
    ``earliest`` and ``latest``.

    Raises
    ------
    DataLossError
        Messages from that queue offset on were deleted with their CommitLog file.
    """
    starts = options.starting_offsets
    if (
        options.fail_on_data_loss
        and options.starting_timestamp is None
        and not isinstance(starts, str)
    ):
        for store in stores:
            _check_store(store, starts)


def _check_store(store: StoreLocation, starts: QueueOffsets) -> None:
    wanted = {
        (topic, queue_id): queue_offset
        for topic, brokers in starts.items()
        for queue_id, queue_offset in brokers.get(store.broker, {}).items()
        if queue_offset >= 0
    }
    files = store.log_files() if wanted else []
    log_min = files[0].file_from_offset if files else 0
    with store.local_queues(*wanted) as queues:
        for queue, queue_offset in zip(queues, wanted.values(), strict=True):
            first = queue_info(queue, log_min).min_offset
            if queue_offset < first:
                raise DataLossError(
                    store.broker,
                    queue_offset,
                    first,
                    "its file was deleted",
                    queue=f"{queue.topic}/{queue.queue_id}",
                )
