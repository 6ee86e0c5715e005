"""Subscription of a consumer to a topic, by the texts of tags.

Source: RocketMQ 5.5.0 FilterAPI#buildSubscriptionData, PullAPIWrapper#processPullResult.
"""

from __future__ import annotations

from rmqcore.codec import java_hash
from rmqcore.errors.arguments import check_texts
from rmqcore.remoting.bodies.heartbeat import SUBSCRIBE_ALL, SubscriptionData


def subscription(topic: str, tags: str, now_ms: int) -> SubscriptionData:
    """Read ``TagA || TagB``; ``*`` and an empty text mean all messages.

    Raises
    ------
    ValueError
        The text has bars but no tag.
    TypeError
        The tags are not a text.
    """
    check_texts(tags=tags)
    if tags in {"", SUBSCRIBE_ALL}:
        return SubscriptionData(topic, sub_version=now_ms)
    wanted = frozenset(tag for part in tags.split("||") if (tag := part.strip()))
    if not wanted:
        raise ValueError(
            f"tags {tags[:200]!r} do not contain a tag, expected 'TagA || TagB' or '*'"
        )
    codes = frozenset(java_hash(tag) for tag in wanted)
    return SubscriptionData(topic, tags, wanted, codes, now_ms)


def is_wanted(wanted: SubscriptionData, tags: str | None) -> bool:
    """Return True if a message has a tag of the subscription: brokers only compare hashes, which different tags can share."""
    return not wanted.tags or tags in wanted.tags
