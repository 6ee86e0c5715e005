"""Copies of stored messages that can be stored again."""

from __future__ import annotations

from rmqcore.codec.message import Message, MessageView
from rmqcore.vocabulary.properties import REAL_QUEUE_ID, REAL_TOPIC


def copy_of(
    view: MessageView, topic: str, queue_id: int, properties: dict[str, str] | None = None
) -> Message:
    """Return a message with the body, flags, times, hosts and properties of a stored one, for another topic or queue.

    Parameters
    ----------
    view : MessageView
    topic : str
    queue_id : int
    properties : dict, optional
        Replace the message's own.
    """
    return Message(
        topic,
        view.body,
        queue_id,
        properties=view.properties if properties is None else properties,
        flag=view.flag,
        sys_flag=view.sys_flag,
        born_timestamp_ms=view.born_timestamp_ms,
        born_host=view.born_host,
        store_host=view.store_host,
        reconsume_times=view.reconsume_times,
    )


def real_place(view: MessageView) -> tuple[str, int]:
    """Return the topic and queue that a message was sent to, if it was stored elsewhere.

    Raises
    ------
    ValueError
        The properties lack the real topic or queue.
    """
    properties = view.properties
    topic, queue_id = properties.get(REAL_TOPIC), properties.get(REAL_QUEUE_ID, "")
    if topic is None or not (queue_id.isascii() and queue_id.isdigit() and len(queue_id) <= 9):
        raise ValueError(
            f"the message at {view.phy_offset} has REAL_TOPIC {topic!r} and REAL_QID {queue_id[:40]!r}"
        )
    return topic, int(queue_id)
