"""A heartbeat: the producer and consumer groups of a client, and their subscriptions.

Source: RocketMQ 5.5.0 HeartbeatData, ConsumerData, SubscriptionData.
"""

from __future__ import annotations

from dataclasses import dataclass

from rmqcore.remoting.bodies.json_object import JsonObject, encode_json, parse_body

TAG = "TAG"
SQL92 = "SQL92"
SUBSCRIBE_ALL = "*"
# In Java's order: some clients write the number of a value.
_CONSUME_TYPES = ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP")
_MESSAGE_MODELS = ("BROADCASTING", "CLUSTERING")
_CONSUME_FROM_WHERE = (
    "CONSUME_FROM_LAST_OFFSET",
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
)


@dataclass(frozen=True, slots=True)
class SubscriptionData:
    """Subscription of a group to a topic. `tags` and `codes`, their hashes, are empty if it wants all messages."""

    topic: str
    sub_string: str = SUBSCRIBE_ALL
    tags: frozenset[str] = frozenset()
    codes: frozenset[int] = frozenset()
    sub_version: int = 0
    expression_type: str = TAG
    class_filter_mode: bool = False


@dataclass(frozen=True, slots=True)
class ConsumerData:
    """A consumer group of a client; the three texts are the names of Java's enum values."""

    group_name: str
    consume_type: str
    message_model: str
    consume_from_where: str
    subscriptions: tuple[SubscriptionData, ...] = ()
    unit_mode: bool = False


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """State that a client sends every half minute.

    Attributes
    ----------
    client_id : str
    producer_groups : tuple of str
    consumers : tuple of ConsumerData
    fingerprint : int
        0 if the client does not shorten its heartbeats.
    without_sub : bool
        Subscriptions are left out, because they equal those of the last heartbeat with this fingerprint.
    """

    client_id: str
    producer_groups: tuple[str, ...] = ()
    consumers: tuple[ConsumerData, ...] = ()
    fingerprint: int = 0
    without_sub: bool = False


def parse_heartbeat(request: str, body: bytes) -> Heartbeat:
    """Read the body of HEART_BEAT.

    Raises
    ------
    RequestError
        The body is not a valid heartbeat.
    """
    found = parse_body(request, body)
    return Heartbeat(
        found.text("clientID"),
        tuple(producer.text("groupName") for producer in found.objects("producerDataSet")),
        tuple(_consumer(consumer) for consumer in found.objects("consumerDataSet")),
        found.number("heartbeatFingerprint", 0),
        found.flag("withoutSub"),
    )


def encode_heartbeat(heartbeat: Heartbeat) -> bytes:
    """Write the body of HEART_BEAT."""
    return encode_json(
        {
            "clientID": heartbeat.client_id,
            "consumerDataSet": [
                {
                    "consumeFromWhere": consumer.consume_from_where,
                    "consumeType": consumer.consume_type,
                    "groupName": consumer.group_name,
                    "messageModel": consumer.message_model,
                    "subscriptionDataSet": [
                        subscription_json(wanted) for wanted in consumer.subscriptions
                    ],
                    "unitMode": consumer.unit_mode,
                }
                for consumer in heartbeat.consumers
            ],
            "heartbeatFingerprint": heartbeat.fingerprint,
            "producerDataSet": [{"groupName": group} for group in heartbeat.producer_groups],
            "withoutSub": heartbeat.without_sub,
        }
    )


def parse_subscription(found: JsonObject) -> SubscriptionData:
    """Read a subscription, which is a part of more than one body."""
    return SubscriptionData(
        found.text("topic"),
        found.text("subString", SUBSCRIBE_ALL),
        frozenset(found.texts("tagsSet")),
        frozenset(found.numbers("codeSet")),
        found.number("subVersion", 0),
        found.text("expressionType", TAG),
        found.flag("classFilterMode"),
    )


def subscription_json(wanted: SubscriptionData) -> dict[str, object]:
    """Return a subscription by Java's names."""
    return {
        "classFilterMode": wanted.class_filter_mode,
        "codeSet": sorted(wanted.codes),
        "expressionType": wanted.expression_type,
        "subString": wanted.sub_string,
        "subVersion": wanted.sub_version,
        "tagsSet": sorted(wanted.tags),
        "topic": wanted.topic,
    }


def _consumer(found: JsonObject) -> ConsumerData:
    return ConsumerData(
        found.text("groupName"),
        found.enum_name("consumeType", _CONSUME_TYPES),
        found.enum_name("messageModel", _MESSAGE_MODELS),
        found.enum_name("consumeFromWhere", _CONSUME_FROM_WHERE),
        tuple(parse_subscription(wanted) for wanted in found.objects("subscriptionDataSet")),
        found.flag("unitMode"),
    )
