"""Checks that a client makes before it sends a request.

Source: RocketMQ 5.5.0 Validators, TopicValidator.
"""

from __future__ import annotations

from rmqcore.errors.arguments import check_texts
from rmqcore.remoting.names import LEGAL, MOST_GROUP_LETTERS, MOST_TOPIC_LETTERS
from rmqcore.vocabulary.properties import DELAY, PREPARED, TIMER_PROPERTIES
from rmqcore.vocabulary.topics import NOT_FOR_SENDS

_DELAYS = (DELAY, *TIMER_PROPERTIES)


def check_topic(topic: str) -> None:
    """Check that a text is a valid topic name.

    Raises
    ------
    ValueError
        The name is invalid.
    """
    _check_name("topic", topic, MOST_TOPIC_LETTERS)


def check_group(group: str) -> None:
    """Check that a text is a valid group name.

    Raises
    ------
    ValueError
        The name is invalid.
    """
    _check_name("group", group, MOST_GROUP_LETTERS)


def check_topic_for_send(topic: str) -> None:
    """Check a topic name, and refuse topics to which only brokers write.

    Raises
    ------
    ValueError
        Clients cannot send to the topic.
    """
    check_topic(topic)
    if topic in NOT_FOR_SENDS:
        raise ValueError(f"topic {topic} can only be written by brokers")


def check_body(size: int, max_message_size: int) -> None:
    """Refuse a body that brokers do not accept.

    Raises
    ------
    ValueError
        The body is empty or too long.
    """
    if not 0 < size <= max_message_size:
        raise ValueError(f"a body of {size} bytes, expected 1 to {max_message_size}")


def check_properties(properties: dict[str, str], *, in_batch: bool) -> None:
    """Refuse properties that this client does not support.

    Raises
    ------
    ValueError
        The properties start a transaction, or delay messages of a batch, which brokers do not support.
    """
    if properties.get(PREPARED, "").lower() == "true":
        raise ValueError(f"property {PREPARED}: this client does not support transactions")
    if in_batch:
        for name in _DELAYS:
            if name in properties:
                raise ValueError(f"property {name}: messages of a batch cannot be delayed")


def _check_name(kind: str, name: str, most: int) -> None:
    check_texts(**{kind: name})
    if not (name and LEGAL.fullmatch(name)):
        raise ValueError(
            f"{kind} {name[:200]!a} is not a valid name, expected ASCII letters, digits, and any "
            "of %|_-"
        )
    if len(name) > most:
        raise ValueError(f"{kind} {name[:20]}...: {len(name)} characters, expected at most {most}")
