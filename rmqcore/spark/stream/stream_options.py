"""The options of a read in a stream: which are refused, and what the others mean."""

from __future__ import annotations

from rmqcore.offline.queues.queues import list_queues
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.options.values import LATEST, QueueOffsets
from rmqcore.spark.storage.locations import StoreLocation
from rmqcore.spark.storage.store_location import QUEUE_PARTS
from rmqcore.spark.stream.cursor import StreamRules
from rmqcore.spark.stream.start import StreamStart
from rmqcore.spark.tables.queue_starts import check_queue_starts


def check_stream_options(options: SourceOptions, *, has_limits: bool = True) -> None:
    """Refuse options that have no meaning for a stream.

    Parameters
    ----------
    options : SourceOptions
    has_limits : bool
        This PySpark passes a stream its offset and limits (4.2 and later).

    Raises
    ------
    ValueError
        The table is not messages, an option sets an end, or this PySpark cannot apply a limit.
    """
    if options.table != "messages":
        raise ValueError(f"a stream reads table=messages, not table={options.table}")
    ends = {
        "endingOffsets": None if options.ending_offsets == "latest" else options.ending_offsets,
        "endingTimestamp": options.ending_timestamp,
        "endingPhyOffset": options.ending_phy_offset,
    }
    given = [name for name, value in ends.items() if value is not None]
    if given:
        raise ValueError(f"option {given[0]} does not apply to a stream, which has no end")
    if has_limits:
        return
    needs = {
        "maxRecordsPerTrigger": options.max_records_per_trigger,
        "maxBytesPerTrigger": options.max_bytes_per_trigger,
        "startingOffsets with queue offsets": None
        if isinstance(options.starting_offsets, str)
        else options.starting_offsets,
    }
    given = [name for name, value in needs.items() if value is not None]
    if given:
        raise ValueError(f"{given[0]} needs PySpark 4.2 or later in a stream")


def stream_start(options: SourceOptions) -> StreamStart:
    """Return where a new stream begins in the logs, without queue offsets: see `first_queue_offsets`."""
    return StreamStart(
        latest=options.starting_offsets == "latest",
        timestamp_ms=options.starting_timestamp,
        phy_offset=options.starting_phy_offset,
    )


def stream_rules(options: SourceOptions) -> StreamRules:
    """Return the rules by the options tailGuard, failOnDataLoss and onDamage."""
    return StreamRules(options.tail_guard, options.fail_on_data_loss, options.on_damage)


def first_queue_offsets(options: SourceOptions, stores: list[StoreLocation]) -> QueueOffsets:
    """Return the queue offsets at which a new stream begins; ``latest`` becomes the queue's present end.

    Raises
    ------
    DataLossError
        failOnDataLoss is on, and a queue begins behind the offset given for it.
    """
    if isinstance(options.starting_offsets, str) or options.starting_timestamp is not None:
        return {}
    found: QueueOffsets = {}
    ends: dict[str, dict[tuple[str, int], int]] = {}
    by_name = {store.broker: store for store in stores}
    check_queue_starts(options, stores)
    for topic, brokers in options.starting_offsets.items():
        for broker, queues in brokers.items():
            for queue_id, queue_offset in queues.items():
                if queue_offset == LATEST:
                    if broker not in ends:
                        ends[broker] = _queue_ends(by_name.get(broker))
                    queue_offset = ends[broker].get((topic, queue_id), 0)  # noqa: PLW2901
                found.setdefault(topic, {}).setdefault(broker, {})[queue_id] = queue_offset
    return found


def _queue_ends(store: StoreLocation | None) -> dict[tuple[str, int], int]:
    if store is None:
        return {}
    files = store.log_files()
    first = files[0].file_from_offset if files else 0
    with store.local_copy(*QUEUE_PARTS) as paths:
        queues = list_queues(paths, first)
    return {(queue.topic, queue.queue_id): queue.max_offset for queue in queues}
