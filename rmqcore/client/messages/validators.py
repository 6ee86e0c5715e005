"""What a client refuses before it asks anybody.

Source: RocketMQ 5.5.0 Validators, TopicValidator.
"""

from __future__ import annotations

import re

RETRY_PREFIX = "%RETRY%"
DEFAULT_TOPIC = "TBW102"
"""The topic whose brokers and queues stand in for those of a topic that a send is to create."""
MOST_TOPIC_LETTERS, MOST_GROUP_LETTERS = 127, 120
_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")
_NOT_FOR_SENDS = frozenset(
    {
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    }
)
_TRANSACTION = "TRAN_MSG"
_DELAYS = ("DELAY", "TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS")


def check_topic(topic: str) -> None:
    """Refuse what is no name of a topic.

    Raises
    ------
    ValueError
        It is none.
    """
    _check_name("topic", topic, MOST_TOPIC_LETTERS)


def check_group(group: str) -> None:
    """Refuse what is no name of a group.

    Raises
    ------
    ValueError
        It is none.
    """
    _check_name("group", group, MOST_GROUP_LETTERS)


def check_topic_for_send(topic: str) -> None:
    """Refuse also the topics that brokers alone write.

    Raises
    ------
    ValueError
        Nobody may send there.
    """
    check_topic(topic)
    if topic in _NOT_FOR_SENDS:
        raise ValueError(f"topic {topic} is written by brokers alone")


def check_body(size: int, max_message_size: int) -> None:
    """Refuse a body that brokers do not take.

    Raises
    ------
    ValueError
        It is empty or too long.
    """
    if not 0 < size <= max_message_size:
        raise ValueError(f"a body of {size} bytes, expected 1 to {max_message_size}")


def check_properties(properties: dict[str, str], *, in_batch: bool) -> None:
    """Refuse properties that ask for what this client does not do.

    Raises
    ------
    ValueError
        They make half of a transaction, or delay messages of a batch, which brokers do not do.
    """
    if properties.get(_TRANSACTION, "").lower() == "true":
        raise ValueError(
            f"property {_TRANSACTION}: this client does not send messages of transactions"
        )
    if in_batch:
        for name in _DELAYS:
            if name in properties:
                raise ValueError(f"property {name}: messages of a batch are not delayed")


def _check_name(kind: str, name: str, most: int) -> None:
    if not _LEGAL.fullmatch(name):
        raise ValueError(
            f"{kind} {name[:200]!a} is no name: letters of ASCII, digits, and any of %|_-"
        )
    if len(name) > most:
        raise ValueError(f"{kind} {name[:20]}...: {len(name)} letters, at most {most} are allowed")
