"""The rules for names of topics and groups, and the names that RocketMQ derives from a group's.

Source: RocketMQ 5.5.0 TopicValidator, MixAll.
"""

from __future__ import annotations

import re

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
"""What a query has, beside its fields, whose key is a message's own and not one of its KEYS."""
MOST_TOPIC_LETTERS, MOST_RETRY_OR_DLQ_LETTERS, MOST_GROUP_LETTERS = 127, 255, 120

LEGAL = re.compile(r"[%|a-zA-Z0-9_-]*")
"""What names are made of."""
_ILLEGAL = "contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"


def wrong_topic(topic: str) -> str | None:
    """Return the fault of a topic's name, in Java's words; None if the name is valid.

    Source: RocketMQ 5.5.0 TopicValidator#validateTopic.
    """
    if not topic.strip():
        return "The specified topic is blank."
    if not LEGAL.fullmatch(topic):
        return f"The specified topic: {topic}, {_ILLEGAL}"
    if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        if len(topic) > MOST_RETRY_OR_DLQ_LETTERS:
            longer = f"and it's longer than topic max length: {MOST_RETRY_OR_DLQ_LETTERS}"
            return f"The specified topic is DLQ or Retry topic: {topic}, {longer}"
    elif len(topic) > MOST_TOPIC_LETTERS:
        return (
            f"The specified topic: {topic}, is longer than topic max length: {MOST_TOPIC_LETTERS}"
        )
    return None


def wrong_group(group: str) -> str | None:
    """Return the fault of a group's name, in Java's words; None if the name is valid.

    Source: RocketMQ 5.5.0 TopicValidator#validateGroup.
    """
    if not group.strip():
        return "The specified group is blank."
    if not LEGAL.fullmatch(group):
        return f"The specified group: {group}, {_ILLEGAL}"
    if len(group) > MOST_GROUP_LETTERS:
        return (
            f"The specified group: {group}, is longer than group max length: {MOST_GROUP_LETTERS}"
        )
    return None


def retry_topic(group: str) -> str:
    """Return the name of the topic in which a group's messages wait for another delivery."""
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """Return the name of the topic for messages that a group could not consume."""
    return DLQ_PREFIX + group
