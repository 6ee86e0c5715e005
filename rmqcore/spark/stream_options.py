"""What the options of a read mean for a stream."""

from __future__ import annotations

from rmqcore.offline.queues import list_queues
from rmqcore.spark.locations import StoreLocation
from rmqcore.spark.option_values import LATEST, QueueOffsets
from rmqcore.spark.options import SourceOptions
from rmqcore.spark.queue_starts import check_queue_starts
from rmqcore.spark.stream_cursor import StreamRules
from rmqcore.spark.stream_start import StreamStart
from rmqcore.spark.table import check_brokers


def check_stream_options(options: SourceOptions, *, has_limits: bool = True) -> None:
    """Refuse what has no meaning for a stream.

    Parameters
    ----------
    options : SourceOptions
    has_limits : bool
        This PySpark hands a stream its offset and limits (4.2 and later).

    Raises
    ------
    ValueError
        Another table than messages, an end, or limits that this PySpark cannot keep.
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
        raise ValueError(f"option {given[0]} has no meaning for a stream: it has no end")
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
    """Where a new stream begins in the logs; with queue offsets at their beginning, see `first_queue_offsets`."""
    return StreamStart(
        latest=options.starting_offsets == "latest",
        timestamp_ms=options.starting_timestamp,
        phy_offset=options.starting_phy_offset,
    )


def stream_rules(options: SourceOptions) -> StreamRules:
    """What a stream believes of a live log."""
    return StreamRules(options.tail_guard, options.fail_on_data_loss)


def check_named_stores(options: SourceOptions, stores: list[StoreLocation]) -> None:
    """Raise ValueError when an option says where a store begins that is not there; a batch read looks at that earlier."""
    if isinstance(options.starting_phy_offset, dict):
        check_brokers(stores, options.starting_phy_offset, "startingPhyOffset")
    if not isinstance(options.starting_offsets, str):
        named = {broker for brokers in options.starting_offsets.values() for broker in brokers}
        check_brokers(stores, sorted(named), "startingOffsets")


def first_queue_offsets(options: SourceOptions, stores: list[StoreLocation]) -> QueueOffsets:
    """The queue offsets that a new stream begins with; ``latest`` is what a queue holds now.

    Raises
    ------
    DataLossError
        A queue begins behind the offset given for it, with failOnDataLoss.
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
    with store.local_copy("consumequeue") as paths:
        queues = list_queues(paths, first)
    return {(queue.topic, queue.queue_id): queue.max_offset for queue in queues}
