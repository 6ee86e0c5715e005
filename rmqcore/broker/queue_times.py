"""Store times of the messages of a queue. The functions read queues and log, and may wait for the disk.

Source: RocketMQ 5.5.0 DefaultMessageStore#getMessageStoreTimeStamp, #getEarliestMessageTime.
"""

from __future__ import annotations

from rmqcore.engine.store.store import MessageStore

NONE = -1


def store_time(store: MessageStore, topic: str, queue_id: int, queue_offset: int) -> int:
    """Return the store time of a message in milliseconds; -1 if the message is missing."""
    phy_offset = store.phy_offset_of(topic, queue_id, queue_offset) if queue_offset >= 0 else None
    return NONE if phy_offset is None else _time_at(store, phy_offset)


def _time_at(store: MessageStore, phy_offset: int) -> int:
    store.read_in_at(phy_offset)
    view = store.lookup(phy_offset)
    return NONE if view is None else view.store_timestamp_ms


def earliest_time(store: MessageStore, topic: str, queue_id: int) -> int:
    """Return the store time of a queue's first message in milliseconds; -1 if the queue is empty."""
    return store_time(store, topic, queue_id, store.min_offset(topic, queue_id))


def earliest_of_all(store: MessageStore) -> int:
    """Return the store time of the first message of the log in milliseconds; -1 if the log is empty."""
    return _time_at(store, store.min_phy_offset)
